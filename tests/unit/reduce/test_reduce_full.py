"""What a member keeps of sums while it is busy, and who waits for it then."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tfwave.reduce.member as member_module
import tfwave.reduce.update as update_module
from tests.unit.reduce.test_reduce_late import Line
from tfwave.proto.reduce_pb2 import Form, Go, Hello, Order, Report, Verdict, Welcome
from tfwave.reduce.coordinator import Inbox, coordinate
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.peer import Peer
from tfwave.reduce.service import Coordinator
from tfwave.reduce.update import LEAST_SUMS, most_sums

LIMIT = 60
ONE = np.ones(1, np.float32)
MOST = 3


class Alone:
    """A member whose coordinator is the test; its ring is itself."""

    def __init__(self, member: Member, line: Line, threads: ThreadPoolExecutor) -> None:
        self.member, self.line, self.threads = member, line, threads
        self.version = 0

    def reduce(self, *, commit: bool = True) -> None:
        go = Go(attempt=self.version + 1, version=self.version + 1)
        self.line.work(Order(go=go))
        self.line.work(Order(verdict=Verdict(attempt=go.attempt, commit=commit, ahead=1)))
        self.version += commit

    def is_full(self) -> bool:
        """As it last said."""
        return self.line.reports[-1].full

    def fill(self) -> None:
        for _ in range(MOST - 1):
            self.reduce()
            assert not self.is_full()
        self.reduce()
        assert self.is_full()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_module, "MOST_BYTES", MOST * ONE.nbytes)


@pytest.fixture
def alone(small: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Alone]:
    del small
    monkeypatch.setattr(member_module, "Line", Line)
    options = Options(rank=0, workers=1, coordinator="127.0.0.1:1", deadline=LIMIT, patience=LIMIT)
    with ThreadPoolExecutor(1) as threads, Member(options, 1) as member:
        line: Any = member._line
        joined = threads.submit(member.join, b"")
        line.wait_for(lambda report: report.HasField("hello"))
        line.work(Order(welcome=Welcome()))
        joined.result(LIMIT)
        line.work(Order(form=Form(members=1)))
        yield Alone(member, line, threads)


def test_small_sums_are_kept_by_their_bytes_and_large_ones_by_their_number() -> None:
    assert most_sums(1 << 20) == 2048
    assert most_sums(1 << 40) == most_sums(1 << 30) == LEAST_SUMS == 2
    assert most_sums(0) > 0


def test_who_hands_a_gradient_over_takes_what_it_keeps_before_it_waits(alone: Alone) -> None:
    """No reduce goes before."""
    alone.fill()
    gave = alone.threads.submit(alone.member.exchange, ONE)
    alone.line.wait_for(lambda report: report.held == 1 and not report.full)
    alone.reduce()
    updates = gave.result(LIMIT)
    assert [update.version for update in updates[:MOST]] == list(range(1, MOST + 1))


def test_who_drains_has_room_again(alone: Alone) -> None:
    alone.fill()
    assert next(alone.member.drain(bytes)).version == 1
    assert not alone.is_full()


def test_a_sum_that_comes_to_nothing_takes_no_room(alone: Alone) -> None:
    for _ in range(MOST - 1):
        alone.reduce()
    alone.reduce(commit=False)
    assert any(report.full for report in alone.line.reports)
    assert not alone.is_full()


def told(peer: Peer) -> list[str | None]:
    """The kinds of what it was told."""
    orders = [peer.orders.get() for _ in range(peer.orders.qsize())]
    return [order.WhichOneof("kind") for order in orders if order]


@pytest.mark.parametrize("room", [True, False])
def test_no_reduce_goes_while_a_member_is_full(room: bool) -> None:
    inbox = Inbox()
    limits = {"deadline_seconds": LIMIT, "patience_seconds": LIMIT}
    peers = [Peer(rank, Hello(rank=rank, workers=2, address=f"h:{rank + 1}", **limits)) for rank in (0, 1)]
    for peer in peers:
        inbox.put((peer, Report(hello=peer.hello)))
    for peer, full in ((peers[0], True), (peers[1], False), (peers[0], not room)):
        inbox.put((peer, Report(has_state=True, held=1, full=full)))
    inbox.put((None, None))
    coordinate(inbox, lambda: None)
    assert [told(peer).count("go") for peer in peers] == [room, room]


def test_who_is_full_for_longer_than_there_is_patience_is_left_behind() -> None:
    inbox = Inbox()
    limits = {"deadline_seconds": LIMIT, "patience_seconds": 0.2}
    full, ready = (
        Peer(rank, Hello(rank=rank, workers=2, address=f"h:{rank + 1}", **limits)) for rank in (0, 1)
    )
    for peer in (full, ready):
        inbox.put((peer, Report(hello=peer.hello)))
    for peer in (full, ready):
        inbox.put((peer, Report(has_state=True, held=1, full=peer is full)))
    thread = threading.Thread(target=coordinate, args=(inbox, lambda: None), daemon=True)
    thread.start()
    said = [order.end.reason for order in iter(lambda: full.orders.get(timeout=LIMIT), None)]
    assert "it keeps as many sums as it may" in said[-1]
    assert "raise patience" in said[-1]
    while (order := ready.orders.get(timeout=LIMIT)) and not order.HasField("go"):
        assert not order.HasField("end")
    inbox.put((None, None))
    thread.join(LIMIT)
    assert not thread.is_alive()


@pytest.mark.usefixtures("small")
def test_a_busy_member_keeps_no_more_than_it_may_and_loses_none() -> None:
    """The other one takes many steps meanwhile, and waits in the end."""
    busy = threading.Event()

    def work(rank: int) -> float:
        options = Options(
            rank=rank, workers=2, coordinator=coordinator.address, probes=1, patience=LIMIT, local="sum"
        )
        with Member(options, 1) as member:
            member.join(b"")
            total = 0.0
            for step in range(8 if rank else 40):
                total += sum(float(one.values[0]) for one in member.exchange(ONE))
                if rank and step == 6:
                    wait_until_full(member)
                    busy.set()
                    assert len(member._sums._updates) == MOST
            assert busy.wait(LIMIT)
            return total + sum(float(one.values[0]) for one in member.drain(bytes))

    with Coordinator() as coordinator, ThreadPoolExecutor(2) as threads:
        assert list(threads.map(work, range(2))) == [48, 48]


def wait_until_full(member: Member) -> None:
    end = time.monotonic() + LIMIT
    while len(member._sums._updates) < MOST:
        assert time.monotonic() < end
        time.sleep(0.01)
