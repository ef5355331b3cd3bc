"""What a step's ops do to the memory of one device."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush


@dataclass(frozen=True)
class OpMemory:
    """What one op does to the pool, in bytes.

    Attributes:
        node: its name.
        takes: of the outputs that it allocates and that live on when it is done; none for what shares a buffer.
        scratch: held only while it runs.
        gives: of the tensors that are freed once it has run, its own included.
        beside: the scratch of ops that began before it and still run when it begins.
    """

    node: str
    takes: int
    scratch: int
    gives: int
    beside: int = 0

    @property
    def most(self) -> int:
        """What is held from its begin until the next op's, above what was held before, at most."""
        return self.takes + self.scratch + self.beside

    @property
    def piece(self) -> int:
        """The most that it asks for at once."""
        return max(self.takes, self.scratch)

    @property
    def net(self) -> int:
        """What stays allocated by it; negative where it frees more."""
        return self.takes - self.gives


@dataclass(frozen=True)
class MemoryProfile:
    """A step on one device: its ops in the order in which they ran, and what lies there all the time, in bytes."""

    device: str
    ops: Sequence[OpMemory]
    resident: int

    @cached_property
    def peak(self) -> int:
        """The most that is allocated at once, resident variables included."""
        held = highest = self.resident
        for op in self.ops:
            highest = max(highest, held + op.most)
            held += op.net
        return highest


def scratch_beside(spans: Iterable[tuple[float, float]], scratch: Iterable[int]) -> Iterator[int]:
    """Per run, by begin and end in the order of begin: the scratch of those before it that run when it begins."""
    running: list[tuple[float, int]] = []
    beside = 0
    for (begin, end), own in zip(spans, scratch, strict=True):
        while running and running[0][0] <= begin:
            beside -= heappop(running)[1]
        yield beside
        heappush(running, (end, own))
        beside += own
