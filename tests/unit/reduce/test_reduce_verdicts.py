"""What a coordinator makes of what its members say, told by a test in the members' place."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.reduce.by_hand import joined, refusal
from tfwave.proto.reduce_pb2 import Hello, Order, Report
from tfwave.reduce.coordinator import WARM_UP, Inbox, Session, Stopped, coordinate
from tfwave.reduce.outbox import in_order
from tfwave.reduce.peer import Peer
from tfwave.reduce.service import Coordinator

LIMIT = 60
LIMITS = {"deadline_seconds": LIMIT, "patience_seconds": LIMIT}


def _hello(rank: int) -> Hello:
    return Hello(rank=rank, workers=2, address=f"h:{rank + 1}", probes=0, ticks=rank == 0, **LIMITS)


class Members:
    """Two members, both with the weights and one gradient, before their first reduce; the first asks for ticks."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.peers = [Peer(i, _hello(i)) for i in (0, 1)]
        for peer in self.peers:
            self.inbox.put((peer, Report(hello=peer.hello)))
        for i in (0, 1):
            self.hear(i, "welcome")
            if i == 0:
                assert self.hear(0, "give").give.version == 0
            assert self.hear(i, "form").form.members == 2
            self.say(i, held=1, step_seconds=i + 1)

    def _run(self) -> None:
        try:
            Session(self.inbox).run()
        except Stopped:
            return

    def say(self, who: int, *, drained: bool = True, **report: int | bool) -> None:
        self.inbox.put((self.peers[who], Report(has_state=True, drained=drained, **report)))

    def hear(self, who: int, kind: str) -> Order:
        order = self.peers[who].orders.get(timeout=LIMIT)
        assert order is not None
        assert order.WhichOneof("kind") == kind, order
        return order


@pytest.fixture
def members() -> Iterator[Members]:
    members = Members()
    for i in (0, 1):
        assert members.hear(i, "go").go.version == 1
    yield members
    members.inbox.put((None, None))
    members.thread.join(LIMIT)
    assert not members.thread.is_alive()


def test_a_sum_that_all_have_counts(members: Members) -> None:
    for i in (0, 1):
        members.say(i, attempt=1, done=True, gave=1)
    told: list[Any] = []
    for i in (0, 1):
        verdict = members.hear(i, "verdict").verdict
        assert verdict.commit
        assert verdict.joined == 1
        told.append(verdict.ticks)
        assert members.hear(i, "end").end.reason == ""
    asked, other = told
    assert [(tick.rank, tick.gave, list(tick.step_seconds)) for tick in asked] == [(0, 1, [1]), (1, 1, [2])]
    assert asked[0].waited_seconds >= asked[1].waited_seconds > 0  # its gradient was heard of before
    assert not other


def test_where_a_sum_broke_at_one_no_other_is_waited_for(members: Members) -> None:
    """It cannot count any more; who says nothing, as a stopped one, would be waited for once more."""
    begin = time.monotonic()
    members.say(1, attempt=1, done=False, gave=1)
    members.hear(0, "halt")
    assert time.monotonic() - begin < LIMIT / 2


def test_a_sum_that_one_has_not_counts_nowhere_and_what_was_given_goes_into_the_next(
    members: Members,
) -> None:
    members.say(0, attempt=1, done=True, gave=1)
    members.say(1, attempt=1, done=False, gave=1)
    for i in (0, 1):
        members.hear(i, "halt")
        members.say(i, attempt=1, done=i == 0, gave=1, halted=True)
    for i in (0, 1):
        verdict = members.hear(i, "verdict").verdict
        assert not verdict.commit
        assert not verdict.ticks
    for i in (0, 1):  # said before the verdict was heard: they are drained, but have back what they gave
        members.say(i, attempt=1, done=i == 0, gave=1)
        members.hear(i, "form")
        go = members.hear(i, "go").go
        assert (go.attempt, go.version) == (2, 1)
    for i in (0, 1):
        members.say(i, attempt=2, done=True, gave=1)
    ticks = members.hear(0, "verdict").verdict.ticks
    assert [list(tick.step_seconds) for tick in ticks] == [[1], [2]]  # they were in no reduce before


def test_a_sum_counts_if_only_the_dead_do_not_have_it(members: Members) -> None:
    members.say(0, attempt=1, done=True, gave=1)
    members.inbox.put((members.peers[1], None))
    members.hear(0, "halt")
    members.say(0, attempt=1, done=True, gave=1, halted=True)
    assert members.hear(0, "verdict").verdict.commit


def test_what_a_deputy_brought_is_passed_on_once_and_no_gradient_with_it(members: Members) -> None:
    """It says that it has something also after its group has it, until it hears of that."""
    for i in (0, 1):
        members.say(i, attempt=1, done=True, gave=1, drained=False, visit=1 - i)
    for i in (0, 1):
        members.hear(i, "verdict")
        go = members.hear(i, "go").go
        assert (go.version, go.bringer) == (2, 1)
        members.say(i, attempt=2, done=True, drained=False, visit=1 - i)
    assert not members.hear(0, "verdict").verdict.ticks
    members.hear(1, "verdict")
    for i in (0, 1):
        members.say(i, attempt=2, held=1, drained=False, visit=1 - i)
    for i in (0, 1):
        go = members.hear(i, "go").go
        assert (go.version, go.bringer) == (3, 0)


def break_reduce(members: Members, attempt: int) -> None:
    """It ended at nobody, and nobody left."""
    for i in (0, 1):
        members.say(i, attempt=attempt, gave=1, done=False)
    for i in (0, 1):
        members.hear(i, "halt")
        members.say(i, attempt=attempt, gave=1, halted=True)


def hear_of_another(members: Members) -> None:
    for kind in ("verdict", "form", "go"):
        for i in (0, 1):
            members.hear(i, kind)


def test_reduces_that_break_though_nobody_left_end_the_training(members: Members) -> None:
    for attempt in (1, 2):
        break_reduce(members, attempt)
        hear_of_another(members)
    break_reduce(members, 3)
    for i in (0, 1):
        assert "3 reduces in a row broke" in members.hear(i, "end").end.reason


def test_reduces_that_break_with_one_between_that_counts_do_not_end_it(members: Members) -> None:
    for attempt in (1, 2):
        break_reduce(members, attempt)
        hear_of_another(members)
    for i in (0, 1):
        members.say(i, attempt=3, done=True, held=1, gave=1)
    for kind in ("verdict", "go"):
        for i in (0, 1):
            members.hear(i, kind)
    break_reduce(members, 4)
    hear_of_another(members)


@pytest.mark.parametrize("commit", [True, False])
def test_who_comes_while_a_reduce_is_decided_is_in_none_but_the_next(members: Members, commit: bool) -> None:
    """Its state is asked for with the sums that counted until then, and not before it is known which."""
    late = Peer(2, Hello(rank=1, workers=2, address="127.0.0.1:1", **LIMITS))
    members.say(0, attempt=1, done=True, gave=1)
    members.inbox.put((late, Report(hello=late.hello)))
    members.peers.append(late)
    members.say(1, attempt=1, done=commit, gave=1)
    if not commit:
        for i in (0, 1):
            members.hear(i, "halt")
            members.say(i, attempt=1, done=i == 0, gave=1, halted=True)
    for i in (0, 1):
        assert members.hear(i, "verdict").verdict.commit == commit
    welcome = members.hear(2, "welcome").welcome
    assert welcome.version == commit
    give = members.hear(0, "give").give
    assert (give.key, give.version) == (welcome.state_key, commit)
    forms = [members.hear(i, "form").form for i in (0, 1, 2)]
    assert [(form.index, form.members) for form in forms] == [(0, 3), (1, 3), (2, 3)]


def test_what_the_first_member_said_before_it_heard_its_welcome_takes_no_weights_from_it() -> None:
    inbox = Inbox()
    first, other, late = (Peer(i, Hello(rank=i, workers=2, address=f"h:{i + 1}", **LIMITS)) for i in range(3))
    for peer, report in (
        (first, Report(hello=first.hello)),
        (other, Report(hello=other.hello)),
        (first, Report()),
        (late, Report(hello=late.hello)),
        (None, None),
    ):
        inbox.put((peer, report))
    coordinate(inbox, lambda: None)
    told = [first.orders.get() for _ in range(first.orders.qsize())]
    assert [order.give.address for order in told if order and order.HasField("give")] == ["h:2", "h:3"]


def test_who_left_before_all_came_sets_no_terms() -> None:
    inbox = Inbox()
    wrong = Peer(1, Hello(rank=0, workers=2, address="h:1", layout="wrong", **LIMITS))
    right = Peer(2, Hello(rank=0, workers=1, address="h:2", layout="right", **LIMITS))
    for peer, report in (
        (wrong, Report(hello=wrong.hello)),
        (wrong, None),
        (right, Report(hello=right.hello)),
    ):
        inbox.put((peer, report))
    inbox.put((None, None))
    with pytest.raises(Stopped):
        Session(inbox).run()
    first = right.orders.get_nowait()
    assert first is not None
    assert first.WhichOneof("kind") == "welcome", first


def test_a_member_that_says_hello_twice_is_one_member() -> None:
    with Coordinator() as coordinator, joined(coordinator.address) as (orders, link):
        again = Report(hello=Hello(rank=1, workers=1), has_state=True, drained=True)
        link.send(again.SerializeToString())
        heard = list(in_order(orders, link))
    assert [order.WhichOneof("kind") for order in heard] == ["welcome", "form", "end"]
    assert not heard[-1].end.reason


def test_a_member_that_says_nothing_is_none() -> None:
    with Coordinator() as coordinator:
        assert "deadline and patience must be seconds" in refusal(coordinator.address, Hello())


def test_who_says_its_steps_take_days_is_waited_for_as_long_as_there_is_patience() -> None:
    inbox = Inbox()
    limits = {"deadline_seconds": LIMIT, "patience_seconds": 0.2}
    hellos = (Hello(rank=i, workers=2, address=f"h:{i + 1}", probes=1, **limits) for i in (0, 1))
    one, other = (Peer(i, hello) for i, hello in enumerate(hellos))
    for peer in (one, other):
        inbox.put((peer, Report(hello=peer.hello)))
    for attempt in range(WARM_UP + 1):
        for peer in (one, other):
            held = int(peer is one or attempt < WARM_UP)
            inbox.put(
                (
                    peer,
                    Report(has_state=True, held=held, attempt=attempt, done=True, gave=1, step_seconds=1e6),
                )
            )
    thread = threading.Thread(target=coordinate, args=(inbox, lambda: None), daemon=True)
    thread.start()
    gone = 0
    while gone <= WARM_UP:
        order = one.orders.get(timeout=LIMIT)
        assert order is not None
        gone += order.HasField("go")
    inbox.put((None, None))
    thread.join(LIMIT)
    assert not thread.is_alive()
