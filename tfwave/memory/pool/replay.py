"""What a trace of allocations does to a pool."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tfwave.errors import TfwaveError
from tfwave.memory.pool.chunks import Chunk
from tfwave.memory.pool.pools import (
    ALIGNMENT,
    MOST_PADDING,
    BlindPool,
    Pool,
    PoolExhausted,
    PoolSize,
    SeparatePools,
    StreamPool,
)
from tfwave.memory.pool.trace import Allocate, Event, Free, streams_of


class Sharing(StrEnum):
    """How streams share the bytes of a device."""

    AWARE = "aware"
    """One pool that knows which stream freed what."""
    BLIND = "blind"
    """One pool that takes the best fit, and synchronises where another stream freed it."""
    SEPARATE = "separate"
    """A pool for each stream, of equal size."""


@dataclass(frozen=True)
class PoolFigures:
    """What a trace needed; it fitted.

    Attributes:
        peak_bytes: the most that was given at once, padding included.
        peak_requested_bytes: the most that was asked for at once.
        reach_bytes: the address behind the last byte that was ever given.
        peak_fragmentation: of what was free at the (first) peak, the share outside the largest chunk.
        synchronisations: of all streams, for which allocations waited; those of the trace itself are not counted.
    """

    peak_bytes: int
    peak_requested_bytes: int
    reach_bytes: int
    peak_fragmentation: float
    synchronisations: int


def replay(
    trace: Sequence[Event],
    limit_bytes: int,
    alignment: int = ALIGNMENT,
    *,
    sharing: Sharing = Sharing.AWARE,
    most_padding: int = MOST_PADDING,
) -> PoolFigures:
    """Play a trace on a pool that is empty and synchronised at first.

    Raises:
        PoolExhausted: an allocation finds no room; names it and what is free.
        TfwaveError: a limit without one chunk, or a trace that allocates what it holds, frees what it does not
            hold, or asks for less than 1 byte.
    """
    size = PoolSize(limit_bytes, alignment, most_padding)
    run = _Run(make_pool(size, sharing, streams_of(trace)))
    for event in trace:
        run.play(event)
    return run.figures()


def make_pool(size: PoolSize, sharing: Sharing, streams: Sequence[int]) -> Pool:
    """A pool for these streams."""
    match sharing:
        case Sharing.AWARE:
            return StreamPool(size)
        case Sharing.BLIND:
            return BlindPool(size)
        case Sharing.SEPARATE:
            return SeparatePools(size, streams)


class _Run:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._held: dict[str, tuple[Allocate, Chunk]] = {}
        self._given = self._requested = 0
        self._peak = self._peak_requested = self._reach = 0
        self._fragmentation = 0.0

    def play(self, event: Event) -> None:
        if isinstance(event, Allocate):
            self._allocate(event)
        elif isinstance(event, Free):
            self._free(event)
        else:
            self._pool.synchronise()

    def figures(self) -> PoolFigures:
        return PoolFigures(
            self._peak,
            self._peak_requested,
            self._reach,
            self._fragmentation,
            self._pool.synchronisations,
        )

    def _allocate(self, event: Allocate) -> None:
        if event.name in self._held:
            raise TfwaveError(f"the trace allocates {event.name!r} twice: free it in between")
        if event.size < 1:
            raise TfwaveError(f"{event.name!r} asks for {event.size} bytes: leave it out of the trace")
        try:
            chunk = self._pool.allocate(event.stream, event.size)
        except PoolExhausted as err:
            raise PoolExhausted(f"{event.name!r}: {err}") from err
        self._held[event.name] = event, chunk
        self._given += chunk.size
        self._requested += event.size
        self._reach = max(self._reach, chunk.end)
        self._peak_requested = max(self._peak_requested, self._requested)
        if self._given > self._peak:
            self._peak = self._given
            free = self._pool.free_bytes
            self._fragmentation = 1 - self._pool.largest / free if free else 0.0

    def _free(self, event: Free) -> None:
        if event.name not in self._held:
            raise TfwaveError(f"the trace frees {event.name!r}, which is not allocated: allocate it before")
        allocated, chunk = self._held.pop(event.name)
        self._pool.free(allocated.stream, chunk)
        self._given -= chunk.size
        self._requested -= allocated.size
