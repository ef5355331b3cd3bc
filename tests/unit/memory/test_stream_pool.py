"""The three kinds of chunks of a pool that streams share, and what a replay says."""

from dataclasses import replace

import pytest

from tfwave.errors import TfwaveError
from tfwave.memory.pool.pools import BlindPool, PoolExhausted, PoolSize, StreamPool
from tfwave.memory.pool.replay import PoolFigures, Sharing, replay
from tfwave.memory.pool.trace import Allocate, Event, Free, Synchronise

MB = 1 << 20


def pool(cells: int, padding: int = 0) -> StreamPool:
    return StreamPool(PoolSize(cells, 1, padding))


def freed(pool: StreamPool | BlindPool, *sizes: tuple[int, int]) -> None:
    """Allocate and free chunks of (stream, size) side by side."""
    chunks = [(stream, pool.allocate(stream, size)) for stream, size in sizes]
    for stream, chunk in chunks:
        pool.free(stream, chunk)


def test_case_1_the_streams_own_chunk_before_a_better_synchronised_one() -> None:
    shared = pool(14)
    freed(shared, (0, 8))
    assert shared.allocate(0, 6) == (0, 6, frozenset())  # of 8; the synchronised chunk has 6
    assert shared.synchronisations == 0


def test_case_2_a_synchronised_chunk_before_one_of_another_stream() -> None:
    shared = pool(20)
    freed(shared, (0, 8))
    assert shared.allocate(1, 6).start == 8
    assert shared.synchronisations == 0


def test_case_3_a_synchronisation_makes_all_one() -> None:
    shared = pool(12)
    freed(shared, (0, 4), (1, 4))
    assert shared.largest == 4
    assert shared.allocate(2, 12).size == 12
    assert shared.synchronisations == 1


def test_case_3_also_for_own_chunks_beside_synchronised_ones() -> None:
    shared = pool(8)
    freed(shared, (0, 4))
    assert shared.allocate(0, 8).start == 0
    assert shared.synchronisations == 1


def test_chunks_of_one_stream_coalesce_at_once() -> None:
    shared = pool(12)
    freed(shared, (0, 4), (0, 4), (1, 4))
    assert shared.allocate(0, 8).start == 0
    assert shared.synchronisations == 0


def test_what_is_left_of_a_chunk_keeps_its_kind() -> None:
    shared = pool(8)
    freed(shared, (0, 8))
    assert shared.allocate(0, 3).start == 0
    assert shared.allocate(1, 5).start == 3
    assert shared.synchronisations == 1


def test_what_is_freed_after_a_synchronisation_is_not_synchronised() -> None:
    shared = pool(8)
    chunk = shared.allocate(0, 8)
    shared.synchronise()
    shared.free(0, chunk)
    shared.allocate(1, 8)
    assert shared.synchronisations == 1


def test_of_equal_chunks_the_lowest_address() -> None:
    shared = pool(10)
    chunks = [shared.allocate(0, size) for size in (2, 1, 2, 1, 2)]
    for i in (4, 0, 2):
        shared.free(0, chunks[i])
    assert [shared.allocate(0, 2).start for _ in range(3)] == [0, 3, 6]


@pytest.mark.parametrize(
    ("chunk", "padding", "size", "given"),
    [(10, 5, 5, 5), (9, 5, 5, 9), (11, 5, 6, 6), (10, 5, 6, 10), (10, 0, 9, 9), (10, 99, 5, 5)],
)
def test_a_chunk_is_split_if_twice_as_large_or_for_too_much_padding(
    chunk: int, padding: int, size: int, given: int
) -> None:
    assert pool(chunk, padding).allocate(0, size).size == given


def test_what_tensorflow_splits() -> None:
    """256 bytes at least; of 300 MB, 170 are given as they are, 180 with the rest."""
    assert StreamPool(PoolSize(MB)).allocate(0, 1).size == 256
    assert StreamPool(PoolSize(300 * MB)).allocate(0, 170 * MB).size == 170 * MB
    assert StreamPool(PoolSize(300 * MB)).allocate(0, 180 * MB).size == 300 * MB


def test_the_blind_pool_waits_for_whoever_freed_the_best_fit() -> None:
    blind = BlindPool(PoolSize(20, 1, 0))
    held = blind.allocate(0, 9), blind.allocate(1, 1)
    blind.free(0, held[0])
    assert blind.allocate(1, 8).start == 0  # the synchronised chunk has 10
    assert blind.synchronisations == 1


def test_without_room_the_request_and_what_is_free_are_named() -> None:
    shared = pool(10)
    chunks = [shared.allocate(0, size) for size in (2, 2, 6)]
    shared.free(0, chunks[0])
    shared.free(0, chunks[2])
    message = "stream 1 asks for 7 bytes of a pool of 10 bytes: 8 bytes are free, 6 bytes in one piece: give"
    with pytest.raises(PoolExhausted, match=message):
        shared.allocate(1, 7)


def test_what_cannot_help_is_not_waited_for() -> None:
    shared = pool(10)
    shared.allocate(0, 2)
    with pytest.raises(PoolExhausted, match="8 bytes are free, 8 bytes in one piece"):
        shared.allocate(1, 9)
    assert shared.synchronisations == 0


TWO_JOBS: list[Event] = [
    Allocate("a", 0, 300),
    Allocate("b", 1, 200),
    Free("a"),
    Allocate("c", 1, 300),
    Allocate("d", 0, 100),
    Free("b"),
    Free("d"),
    Synchronise(),
    Allocate("e", 1, 200),
]


def test_the_figures_of_a_trace() -> None:
    """a: 0-299, b: 300-499; c waits for a's bytes, d is behind b; e fits in b's."""
    assert replay(TWO_JOBS, 600, 1, most_padding=0) == PoolFigures(
        peak_bytes=600,
        peak_requested_bytes=600,
        reach_bytes=600,
        peak_fragmentation=0.0,
        synchronisations=1,
    )


def test_fragmentation_at_the_peak() -> None:
    trace: list[Event] = [*(Allocate(name, 0, 10) for name in "abcd"), Free("a"), Allocate("e", 1, 20)]
    figures = replay(trace, 100, 1, most_padding=0)
    assert figures.peak_bytes == 50
    assert figures.peak_fragmentation == 1 - 40 / 50
    as_much_again = [Free("e"), Allocate("f", 1, 10), Allocate("g", 2, 10)]
    assert replay([*trace, *as_much_again], 100, 1, most_padding=0) == replace(figures, reach_bytes=70)


def test_separate_pools_have_less_room_and_never_wait() -> None:
    figures = replay(TWO_JOBS, 1000, 1, sharing=Sharing.SEPARATE, most_padding=0)
    assert (figures.synchronisations, figures.reach_bytes) == (0, 1000)
    with pytest.raises(PoolExhausted, match="'c': stream 1 asks for 300 bytes of a pool of 300"):
        replay(TWO_JOBS, 600, 1, sharing=Sharing.SEPARATE)


def test_no_events_need_nothing() -> None:
    for sharing in Sharing:
        assert replay([], 256, sharing=sharing) == PoolFigures(0, 0, 0, 0.0, 0)


@pytest.mark.parametrize(
    ("trace", "limit", "message"),
    [
        ([Allocate("a", 0, 1), Allocate("a", 1, 1)], 999, "allocates 'a' twice"),
        ([Free("a")], 999, "frees 'a', which is not allocated"),
        ([Allocate("a", 0, 1), Free("a"), Free("a")], 999, "frees 'a', which is not allocated"),
        ([Allocate("a", 0, 0)], 999, "'a' asks for 0 bytes: leave it out"),
        (
            [Allocate("a", 0, 257)],
            511,
            "'a': stream 0 asks for 257 bytes of a pool of 256 bytes: 256",
        ),
        ([], 255, "a pool of 255 bytes has no chunk of 256 bytes: give a larger limit"),
    ],
)
def test_traces_and_limits_that_cannot_be_are_refused(trace: list[Event], limit: int, message: str) -> None:
    with pytest.raises(TfwaveError, match=message):
        replay(trace, limit)


@pytest.mark.parametrize(("alignment", "padding"), [(0, 0), (1, -1)])
def test_settings_out_of_range_are_refused(alignment: int, padding: int) -> None:
    with pytest.raises(TfwaveError, match="out of range"):
        PoolSize(10, alignment, padding)
