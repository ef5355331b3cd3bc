"""Pools that give chunks to streams: one that is aware of streams, and two to compare it with."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tfwave.errors import TfwaveError
from tfwave.memory.pool.chunks import SYNCHRONISED, Chunk, FreeChunks
from tfwave.sizes import in_words

ALIGNMENT = 256
"""TensorFlow's: each chunk is a multiple of so many bytes."""
MOST_PADDING = 128 << 20
"""TensorFlow's: a chunk is given whole if it has fewer bytes more than asked for, and is not twice as large."""

ONE_STREAM = 0
"""All ops of one device are on one stream."""


def whole_pieces(size: int, piece: int = ALIGNMENT) -> int:
    """So many bytes, rounded up to whole pieces; TensorFlow gives one at least."""
    return size + -size % piece


class PoolExhausted(TfwaveError):
    """A pool has no room: names the request and what is free."""


@dataclass(frozen=True)
class PoolSize:
    """How many bytes a pool has, and in which pieces it gives them.

    Raises:
        TfwaveError: a pool without one aligned chunk, an alignment under 1, or padding under 0.
    """

    limit: int
    alignment: int = ALIGNMENT
    most_padding: int = MOST_PADDING

    def __post_init__(self) -> None:
        if self.alignment < 1 or self.most_padding < 0:
            raise TfwaveError(
                f"an alignment of {self.alignment} bytes with a padding of {self.most_padding} is out of range: "
                "give at least 1 and 0"
            )
        if self.limit < self.alignment:
            raise TfwaveError(
                f"a pool of {self.limit} bytes has no chunk of {self.alignment} bytes: give a larger limit"
            )

    @property
    def usable(self) -> int:
        """The limit, rounded down to whole chunks."""
        return self.limit - self.limit % self.alignment

    def rounded(self, size: int) -> int:
        """What is given at least for a request."""
        return whole_pieces(size, self.alignment)

    def given(self, size: int, chunk: Chunk) -> int:
        """What is given for a rounded request from a chunk in which it fits: the request, or the chunk whole."""
        split = chunk.size >= 2 * size or chunk.size - size >= self.most_padding
        return size if split else chunk.size


class Pool(Protocol):
    """What gives chunks to streams, and takes them back."""

    @property
    def free_bytes(self) -> int:
        """What no chunk holds."""
        ...

    @property
    def largest(self) -> int:
        """The size of the largest free chunk."""
        ...

    @property
    def synchronisations(self) -> int:
        """How often an allocation has waited for all streams."""
        ...

    def allocate(self, stream: int, size: int) -> Chunk:
        """Give a stream at least so many bytes (1 or more).

        Raises:
            PoolExhausted: there is no room, not even after a synchronisation.
        """
        ...

    def free(self, stream: int, chunk: Chunk) -> None:
        """Take a chunk back that the stream got, and on which it may still be working."""
        ...

    def synchronise(self) -> None:
        """All streams have done their work: any may use what is free."""
        ...


class _OnePool(ABC):
    """Best fit with coalescing, as TensorFlow's BFC allocator in one region."""

    def __init__(self, size: PoolSize, start: int = 0, *, mix: bool) -> None:
        self._size = size
        self._chunks = FreeChunks(mix=mix)
        self._chunks.add(Chunk(start, size.usable))
        self.synchronisations = 0

    @property
    def free_bytes(self) -> int:
        return self._chunks.bytes

    @property
    def largest(self) -> int:
        return self._chunks.largest

    def allocate(self, stream: int, size: int) -> Chunk:
        rounded = self._size.rounded(size)
        chunk = self._find(stream, rounded)
        if chunk is None:
            raise PoolExhausted(
                f"stream {stream} asks for {in_words(size)} of a pool of {in_words(self._size.usable)}: "
                f"{in_words(self.free_bytes)} are free, {in_words(self.largest)} in one piece: "
                "give a larger limit, or free earlier"
            )
        self._chunks.remove(chunk)
        given = self._size.given(rounded, chunk)
        if given < chunk.size:
            self._chunks.add(Chunk(chunk.start + given, chunk.size - given, chunk.streams))
        return Chunk(chunk.start, given)

    def free(self, stream: int, chunk: Chunk) -> None:
        self._chunks.add(chunk._replace(streams=frozenset([stream])))

    def synchronise(self) -> None:
        self._chunks.synchronise()

    def _wait(self) -> None:
        self.synchronise()
        self.synchronisations += 1

    @abstractmethod
    def _find(self, stream: int, size: int) -> Chunk | None:
        """A free chunk that the stream may use at once; may synchronise first."""


class StreamPool(_OnePool):
    """Knows which stream freed a chunk, and lets that one use it at once (Waterwave, Sec. 4.2).

    Case 1: the stream has freed a chunk that is large enough, and not been synchronised since.
    Case 2: a synchronised chunk is.
    Case 3: after a synchronisation, by which all free chunks coalesce, one is. This is also how a stream's own
    free chunks coalesce with synchronised ones: sooner, they would be lost to the other streams.
    """

    def __init__(self, size: PoolSize) -> None:
        """Start with all synchronised."""
        super().__init__(size, mix=False)

    def _find(self, stream: int, size: int) -> Chunk | None:
        for kind in (frozenset([stream]), SYNCHRONISED):
            if chunk := self._chunks.best(size, [kind]):
                return chunk
        if any(self._chunks.kinds):
            self._wait()
        return self._chunks.best(size, [SYNCHRONISED])


class BlindPool(_OnePool):
    """Looks for the best fit only: synchronises whenever another stream may still be working on that.

    It coalesces all that is free. Of a chunk, it knows which streams may be working somewhere in it.
    """

    def __init__(self, size: PoolSize, start: int = 0) -> None:
        """Start with all synchronised, at an address."""
        super().__init__(size, start, mix=True)

    def _find(self, stream: int, size: int) -> Chunk | None:
        chunk = self._chunks.best(size, self._chunks.kinds)
        if chunk is None or chunk.streams <= {stream}:
            return chunk
        self._wait()
        return self._chunks.best(size, [SYNCHRONISED])


class SeparatePools:
    """Each stream has its own pool, an equal share of the bytes; nothing ever waits."""

    def __init__(self, size: PoolSize, streams: Sequence[int]) -> None:
        """Share the bytes.

        Raises:
            TfwaveError: a share without one aligned chunk.
        """
        share = replace(size, limit=size.limit // max(1, len(streams)))
        self._pools = {s: BlindPool(share, i * share.usable) for i, s in enumerate(streams)}
        self.synchronisations = 0

    @property
    def free_bytes(self) -> int:
        """Of all pools."""
        return sum(pool.free_bytes for pool in self._pools.values())

    @property
    def largest(self) -> int:
        """Of all pools."""
        return max((pool.largest for pool in self._pools.values()), default=0)

    def allocate(self, stream: int, size: int) -> Chunk:
        """Give bytes of the stream's pool."""
        return self._pools[stream].allocate(stream, size)

    def free(self, stream: int, chunk: Chunk) -> None:
        """Take them back."""
        self._pools[stream].free(stream, chunk)

    def synchronise(self) -> None:
        """Changes nothing that a stream may use."""
        for pool in self._pools.values():
            pool.synchronise()
