"""One training after another, at one coordinator or at the next one of the same address."""

import queue
import socket
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from tests.ports import free_ports
from tests.unit.reduce.by_hand import joined, served
from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import End, Form, Hello, Order, Report
from tfwave.reduce.arrivals import call
from tfwave.reduce.coordinator import Inbox, coordinate
from tfwave.reduce.line import Line
from tfwave.reduce.link import Link
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.outbox import in_order
from tfwave.reduce.peer import Peer
from tfwave.reduce.seat import Seat
from tfwave.reduce.service import Coordinator, _Service

GRPC: Any = grpc
LIMIT = 60
CLOSED = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
"""A thread of gRPC may say that its channel is closed."""

LIMITS: dict[str, Any] = {"deadline_seconds": 60, "patience_seconds": 60}


def arrive(inbox: Inbox, workers: int) -> list[Peer]:
    """All of them, in the order of their ranks."""
    peers = [
        Peer(rank, Hello(rank=rank, workers=workers, address=f"h:{rank + 1}", **LIMITS))
        for rank in range(workers)
    ]
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


def test_who_lost_the_line_and_comes_again_is_one() -> None:
    inbox = Inbox()
    lost, other = arrive(Inbox(), 2)
    again = Peer(2, lost.hello)
    for peer in (lost, again, other):
        inbox.put((peer, Report(hello=peer.hello)))
    inbox.put((None, None))
    coordinate(inbox, lambda: None)
    assert [form.members for form in forms([again, other])] == [2, 2]


def test_a_coordinator_of_one_training_takes_nobody_into_another() -> None:
    inbox, ended = Inbox(), list[bool]()
    train(inbox, 2, 2)
    late = arrive(inbox, 2)
    inbox.put((None, None))
    coordinate(inbox, lambda: ended.append(True), once=True)
    assert ended
    assert all(peer.orders.empty() for peer in late)


def fit(rank: int, address: str) -> None:
    with Member(Options(rank, 2, address, patience=LIMIT), 1) as member:
        member.join(b"")
        assert not list(member.drain(bytes))


def test_who_is_the_first_to_begin_the_next_training_waits_for_its_coordinator() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with ThreadPoolExecutor(2) as threads:
        with Coordinator(address, once=True) as coordinator:
            list(threads.map(fit, range(2), [address] * 2))
            early = threads.submit(fit, 1, address)
            coordinator._thread.join(LIMIT)  # nobody has stopped it
            assert not coordinator._thread.is_alive()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
        with Coordinator(address, once=True):
            fit(0, address)
            early.result(LIMIT)


def test_who_comes_when_a_coordinator_ends_is_not_kept_waiting() -> None:
    """Nobody coordinates any more, and the server still takes calls."""
    service = _Service(Inbox())
    service.close()
    with served(service) as address, joined(address) as (answers, link):
        assert list(in_order(answers, link)) == []


class Passing(reduce_pb2_grpc.ReduceServicer):
    """Some calls end before any order."""

    def __init__(self, calls: int, code: Any) -> None:
        self._calls, self._code = calls, code
        self.firsts: list[Report] = []
        self.links: list[Link] = []

    def Join(self, request: Report, context: Any) -> Iterator[Order]:
        self.firsts.append(request)
        if len(self.firsts) <= self._calls:
            if self._code is not None:
                context.abort(self._code, "passing")
            return
        link = Link(call(request.hello.address, request.hello.key, LIMIT), LIMIT)
        self.links.append(link)
        link.send(b"")
        yield Order(end=End(reason="heard"))
        link.finish()


@contextmanager
def called(service: Passing, seconds: float) -> Generator[tuple[Line, "queue.SimpleQueue[str]"]]:
    """A line to it, and why it is lost."""
    lost: queue.SimpleQueue[str] = queue.SimpleQueue()
    seat = Seat("127.0.0.1", LIMIT)
    with served(service) as address:
        line = Line(Options(0, 1, address, patience=seconds), seat, lambda _: None, lost.put)
        try:
            hello = Hello(rank=7, address=seat.address)
            line.open(lambda order: lost.put(order.end.reason), Report(hello=hello))
            line.say(Report(held=1))
            yield line, lost
        finally:
            line.close()
            seat.close()


@pytest.mark.parametrize("code", [GRPC.StatusCode.UNAVAILABLE, GRPC.StatusCode.CANCELLED, None])
def test_a_call_that_ends_without_an_order_is_made_again_with_the_same_hello(code: Any) -> None:
    service = Passing(2, code)
    with called(service, LIMIT) as (_, lost):
        assert lost.get(timeout=LIMIT) == "heard"
        assert "has ended" in lost.get(timeout=LIMIT)
    assert [first.hello.rank for first in service.firsts] == [7, 7, 7]
    assert len({first.hello.key for first in service.firsts}) == 3
    assert [Report.FromString(said) for said in service.links[0]] == [Report(held=1)]


@CLOSED
@pytest.mark.parametrize("code", [GRPC.StatusCode.UNAVAILABLE, None])
def test_calls_that_end_without_an_order_are_not_made_for_ever(code: Any) -> None:
    with called(Passing(1 << 30, code), 0.5) as (_, lost):
        assert "coordinator" in lost.get(timeout=LIMIT)


def test_a_call_that_is_refused_is_not_made_again() -> None:
    service = Passing(1, GRPC.StatusCode.INVALID_ARGUMENT)
    with called(service, LIMIT) as (_, lost):
        assert "passing (INVALID_ARGUMENT)" in lost.get(timeout=LIMIT)
    assert len(service.firsts) == 1


@CLOSED
def test_a_line_that_is_closed_calls_no_more() -> None:
    """In whatever it does just then."""
    with called(Passing(1 << 30, GRPC.StatusCode.UNAVAILABLE), 100 * LIMIT) as (line, lost):
        line.close()
        assert "coordinator" in lost.get(timeout=LIMIT)
