"""Pools that streams share, against a map of cells, and what is safe in every trace."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.property.pool_oracle import CellMap, Given, NoRoom
from tfwave.memory.pool.chunks import Chunk, FreeChunks
from tfwave.memory.pool.pools import BlindPool, PoolExhausted, PoolSize, SeparatePools, StreamPool
from tfwave.memory.pool.replay import PoolFigures, Sharing, make_pool, replay
from tfwave.memory.pool.trace import Allocate, Event, Free, Synchronise

ALIGNMENT = 16
CELLS = 96
PER_BLOCK = 60
STREAMS = (2, 3, 4, 5)


def random_trace(rng: random.Random, streams: int) -> list[Event]:
    """Bursts of one stream after the other, that hold about three quarters of the cells at most."""
    trace: list[Event] = []
    held: dict[str, int] = {}
    largest = rng.choice([3, 8, 24])
    for i in range(rng.randint(20, 120)):
        cells = rng.randint(1, largest)
        full = sum(held.values()) + cells > CELLS * 3 // 4
        if held and (full or rng.random() < 0.4):
            name = rng.choice(sorted(held))
            del held[name]
            trace.append(Free(name))
        elif not full:
            held[f"t{i}"] = cells
            stream = rng.randrange(streams) if rng.random() < 0.5 else i // 12 % streams
            trace.append(Allocate(f"t{i}", stream, cells * ALIGNMENT - rng.randrange(ALIGNMENT)))
        if rng.random() < 0.02:
            trace.append(Synchronise())
    return trace


def traces(block: str) -> Iterator[tuple[random.Random, int, list[Event]]]:
    for i in range(PER_BLOCK):
        rng = random.Random(f"{block} {i}")
        streams = rng.choice(STREAMS)
        yield rng, streams, random_trace(rng, streams)


def fitting(trace: list[Event], sharing: Sharing) -> PoolFigures | None:
    try:
        return replay(trace, CELLS * ALIGNMENT, ALIGNMENT, sharing=sharing, most_padding=0)
    except PoolExhausted:
        return None


def play(pool: StreamPool | BlindPool, oracle: CellMap, trace: list[Event]) -> tuple[int, bool]:
    """(synchronisations, whether all fitted), with the same chunks from both at each event."""
    held: dict[str, tuple[int, Chunk]] = {}
    for event in trace:
        waits = pool.synchronisations
        if isinstance(event, Synchronise):
            pool.synchronise()
            oracle.synchronise()
        elif isinstance(event, Free):
            stream, chunk = held.pop(event.name)
            pool.free(stream, chunk)
            oracle.free(event.name, stream)
        else:
            try:
                expected = oracle.allocate(event.name, event.stream, -(-event.size // ALIGNMENT))
            except NoRoom:
                with pytest.raises(PoolExhausted):
                    pool.allocate(event.stream, event.size)
                return pool.synchronisations, False
            chunk = pool.allocate(event.stream, event.size)
            held[event.name] = event.stream, chunk
            waited = pool.synchronisations - waits
            assert Given(chunk.start // ALIGNMENT, chunk.size // ALIGNMENT, bool(waited)) == expected
            assert waited <= 1
        free = [run[0] * ALIGNMENT for run in oracle.runs()]
        assert pool.free_bytes == sum(free)
        assert pool.largest == max(free, default=0)
    return pool.synchronisations, True


@pytest.mark.parametrize("blind", [False, True], ids=["aware", "blind"])
@pytest.mark.parametrize("padding", [0, 5, CELLS])
def test_a_pool_equals_the_map_of_cells(padding: int, *, blind: bool) -> None:
    waits = refused = 0
    for _, _, trace in traces(f"cells {padding}"):
        size = PoolSize(CELLS * ALIGNMENT + 7, ALIGNMENT, padding * ALIGNMENT)
        pool = BlindPool(size) if blind else StreamPool(size)
        waited, fits = play(pool, CellMap([frozenset()] * CELLS, padding, blind), trace)
        waits += waited
        refused += not fits
    assert waits > PER_BLOCK
    assert 0 < refused < PER_BLOCK


@pytest.mark.parametrize("sharing", Sharing)
def test_no_byte_is_given_that_another_may_use(sharing: Sharing) -> None:
    """Byte by byte: who holds it, and who may still work on it since the last synchronisation."""
    reused = 0
    for rng, streams, trace in traces("safe"):
        usable = CELLS * ALIGNMENT
        pool = make_pool(PoolSize(usable, ALIGNMENT, rng.choice([0, 64])), sharing, range(streams))
        remainder = usable - pool.free_bytes
        assert 0 <= remainder < (streams * ALIGNMENT if sharing == Sharing.SEPARATE else 1)
        held: dict[str, tuple[int, Chunk]] = {}
        holder: list[str | None] = [None] * usable
        worked: list[int | None] = [None] * usable
        for event in trace:
            waits = pool.synchronisations
            if isinstance(event, Synchronise):
                pool.synchronise()
                worked = [None] * usable
            elif isinstance(event, Free):
                stream, chunk = held.pop(event.name)
                pool.free(stream, chunk)
                for byte in range(chunk.start, chunk.end):
                    holder[byte], worked[byte] = None, stream
            else:
                try:
                    chunk = pool.allocate(event.stream, event.size)
                except PoolExhausted:
                    break
                held[event.name] = event.stream, chunk
                if pool.synchronisations > waits:
                    worked = [None] * usable
                span = slice(chunk.start, chunk.end)
                assert chunk.size >= event.size
                assert chunk.start % ALIGNMENT == 0
                assert len(holder[span]) == chunk.size
                assert set(holder[span]) == {None}
                assert set(worked[span]) <= {None, event.stream}
                reused += event.stream in worked[span]
                holder[span] = [event.name] * chunk.size
            assert pool.free_bytes == holder.count(None) - remainder
    assert reused > 0


def test_all_that_is_free_coalesces_by_a_synchronisation() -> None:
    for rng, streams, _ in traces("coalesce"):
        chunks = FreeChunks(mix=False)
        cells: list[frozenset[int] | None] = [
            rng.choice([None, *map(frozenset, [[], *([s] for s in range(streams))])]) for _ in range(40)
        ]
        for at in rng.sample(range(40), 40):
            if (streams_there := cells[at]) is not None:
                chunks.add(Chunk(at, 1, streams_there))
        chunks.synchronise()
        taken: list[Chunk] = []
        while (chunk := chunks.best(1, chunks.kinds)) is not None:
            assert not chunk.streams
            chunks.remove(chunk)
            taken.append(chunk)
        taken.sort()
        assert all(left.end < right.start for left, right in pairwise(taken))
        assert [at for c in taken for at in range(c.start, c.end)] == [
            at for at, cell in enumerate(cells) if cell is not None
        ]
        assert (chunks.bytes, chunks.largest) == (0, 0)


@pytest.mark.parametrize("sharing", Sharing)
def test_names_and_numbers_of_streams_change_nothing(sharing: Sharing) -> None:
    fits = 0
    for rng, streams, trace in traces("names"):
        numbers = rng.sample(range(100), streams)
        if sharing == Sharing.SEPARATE:
            numbers.sort()
        renamed = [
            replace(
                e, name=f"x{e.name}", **({"stream": numbers[e.stream]} if isinstance(e, Allocate) else {})
            )
            if not isinstance(e, Synchronise)
            else e
            for e in trace
        ]
        figures = fitting(trace, sharing)
        assert fitting(renamed, sharing) == figures == fitting(trace, sharing)
        fits += figures is not None
    assert fits > 5


def test_more_bytes_than_are_ever_asked_for_need_no_synchronisation() -> None:
    for _, _, trace in traces("plenty"):
        limit = sum(e.size + ALIGNMENT for e in trace if isinstance(e, Allocate)) * len(STREAMS) * 2
        for sharing in (Sharing.AWARE, Sharing.SEPARATE):
            figures = replay(trace, limit, ALIGNMENT, sharing=sharing, most_padding=0)
            assert figures.synchronisations == 0
            assert figures.peak_requested_bytes <= figures.peak_bytes <= figures.reach_bytes <= limit


def test_awareness_saves_synchronisations() -> None:
    """On the whole, and where the blind pool needs many; not in each trace."""
    aware = blind = 0
    for _, _, trace in traces("save"):
        figures = fitting(trace, Sharing.AWARE), fitting(trace, Sharing.BLIND)
        if figures[0] and figures[1]:
            aware += figures[0].synchronisations
            blind += figures[1].synchronisations
    assert 0 < aware * 2 < blind


def test_separate_pools_hold_what_is_theirs() -> None:
    pool = SeparatePools(PoolSize(3 * 64, 16), [4, 7, 9])
    starts = [pool.allocate(stream, 64).start for stream in (9, 4, 7)]
    assert starts == [128, 0, 64]
    with pytest.raises(
        PoolExhausted, match="stream 4 asks for 1 bytes of a pool of 64 bytes: 0 bytes are free"
    ):
        pool.allocate(4, 1)
