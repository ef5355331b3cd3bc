"""The connection by which a coordinator calls its members back, and what comes of it when it breaks."""

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.controlled import open_channel
from tests.ports import free_ports, tcp_pair
from tests.unit.reduce.by_hand import KEY, LIMIT, STUBS, joined, refusal, served
from tfwave.errors import EnforcerError
from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import End, Form, Go, Halt, Hello, Order, Report, Verdict
from tfwave.reduce import service
from tfwave.reduce.arrivals import call
from tfwave.reduce.line import Line
from tfwave.reduce.link import MOST_BYTES, Link
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.outbox import in_order
from tfwave.reduce.seat import Seat
from tfwave.reduce.service import Coordinator


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    """One end, and the raw other one."""
    other, end = tcp_pair()
    link = Link(end, 0.2)
    with other, end:
        yield link, other


class TestLink:
    def test_messages_come_whole_and_in_order(self) -> None:
        left, right = (Link(end, LIMIT) for end in tcp_pair())
        sent = [b"", b"one", bytes(100_000), b"", b"last"]
        with ThreadPoolExecutor(1) as threads:
            came = threads.submit(list, right)
            for message in sent:
                left.send(message)
            left.finish()
            assert came.result(LIMIT) == sent
        assert list(left) == []

    def test_who_takes_nothing_ends_it(self, ends: tuple[Link, socket.socket]) -> None:
        link, other = ends
        begin = time.monotonic()
        for _ in range(100):
            link.send(bytes(100_000))
        assert time.monotonic() - begin < LIMIT
        assert list(link) == []
        assert len(other.recv(1)) == 1

    def test_what_is_too_long_ends_it(self, ends: tuple[Link, socket.socket]) -> None:
        link, other = ends
        other.sendall(b"\0\0\0\1x" + (MOST_BYTES + 1).to_bytes(4, "big") + b"more")
        assert list(link) == [b"x"]

    def test_it_can_be_stopped(self, ends: tuple[Link, socket.socket]) -> None:
        link, _ = ends
        threading.Timer(0.1, link.stop).start()
        assert list(link) == []
        link.send(b"to nobody")
        link.finish()
        link.stop()


class Slow(reduce_pb2_grpc.ReduceServicer):
    """Says these by the link, in place of empty ones gives orders by the call, and those late."""

    def __init__(self, said: list[bytes], by_call: list[Order]) -> None:
        self._said, self._by_call = said, by_call
        self.links: list[Link] = []

    def Join(self, request: Report, context: Any) -> Iterator[Order]:
        del context
        link = Link(call(request.hello.address, request.hello.key, LIMIT), LIMIT)
        self.links.append(link)
        for message in self._said:
            link.send(message)
        for order in self._by_call:
            time.sleep(0.1)
            yield order
        link.finish()


def heard(said: list[bytes], by_call: list[Order]) -> tuple[list[Order], list[Order], str]:
    """What a line notices of it, what it carries out, and why it ends."""
    noticed, done = list[Order](), list[Order]()
    lost: queue.SimpleQueue[str] = queue.SimpleQueue()
    seat = Seat("127.0.0.1", LIMIT)
    with served(Slow(said, by_call)) as address:
        line = Line(Options(0, 1, address), seat, noticed.append, lost.put)
        line.open(done.append, Report(hello=Hello(address=seat.address)))
        reason = lost.get(timeout=LIMIT)
        line.close()
    seat.close()
    return noticed, done, reason


def test_orders_are_carried_out_in_one_order() -> None:
    orders = [
        Order(form=Form(index=1)),
        Order(go=Go(attempt=2)),
        Order(halt=Halt()),
        Order(form=Form(index=3)),
        Order(verdict=Verdict(attempt=4)),
        Order(end=End(reason="over")),
    ]
    by_call = [order for order in orders if order.WhichOneof("kind") in {"form", "end"}]
    said = [b"" if order in by_call else order.SerializeToString() for order in orders]
    noticed, done, _ = heard(said, by_call)
    assert done == noticed == orders


def test_what_is_no_order_ends_the_line() -> None:
    order = Order(form=Form(index=1))
    _, done, reason = heard([b"", b"\xff\xff"], [order])
    assert done == [order]
    assert "no order" in reason


def test_keys_go_by_the_call_alone() -> None:
    with Coordinator() as coordinator, joined(coordinator.address) as (orders, link):
        messages = iter(link)
        assert [next(messages) for _ in range(2)] == [b"", b""]
        welcome, form = next(orders), next(orders)
        assert welcome.HasField("welcome")
        link.send(Report(has_state=True, held=1).SerializeToString())
        assert len(form.form.key) == len(KEY)
        assert Order.FromString(next(messages)).go.version == 1


def test_a_worker_that_the_coordinator_cannot_reach_is_told_so() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    hello = Hello(rank=3, workers=4, address=address, key=KEY, deadline_seconds=0.5, patience_seconds=LIMIT)
    with Coordinator() as coordinator:
        said = refusal(coordinator.address, hello)
    assert f"cannot reach worker 3 at {address}" in said
    assert "own address" in said


def test_a_worker_whose_name_does_not_resolve_yet_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def resolved_late(address: str, key: bytes, seconds: float) -> socket.socket:
        tries.append(address)
        if len(tries) < 3:
            raise socket.gaierror("Name or service not known")
        return call(address, key, seconds)

    monkeypatch.setattr(service, "call", resolved_late)
    with Coordinator() as coordinator, joined(coordinator.address) as (orders, _):
        assert next(orders).HasField("welcome")
    assert len(tries) == 3


def test_who_leaves_before_it_is_called_back_is_not_called_for_long() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    hello = Hello(workers=1, address=address, key=KEY, deadline_seconds=1e5, patience_seconds=LIMIT)
    with Coordinator() as coordinator, open_channel(coordinator.address) as channel:
        left = STUBS.ReduceStub(channel).Join(Report(hello=hello))
        time.sleep(0.5)
        left.cancel()
        begin = time.monotonic()
    assert time.monotonic() - begin < service.LAST_WORDS_SECONDS


def test_a_member_without_a_key_is_of_another_version() -> None:
    hello = Hello(workers=1, address="127.0.0.1:1", deadline_seconds=LIMIT, patience_seconds=LIMIT)
    with Coordinator() as coordinator:
        assert "one version of tfwave" in refusal(coordinator.address, hello)


@pytest.mark.parametrize("broken", [Link.stop, lambda link: link.send(b"no report")])
def test_whose_link_breaks_is_out_and_the_others_go_on(broken: Callable[[Link], None]) -> None:
    def work(rank: int) -> Any:
        with Member(Options(rank, 2, coordinator.address, probes="all", patience=LIMIT), 1) as member:
            member.join(b"")
            (update,) = member.exchange(np.ones(1, np.float32))
            try:
                if rank:
                    link = member._line._link
                    assert link is not None
                    broken(link)
                    return list(member.drain(bytes))
                return [update.members, *(one.members for one in member.exchange(update.values))]
            except EnforcerError as error:
                return str(error)

    with Coordinator() as coordinator, ThreadPoolExecutor(2) as threads:
        stays, leaves = threads.map(work, range(2))
    assert stays == [2, 1]
    assert "run this training again" in leaves


def test_the_last_words_come_by_a_line_that_ends() -> None:
    with Coordinator() as coordinator, joined(coordinator.address) as (orders, link):
        link.send(Report(has_state=True, drained=True).SerializeToString())
        kinds = [order.WhichOneof("kind") for order in in_order(orders, link)]
        assert kinds == ["welcome", "form", "end"]
        assert next(orders, None) is None
