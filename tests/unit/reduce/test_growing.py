"""Gradients that come in buckets: what is there is summed while the rest is computed, and each counts once."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.unit.reduce.test_reduce import rings, together
from tests.waiting import wait_until
from tfwave.errors import EnforcerError
from tfwave.reduce import growing as growing_module
from tfwave.reduce.giving import Giving
from tfwave.reduce.growing import Growing, buckets_of, slices_of
from tfwave.reduce.held import Held
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.record import ReduceRecord
from tfwave.reduce.ring import Ring, RingBroken
from tfwave.reduce.service import Coordinator

LIMIT = 60
SLOW = 3.0
SIZE = 10
BUCKETS = [slice(7, 10), slice(3, 7), slice(0, 3)]
ALL = np.arange(SIZE, dtype=np.float32)


class TestBuckets:
    @pytest.mark.parametrize(
        ("sizes", "buckets"),
        [
            ([], []),
            ([1], [range(1)]),
            ([2, 2, 2], [range(2, 3), range(1, 2), range(1)]),
            ([1, 1, 1, 1], [range(2, 4), range(2)]),
            ([1, 9, 1], [range(1, 3), range(1)]),
            ([9, 1], [range(2)]),
        ],
    )
    def test_the_last_come_first_and_none_but_the_first_ones_is_small(
        self, sizes: list[int], buckets: list[range], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(growing_module, "LEAST_BYTES", 8)
        assert buckets_of(sizes, 4) == buckets

    def test_slices_are_where_the_arrays_are(self) -> None:
        assert slices_of([range(2, 4), range(2)], [3, 4, 1, 2]) == [slice(7, 10), slice(0, 7)]


class Coming:
    """Buckets of several members, of which each has its second one when all have the sum of the first."""

    def __init__(self, members: int) -> None:
        self.summed = [False] * members
        self.early = False
        self._all = threading.Barrier(members, timeout=LIMIT)

    def of(self, member: int) -> Iterator[slice]:
        if member == 0:  # without whose first one nobody can have a sum
            time.sleep(0.05)
            self.early = any(self.summed)
        yield BUCKETS[0]
        self.summed[member] = True
        self._all.wait()
        yield from BUCKETS[1:]


class TestRing:
    @pytest.mark.parametrize("count", [1, 2, 3, 5])
    def test_each_bucket_is_summed_once_it_is_there(self, count: int) -> None:
        given = [np.random.default_rng(i).normal(size=SIZE) for i in range(count)]
        made = rings(count) if count > 1 else [alone()]
        coming = Coming(count)
        with ThreadPoolExecutor(count) as threads:
            sums = list(threads.map(lambda i: made[i].sum(given[i], coming.of(i)), range(count)))
        assert (coming.summed, coming.early) == ([True] * count, False)
        for bucket in BUCKETS:
            expected = in_order([each[bucket] for each in given])
            assert [total[bucket].tobytes() for total in sums] == [expected.tobytes()] * count

    def test_a_bucket_that_does_not_come_breaks_it(self) -> None:
        begun = Growing(np.zeros(SIZE), BUCKETS)
        begun.put(np.ones(3))
        with pytest.raises(RingBroken, match="its rest has not come"):
            alone().sum(begun.values, begun.parts(0.05, lambda: False))
        assert begun.was_late


def in_order(given: Sequence[np.ndarray]) -> np.ndarray:
    """Each part is summed from one member on, in the order of the ring."""
    total, count = np.empty_like(given[0]), len(given)
    for part in range(count):
        cut = slice(len(total) * part // count, len(total) * (part + 1) // count)
        total[cut] = given[part][cut]
        for step in range(1, count):
            total[cut] = given[(part + step) % count][cut] + total[cut]
    return total


def alone() -> Ring:
    return Ring(0, 1, None, None)


class TestGiving:
    def test_one_that_waits_for_nothing_is_handed_over_with_its_first_bucket(self) -> None:
        giving = begun_early()
        assert [version for _, version in giving.held.waiting] == [4]
        assert not giving.hand(4, early=True)

    def test_behind_another_it_waits_until_it_is_whole(self) -> None:
        giving = Giving(Held("sum", 9), SIZE, np.float32, BUCKETS, LIMIT)
        giving.held.waiting.append((ALL, 3))
        due = [giving.hand(4, early=True)]
        for bucket in BUCKETS:
            due.append(giving.hand(4, early=True))
            giving.put(ALL[bucket])
        assert due == [False, False, False, True]
        assert [values.tolist() for values, _ in giving.held.waiting] == [ALL.tolist()] * 2

    def test_where_it_may_not_be_early_it_is_whole(self) -> None:
        giving = Giving(Held("sum", 9), SIZE, np.float32, BUCKETS, LIMIT)
        due = []
        for bucket in BUCKETS:
            due.append(giving.hand(4, early=False))
            giving.put(ALL[bucket])
        assert due == [False, False, True]

    def test_what_a_reduce_waited_for_in_vain_is_handed_over_when_it_is_whole(self) -> None:
        giving = begun_early()
        _, parts = giving.take(5, lambda: True)
        with pytest.raises(TimeoutError):
            list(parts)
        giving.come_to_nothing()
        giving.held.give_back()
        assert not giving.held.waiting
        due = []
        for bucket in BUCKETS[1:]:
            due.append(giving.hand(4, early=True))
            giving.put(ALL[bucket])
        assert due == [False, True]
        values, parts = giving.take(5, lambda: False)
        assert (values.tolist(), list(parts)) == (ALL.tolist(), BUCKETS)
        giving.held.settle()
        assert giving.hand(5, early=True)  # others broke that one

    def test_who_was_late_hands_over_whole_ones_from_then_on(self) -> None:
        giving = begun_early(patience=0.01)
        _, parts = giving.take(5, lambda: False)
        with pytest.raises(TimeoutError):
            list(parts)
        giving.come_to_nothing()
        for bucket in BUCKETS[1:]:
            giving.hand(4, early=True)
            giving.put(ALL[bucket])
        giving.take(5, lambda: False)
        giving.held.settle()
        assert not giving.hand(5, early=True)

    def test_what_is_whole_is_given_again_at_once(self) -> None:
        giving = begun_early()
        giving.take(5, lambda: False)
        for bucket in BUCKETS[1:]:
            giving.hand(4, early=True)
            giving.put(ALL[bucket])
        giving.come_to_nothing()
        giving.held.give_back()
        assert len(giving.held.waiting) == 1

    def test_one_that_is_abandoned_ends_the_reduce_that_waits_for_it(self) -> None:
        giving = begun_early(patience=2 * LIMIT)
        _, parts = giving.take(5, lambda: False)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(list, parts)
            assert giving.abandon()
            with pytest.raises(TimeoutError, match="its rest has not come"):
                waiting.result(LIMIT)
        assert giving.held.waiting == giving.held.lent == []
        assert not giving.abandon()
        assert giving.hand(5, early=True)

    def test_a_reduce_that_was_ordered_before_it_was_abandoned_is_ended_too(self) -> None:
        """Nothing in its place would be the sum of the others, or of nobody; and the next one has what there is."""
        giving = begun_early(patience=2 * LIMIT)
        assert giving.abandon()
        _, parts = giving.take(5, lambda: False)
        with pytest.raises(TimeoutError, match="its rest has not come"):
            list(parts)
        giving.come_to_nothing()
        giving.held.give_back()
        nothing, parts = giving.take(6, lambda: False)
        assert (nothing.any(), list(parts)) == (False, BUCKETS)

    def test_what_was_handed_over_behind_an_abandoned_one_is_taken(self) -> None:
        giving = begun_early()
        giving.abandon()
        for bucket in BUCKETS:
            giving.hand(4, early=True)
            giving.put(ALL[bucket])
        values, parts = giving.take(5, lambda: False)
        assert (values.tolist(), list(parts)) == (ALL.tolist(), BUCKETS)
        assert not giving.take(6, lambda: False)[0].any()


def begun_early(patience: float = LIMIT) -> Giving:
    giving = Giving(Held("sum", 9), SIZE, np.float32, BUCKETS, patience)
    assert giving.hand(4, early=True)
    giving.put(ALL[BUCKETS[0]])
    return giving


@contextmanager
def member(rank: int, address: str, **more: Any) -> Iterator[Member]:
    record = more.pop("record", None)
    given = {"rank": rank, "workers": 2, "coordinator": address, "patience": LIMIT, "probes": "all", **more}
    with Member(Options(**given), SIZE, buckets=BUCKETS, record=record) as made:
        made.join(b"")
        yield made


def put(made: Member, values: np.ndarray, buckets: Sequence[slice] = BUCKETS) -> None:
    for bucket in buckets:
        made.put(values[bucket])


def test_a_reduce_goes_before_gradients_are_whole_and_counts_each_once() -> None:
    def work(rank: int) -> list[Any]:
        record = ReduceRecord("linear") if rank else None
        with member(rank, coordinator.address, record=record) as made:
            found = []
            for step in range(5):
                put(made, ALL + step, BUCKETS[:1])
                wait_until(lambda: made._held.lent)  # it went
                put(made, ALL + step, BUCKETS[1:])
                found += made.collect()
            assert not list(made.drain(bytes))
        if record is not None:  # each verdict tells of the step that it ends
            assert [each.made for each in record.seen().workers] == [4, 4]
        return [(each.version, each.values.tolist()) for each in found]

    with Coordinator() as coordinator:
        for seen in together(work, 2):
            assert seen == [(step + 1, (2 * (ALL + step)).tolist()) for step in range(5)]


def test_who_has_no_gradient_gives_nothing_in_as_many_buckets() -> None:
    def work(rank: int) -> list[Any]:
        with member(rank, coordinator.address) as made:
            found = []
            if not rank:
                put(made, ALL)
                found = made.collect()
            return [each.values.tolist() for each in (*found, *made.drain(bytes))]

    with Coordinator() as coordinator:
        assert together(work, 2) == [[ALL.tolist()]] * 2


def test_a_step_that_fails_takes_back_what_it_had_handed_over() -> None:
    """The other's gradient is in one sum, though a reduce that had it broke."""

    def work(rank: int) -> tuple[list[Any], int]:
        with member(rank, coordinator.address) as made:
            put(made, ALL if rank else 100 * ALL, BUCKETS[:2])
            wait_until(lambda: made._held.lent or made.figures.broken)
            if rank:
                put(made, ALL, BUCKETS[2:])
            else:
                made.abandon()
                wait_until(lambda: made.figures.broken)
                put(made, ALL)
            found = made.collect()
            assert not list(made.drain(bytes))
            return [each.values.tolist() for each in found], made.figures.broken

    with Coordinator() as coordinator:
        assert together(work, 2) == [([(2 * ALL).tolist()], 1)] * 2


def test_a_slow_step_breaks_one_reduce_and_no_more() -> None:
    """Though it lasts longer than a neighbour waits for a byte."""

    def work(rank: int) -> tuple[list[Any], int, bool]:
        with member(rank, coordinator.address, deadline=SLOW) as made:
            found = []
            for step in range(3):
                put(made, ALL + step, BUCKETS[:1])
                if not (rank or step):
                    time.sleep(SLOW)
                put(made, ALL + step, BUCKETS[1:])
                found += made.collect()
            assert not list(made.drain(bytes))
            return [each.values.tolist() for each in found], made.figures.broken, made._giving._is_slow

    with Coordinator() as coordinator:
        slow, quick = together(work, 2)
    assert slow[0] == quick[0] == [(2 * (ALL + step)).tolist() for step in range(3)]
    assert slow[1] == quick[1] == 1
    assert (slow[2], quick[2]) == (True, False)


def test_who_computes_the_rest_hears_of_a_death_and_its_gradient_counts_once() -> None:
    """Nobody waits here for want of a byte: the deadline is far."""
    barrier = threading.Barrier(3, timeout=LIMIT)

    def work(rank: int) -> list[Any]:
        with member(rank, coordinator.address, workers=3, deadline=1000.0) as made:
            put(made, ALL, BUCKETS[:1])
            wait_until(lambda: made._held.lent)
            barrier.wait()
            if rank == 1:
                return []
            wait_until(lambda: made.figures.broken)
            put(made, ALL, BUCKETS[1:])
            found = made.collect()
            assert not list(made.drain(bytes))
            return [(each.members, each.values.tolist()) for each in found]

    with Coordinator() as coordinator:
        first, dead, last = together(work, 3)
    assert first == last == [(2, (2 * ALL).tolist())]
    assert not dead


def test_members_with_other_buckets_do_not_reduce() -> None:
    with Coordinator() as coordinator, ThreadPoolExecutor(1) as threads:
        options = [Options(rank, 2, coordinator.address, patience=LIMIT) for rank in range(2)]
        with Member(options[0], SIZE, buckets=BUCKETS) as one:
            joined = threads.submit(one.join, b"")
            wait_until(lambda: one._line._link)
            with Member(options[1], SIZE) as other, pytest.raises(EnforcerError, match="has another model"):
                other.join(b"")
            one.close()
            with pytest.raises(EnforcerError):
                joined.result(LIMIT)
