"""A member that comes late gets each sum once, in its state or after it, in whatever order the two arrive.

The test stands in the coordinator's place, and in that of the member's only neighbour, who gives 10**version.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import tfwave.reduce.member as member_module
from tfwave.proto.reduce_pb2 import Form, Give, Go, Order, Report, Verdict, Welcome
from tfwave.reduce.arrivals import KEY_BYTES, Arrivals, call
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.ring import Ring
from tfwave.reduce.state import receive_state, send_state

LIMIT = 60
STATE_KEY, RING_KEY = b"s" * KEY_BYTES, b"r" * KEY_BYTES
BEFORE = 2
"""Reduces that there were when it came; two more follow while its state is on its way."""
LAST = BEFORE + 2


class Line:
    """Carries orders out when the test says so, in the test's thread, and keeps the reports."""

    def __init__(self, *_: Any) -> None:
        self.reports: list[Report] = []

    def open(self, work: Callable[[Order], None], hello: Report) -> None:
        self.work = work
        self.reports.append(hello)

    def say(self, report: Report) -> None:
        self.reports.append(report)

    def close(self) -> None:
        return

    def wait_for(self, is_it: Callable[[Report], bool]) -> None:
        end = time.monotonic() + LIMIT
        while not any(map(is_it, self.reports)):
            assert time.monotonic() < end
            time.sleep(0.001)


class Late:
    """The member, in a ring with the test, before its state has come."""

    def __init__(self, member: Member, line: Line, threads: ThreadPoolExecutor) -> None:
        self.member, self.line, self.threads = member, line, threads
        self.joined = threads.submit(member.join, _state(0))
        line.wait_for(lambda report: report.HasField("hello"))
        self.address = line.reports[0].hello.address
        line.work(Order(welcome=Welcome(version=BEFORE, state_key=STATE_KEY)))
        self.arrivals = Arrivals("127.0.0.1")
        right = call(self.address, RING_KEY, LIMIT)
        line.work(Order(form=Form(key=RING_KEY, index=0, members=2, next=self.arrivals.address)))
        self.neighbour = Ring(1, 2, self.arrivals.take(RING_KEY, LIMIT, lambda: False), right)

    def close(self) -> None:
        self.neighbour.close()
        self.arrivals.close()

    def go(self, version: int) -> None:
        gives = np.array([10.0**version, 0.0])
        summed = self.threads.submit(self.neighbour.sum, gives)
        self.line.work(Order(go=Go(attempt=version, version=version)))
        summed.result(LIMIT)

    def settle(self, version: int) -> None:
        self.line.work(Order(verdict=Verdict(attempt=version, commit=True, joined=1)))

    def bring(self, version: int) -> np.ndarray:
        """Its state comes, with all sums up to this one in it."""
        send_state(self.address, STATE_KEY, LIMIT, version, _state(version))
        state = self.joined.result(LIMIT)
        assert state is not None
        return np.frombuffer(state).copy()


def _state(version: int) -> bytes:
    """Sums up to it, added up."""
    return np.array([sum(10.0**one for one in range(1, version + 1)), 0.0]).tobytes()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[Late]:
    monkeypatch.setattr(member_module, "Line", Line)
    options = Options(rank=0, workers=2, coordinator="127.0.0.1:1", deadline=LIMIT, patience=LIMIT)
    with ThreadPoolExecutor(4) as threads, Member(options, 2, np.float64) as member:
        line: Any = member._line
        late = Late(member, line, threads)
        yield late
        late.close()


ORDERS = [("go", BEFORE + 1), ("settle", BEFORE + 1), ("go", LAST), ("settle", LAST)]
ARRIVALS = [
    (place, version)
    for version in range(BEFORE, LAST + 1)
    for place in range(len(ORDERS) + 1)
    if version == BEFORE or place > ORDERS.index(("go", version))  # who brings it has it from that reduce
]


@pytest.mark.parametrize(("place", "version"), ARRIVALS)
def test_the_state_may_come_at_any_moment(late: Late, place: int, version: int) -> None:
    """After `place` orders the state comes that has the sums up to `version`."""
    for kind, number in ORDERS[:place]:
        getattr(late, kind)(number)
    total = late.bring(version)
    for kind, number in ORDERS[place:]:
        getattr(late, kind)(number)
    gave = late.threads.submit(late.member.exchange, np.array([0.0, 1.0]))
    late.line.wait_for(lambda report: report.held == 1)
    late.go(LAST + 1)
    late.settle(LAST + 1)
    updates = gave.result(LIMIT)
    assert [update.version for update in updates] == list(range(version + 1, LAST + 2))
    for update in updates:
        total += update.values
    assert total.tolist() == [np.frombuffer(_state(LAST + 1))[0], 1.0]


class Hurried(Line):
    """Has the first member's weights come, and is told whom to give them to, before `join` gets its turn."""

    def open(self, work: Callable[[Order], None], hello: Report) -> None:
        super().open(work, hello)
        work(Order(welcome=Welcome(state_key=STATE_KEY)))
        send_state(hello.hello.address, STATE_KEY, LIMIT, 0, b"the first's")
        self.wait_for(lambda report: report.has_state)
        self.told_in_join()

    def told_in_join(self) -> None:
        """What else comes so early."""


@pytest.mark.parametrize("in_join", [True, False])
def test_who_has_the_first_ones_weights_gives_them_on_before_the_first_reduce(
    monkeypatch: pytest.MonkeyPatch, in_join: bool
) -> None:
    """It may be in its first step, whose reduce waits for the one that lacks them, until then."""
    with ExitStack() as stack:
        arrivals = Arrivals("127.0.0.1")
        stack.callback(arrivals.close)
        give = Order(give=Give(address=arrivals.address, key=STATE_KEY))
        if in_join:
            monkeypatch.setattr(Hurried, "told_in_join", lambda line: line.work(give))
        monkeypatch.setattr(member_module, "Line", Hurried)
        options = Options(rank=1, workers=3, coordinator="127.0.0.1:1", deadline=LIMIT, patience=LIMIT)
        member = stack.enter_context(Member(options, 1))
        assert member.join(b"of its own!") == b"the first's"
        if not in_join:
            line: Any = member._line
            line.work(give)
        assert not member._donor.is_asked
        came = stack.enter_context(arrivals.take(STATE_KEY, LIMIT, lambda: False))
        assert receive_state(came, 11) == (0, b"the first's")
