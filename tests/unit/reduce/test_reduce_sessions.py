"""One training after another, at one coordinator or at the next one of the same address."""

from collections.abc import Sequence
from typing import Any

import pytest

from tfwave.proto.reduce_pb2 import Form, Hello, Report
from tfwave.reduce.coordinator import Inbox, coordinate
from tfwave.reduce.peer import Peer

LIMITS: dict[str, Any] = {"deadline_seconds": 60, "patience_seconds": 60}


def arrive(inbox: Inbox, workers: int) -> list[Peer]:
    """All of them, in the order of their ranks."""
    peers = [Peer(rank, Hello(rank=rank, workers=workers, **LIMITS)) for rank in range(workers)]
    for peer in peers:
        inbox.put((peer, Report(hello=peer.hello)))
    return peers


def train(inbox: Inbox, workers: int, left: int) -> None:
    """A training of so many, of whom the last ones are killed."""
    peers = arrive(inbox, workers)
    for peer in peers[left:]:
        inbox.put((peer, None))
    for peer in peers[:left]:
        inbox.put((peer, Report(has_state=True, drained=True)))


def forms(peers: Sequence[Peer]) -> list[Form]:
    """The first ring of each."""
    orders = [[peer.orders.get() for _ in range(peer.orders.qsize())] for peer in peers]
    return [next((one.form for one in told if one and one.HasField("form")), Form()) for told in orders]


@pytest.mark.parametrize(
    ("before", "left", "workers", "awaited"),
    [(3, 0, 3, 3), (4, 3, 2, 2), (3, 2, 3, 2), (3, 3, 3, 3)],
    ids=["all-killed", "another-job", "one-lost", "none-lost"],
)
def test_a_training_waits_for_those_that_the_same_one_before_left(
    before: int, left: int, workers: int, awaited: int
) -> None:
    """Where all were killed, whoever came first would give its weights to a worker 0 that has a checkpoint."""
    inbox = Inbox()
    train(inbox, before, left)
    peers = arrive(inbox, workers)
    inbox.put((None, None))
    coordinate(inbox, lambda: None)
    assert [form.members for form in forms(peers)[:awaited]] == [awaited] * awaited
