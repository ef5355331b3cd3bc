"""Which ids keep a row, against dictionaries of plain Python in which every row decays with every batch."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfwave.errors import TfwaveError
from tfwave.kept.index import Counts, Index
from tfwave.kept.policies import LFU, LRU, Policy, Score
from tfwave.kept.residents import NONE, Residents

IDS = st.lists(st.integers(0, 30), max_size=12)
BATCHES = st.lists(st.tuples(IDS, st.randoms(use_true_random=False)), min_size=1, max_size=12)
POLICIES = st.sampled_from([LRU(), LFU(), Score(0.3), Score(0.05, positive=5.0)])
checked = settings(max_examples=50, deadline=None, database=None)
CAPACITY, KEPT = 10, 6


class Model:
    """The same, in which nothing is made up for: of ids that have a row, and of those that are remembered."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.worth: dict[int, float] = {}
        self.evicted: dict[int, float] = {}
        self.now = 0

    def batch(self, ids: list[int], positive: list[bool]) -> None:
        self.now += 1
        new = {i: ids.count(i) for i in sorted(set(ids)) if i not in self.worth}
        for some in sorted(new, key=lambda i: -new[i])[: CAPACITY - len(self.worth)]:
            self.worth[some] = self.evicted.pop(some, 0.0)
        self.evicted = {i: self.renewed(worth, 0, 0) for i, worth in self.evicted.items()}
        for some in self.worth:
            clicks = sum(click for i, click in zip(ids, positive, strict=True) if i == some)
            self.worth[some] = self.renewed(self.worth[some], ids.count(some) - clicks, clicks)

    def renewed(self, worth: float, negatives: int, positives: int) -> float:
        match self.policy:
            case Score(decay, positive, negative):
                return (1 - decay) * worth + decay * (positives * positive + negatives * negative)
            case LFU():
                return worth + negatives + positives
            case _:
                return self.now if negatives + positives else worth


@checked
@given(BATCHES, POLICIES)
def test_the_rows_that_are_worth_most_are_kept(found: Any, policy: Policy) -> None:
    model, residents = Model(policy), Residents(CAPACITY, policy)
    for ids, random in found:
        positive = [random.random() < 0.3 for _ in ids]
        rows = residents.rows_of(ids, positive)
        model.batch(ids, positive)
        known, own = residents.ids()
        assert set(known) == model.worth.keys()
        assert len(set(own)) == len(own)
        assert [int(row) for row in rows] == [
            int(own[known == i][0]) if i in model.worth else NONE for i in ids
        ]
        freed = residents.evict(KEPT)
        left = set(residents.ids()[0].tolist())
        assert len(left) == min(KEPT, len(model.worth))
        assert {int(known[own == row][0]) for row in freed} == model.worth.keys() - left
        gone = {i: model.worth.pop(i) for i in list(model.worth) if i not in left}
        assert not gone or max(gone.values()) <= min(model.worth.values()) * (1 + 1e-9)
        remembered = set(np.load(BytesIO(residents.dumps()))["evicted_ids"].tolist())
        model.evicted |= gone
        assert remembered <= model.evicted.keys()
        assert len(remembered) == min(CAPACITY, len(model.evicted))
        forgotten = [model.evicted.pop(i) for i in list(model.evicted) if i not in remembered]
        assert not forgotten or max(forgotten) <= min(model.evicted.values()) * (1 + 1e-9)


@checked
@given(BATCHES, POLICIES)
def test_what_is_written_and_read_goes_on_alike(found: Any, policy: Policy) -> None:
    first, second = Residents(CAPACITY, policy), Residents(CAPACITY, policy)
    for ids, _ in found:
        first.rows_of(ids)
        first.evict(KEPT)
        second.loads(first.dumps())
        assert second.dumps() == first.dumps()
        assert second.known(range(31)).tolist() == first.known(range(31)).tolist()


@checked
@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=60))
def test_an_index_is_a_dictionary(ids: list[int]) -> None:
    index, half = Index(60), len(ids) // 2
    index.put(np.array(ids[:half], np.int64), np.arange(half))
    assert index.rows_of(np.array(ids, np.int64)).tolist() == [*range(half), *[-1] * (len(ids) - half)]


@checked
@given(st.lists(st.dictionaries(st.integers(0, 500), st.integers(1, 5), max_size=20), max_size=10))
def test_no_count_is_too_low(batches: list[dict[int, int]]) -> None:
    counts, exact = Counts(8), dict[int, int]()
    for batch in batches:
        found = counts.add(np.array(list(batch), np.int64), np.array(list(batch.values()), np.int64))
        for some, told in zip(batch, found, strict=True):
            exact[some] = exact.get(some, 0) + batch[some]
            assert told >= exact[some]


def test_an_id_is_admitted_when_it_has_come_often_enough() -> None:
    residents = Residents(4, LRU(), admit=3)
    assert residents.rows_of([7, 7, 8]).tolist() == [NONE] * 3
    assert residents.rows_of([[7, 8]]).tolist() == [[0, NONE]]
    assert residents.rows_of([8]).tolist() == [1]
    assert len(residents) == 2


def test_an_id_is_counted_on_behind_what_is_restored() -> None:
    """And those are not that came in a training that was given up."""
    first, second, third = (Residents(4, LRU(), admit=2) for _ in range(3))
    first.rows_of([7])
    second.rows_of([8])
    second.loads(first.dumps())
    third.rows_of([8])
    third.loads(Residents(4, LRU()).dumps())
    assert second.rows_of([7, 8]).tolist() == first.rows_of([7, 8]).tolist() == [0, NONE]
    assert third.rows_of([7, 8]).tolist() == [NONE, NONE]


def test_what_an_earlier_tfwave_wrote_is_read_and_counts_begin_anew() -> None:
    """It kept no counts, nor anything of evicted ids."""
    first, second = (Residents(4, LFU(), admit=2) for _ in range(2))
    first.rows_of([7, 7, 8])
    early = BytesIO()
    with np.load(BytesIO(first.dumps())) as kept:
        known = [name for name in kept if name != "counts" and not name.startswith("evicted")]
        np.savez_compressed(early, **{name: kept[name] for name in known})
    second.rows_of([8, 9, 9, 9])
    second.evict(0)
    second.loads(early.getvalue())
    assert second.rows_of([7, 8]).tolist() == [0, NONE]
    second.rows_of([9, 9])
    second.evict(1)
    assert second.ids()[0].tolist() == [7]


def test_what_is_not_seen_decays_and_so_gives_way_to_what_is_new() -> None:
    """By the score; LFU keeps what was frequent once."""
    kept: dict[str, list[int]] = {}
    for name, policy in {"score": Score(0.2), "lfu": LFU()}.items():
        residents = Residents(4, policy)
        for _ in range(20):
            residents.rows_of([1, 1, 1, 2])
        for _ in range(10):
            residents.rows_of([3, 4])
        residents.evict(2)
        kept[name] = residents.ids()[0].tolist()
    assert sorted(kept["score"]) == [3, 4]
    assert sorted(kept["lfu"]) == [1, 2]


def test_of_ids_that_are_worth_the_same_the_smaller_ones_stay() -> None:
    residents = Residents(4, LFU())
    residents.rows_of([5, 9, 7])
    residents.evict(2)
    assert sorted(residents.ids()[0].tolist()) == [5, 7]


def test_an_evicted_id_that_comes_again_is_worth_what_it_was() -> None:
    """And one that has a row again is remembered no more, nor is one whose eviction failed."""
    residents = Residents(3, LFU())
    residents.rows_of([1, 1, 1, 2, 2, 2, 2])
    residents.evict(1)
    residents.rows_of([1, 3, 3])
    with pytest.raises(ZeroDivisionError):
        residents.evict(0, lambda _: 1 // 0)
    residents.evict(2)
    assert sorted(residents.ids()[0].tolist()) == [1, 2]
    assert np.load(BytesIO(residents.dumps()))["evicted_ids"].tolist() == [3]


def test_a_row_that_was_used_long_after_what_is_restored_is_worth_nothing_at_first() -> None:
    """Else its age is below 0, and a decay that is made up for so often is no number."""
    residents = Residents(2, Score(0.5))
    residents.rows_of([1])
    early = residents.dumps()
    for _ in range(2000):
        residents.rows_of([2])
    residents.loads(early)
    residents.rows_of([3])
    residents.rows_of([1, 1])
    residents.evict(1)
    assert residents.ids()[0].tolist() == [1]


def test_memory_does_not_grow_with_the_ids_that_ever_came() -> None:
    residents, sizes, remembered = Residents(64, Score(), admit=2), set[int](), list[int]()
    for batch in range(50):
        ids = np.arange(batch * 100, batch * 100 + 200)
        residents.rows_of(ids)
        residents.evict(32)
        sizes.add(sum(value.nbytes for value in vars(residents).values() if isinstance(value, np.ndarray)))
        with np.load(BytesIO(residents.dumps())) as written:
            remembered.append(len(written["evicted_ids"]))
    assert len(sizes) == 1
    assert max(remembered) == remembered[-1] == 64
    assert len(residents.dumps()) < 4000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Residents(0, LRU()), "at least 1, not 0 and 1"),
        (lambda: Residents(1, LRU()).evict(-1), "-1 ids cannot keep their rows"),
        (lambda: Score(1), "decay must be between 0 and 1, not 1"),
        (lambda: Score(negative=-1), "weights must be >= 0, not 1.0 and -1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(TfwaveError, match=message):
        make()


def test_rows_of_a_larger_table_are_refused() -> None:
    large = Residents(9, LRU())
    large.rows_of(range(9))
    with pytest.raises(TfwaveError, match="row 8 is kept, of a table with a capacity of 4"):
        Residents(4, LRU()).loads(large.dumps())
