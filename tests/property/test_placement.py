"""Where a step's bytes lie: no two that are held at one moment share any, and brute force finds no smaller pool."""

import random
from collections.abc import Sequence
from itertools import combinations, permutations

import pytest

from tfwave.memory.pool.compared import PLACINGS, compare, unusable
from tfwave.memory.pool.growing import (
    Mobility,
    best_fit,
    bfc,
    bfc_in_one_region,
    cnmem,
    events,
    mobilities,
)
from tfwave.memory.pool.lives import Life, life, live_peak
from tfwave.memory.pool.placement import Placed, place_offline
from tfwave.memory.pool.pools import ONE_STREAM, BlindPool, Chunk, PoolExhausted, PoolSize
from tfwave.memory.pool.serves import bfc_serves

PIECE = 256
MIB = 1 << 20


def random_lives(rng: random.Random, count: int, largest: int) -> list[Life]:
    found: list[Life] = []
    for number in range(count):
        born = rng.randint(0, 3 * count)
        found.append(life(f"op{number}", rng.randint(1, largest), born, born + rng.randint(1, 2 * count)))
    return found


def together(a: Life, b: Life) -> bool:
    return bool({*range(a.born, a.dies)} & {*range(b.born, b.dies)})


def assert_apart(lives: Sequence[Life], placed: Placed) -> None:
    for each, (start, end) in zip(lives, placed.spans, strict=True):
        assert start >= 0
        assert start + each.bytes <= end <= placed.size
    for (a, one), (b, other) in combinations(zip(lives, placed.spans, strict=True), 2):
        assert not together(a, b) or one[1] <= other[0] or other[1] <= one[0]


def least_by_force(lives: Sequence[Life]) -> int:
    """The least pool of all: some order of lives, each as low as it can be, gives it."""
    least = sum(each.bytes for each in lives)
    for order in permutations(lives):
        put: list[tuple[int, Life]] = []
        for each in order:
            beside = [(start, start + other.bytes) for start, other in put if together(each, other)]
            starts = [0, *(end for _, end in beside)]
            low = min(s for s in starts if all(s + each.bytes <= a or b <= s for a, b in beside))
            put.append((low, each))
        least = min(least, max(start + each.bytes for start, each in put))
    return least


@pytest.mark.parametrize("seed", range(60))
def test_what_is_held_at_one_moment_lies_apart(seed: int) -> None:
    rng = random.Random(seed)
    lives = random_lives(rng, rng.randint(1, 40), rng.choice([PIECE, 20 * PIECE, 3 * MIB]))
    for place in PLACINGS.values():
        placed = place(lives)
        assert_apart(lives, placed)
        assert placed.size >= live_peak(lives)
        assert 0 <= unusable(lives, placed) <= 1


@pytest.mark.parametrize("seed", range(40))
def test_offline_is_near_the_least_pool(seed: int) -> None:
    rng = random.Random(seed)
    lives = random_lives(rng, rng.randint(1, 6), 9 * PIECE)
    least = least_by_force(lives)
    assert live_peak(lives) <= least <= place_offline(lives).size <= 1.5 * least


def test_offline_is_mostly_the_least_pool() -> None:
    found = [random_lives(random.Random(seed), 5, 9 * PIECE) for seed in range(60)]
    assert sum(place_offline(lives).size == least_by_force(lives) for lives in found) >= 50


@pytest.mark.parametrize("seed", range(10))
def test_numbering_changes_no_size_of_distinct_lives(seed: int) -> None:
    rng = random.Random(seed)
    lives = [life(f"op{n}", (n + 1) * PIECE, 2 * n, 2 * n + rng.randint(1, 30)) for n in range(20)]
    shuffled = rng.sample(lives, len(lives))
    assert [f.pool_bytes for f in compare(lives)] == [f.pool_bytes for f in compare(shuffled)]


def test_a_piece_that_gets_all_that_is_free_leaves_a_region_of_one_size_full() -> None:
    """One that grows has room for what comes next."""
    lives = [life("large", 3 * PIECE, 0, 9), life("next", 2 * PIECE, 1, 9)]
    assert bfc_in_one_region(lives).size == 5 * PIECE
    assert [bfc_serves(lives, size * PIECE) for size in (4, 5, 6)] == [False, False, True]
    assert not bfc_serves(lives, -PIECE)


def blind_pool_serves(lives: Sequence[Life], size: int) -> bool:
    pool, held = BlindPool(PoolSize(size)), dict[int, Chunk]()
    try:
        for number, begins in events(lives):
            if begins:
                held[number] = pool.allocate(ONE_STREAM, lives[number].bytes)
            else:
                pool.free(ONE_STREAM, held.pop(number))
    except PoolExhausted:
        return False
    return True


@pytest.mark.parametrize("largest", [20 * PIECE, 500 * MIB])
def test_what_a_pool_of_one_size_serves_is_what_the_blind_one_does(largest: int) -> None:
    served: set[bool] = set()
    for seed in range(300):
        rng = random.Random(seed)
        lives = random_lives(rng, rng.randint(1, 25), largest)
        size = int(live_peak(lives) * rng.uniform(1, 1.3)) + rng.randint(0, PIECE)
        served.add(bfc_serves(lives, size))
        assert bfc_serves(lives, size) == blind_pool_serves(lives, size)
    assert served == {True, False}


def test_bfc_grows_by_regions_that_double_and_gives_some_pieces_whole() -> None:
    lives = [life("a", MIB, 0, 9), life("b", 3 * MIB, 1, 3), life("c", 2 * MIB, 4, 9), life("d", MIB, 5, 9)]
    placed = bfc(lives)
    # The second region is twice the first, as often as it takes; b gets all of it, c the half that it needs.
    assert placed.pieces == (0, 2 * MIB)
    assert placed.spans == ((0, MIB), (2 * MIB, 6 * MIB), (2 * MIB, 4 * MIB), (MIB, 2 * MIB))
    assert placed.size == 6 * MIB


def test_what_cnmem_got_at_different_times_does_not_merge() -> None:
    halves = [life("a", MIB, 0, 3), life("b", MIB, 1, 3)]
    lives = [*halves, life("c", 2 * MIB, 4, 6)]
    assert cnmem(lives).size == 4 * MIB
    assert best_fit(lives).size == place_offline(lives).size == 2 * MIB
    assert unusable(lives, cnmem(lives)) == pytest.approx((0 + 0 + 1 / 2) / 3)


def test_mobility_is_told_by_lives() -> None:
    lives = [life("kept", MIB, 0, 99), life("waits", MIB, 1, 20), life("soon", MIB, 3, 5)]
    lives += [life("most", MIB, 49, 51), life("most too", 9 * MIB, 50, 52)]
    assert mobilities(lives) == [Mobility.RECLAIMED, Mobility.TEMPORARY, *[Mobility.MOVABLE] * 3]


def test_u_f_is_the_share_that_is_too_small_for_a_request() -> None:
    lives = [
        life("low", MIB, 0, 9),
        life("gap", MIB, 0, 2),
        life("high", MIB, 1, 9),
        life("large", 2 * MIB, 3, 9),
    ]
    placed = Placed(((0, MIB), (MIB, 2 * MIB), (2 * MIB, 3 * MIB), (3 * MIB, 5 * MIB)), 5 * MIB)
    # Free: all 5, 4, 3 MiB in one piece; then 1 and 2, of which the 1 is of no use to the last.
    assert unusable(lives, placed) == pytest.approx((0 + 0 + 0 + 1 / 3) / 4)


def test_nothing_needs_nothing() -> None:
    assert [figures.pool_bytes for figures in compare([])] == [0] * len(PLACINGS)
    assert compare([])[0].over_peak == 1
