"""How much memory each device holds, from when tasks began and ended."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryCurve:
    """Bytes held from each time (seconds) on, until the next."""

    points: tuple[tuple[float, int], ...]

    @property
    def peak_bytes(self) -> int:
        """The most that was held."""
        return max((held for _, held in self.points), default=0)


def held_bytes(
    begin: Sequence[int],
    end: Sequence[int],
    sizes: Mapping[int, int],
    readers: Callable[[int], Iterable[int]],
) -> list[tuple[int, int]]:
    """(tick, bytes held from then on): what a task makes is held from its start until its last reader has ended.

    What nothing reads is held until its own end. What comes and goes at one tick is not seen.
    """
    changes: dict[int, int] = defaultdict(int)
    for task, size in sizes.items():
        changes[begin[task]] += size
        changes[max([end[task], *(end[reader] for reader in readers(task))])] -= size
    held = 0
    points: list[tuple[int, int]] = []
    for tick, change in sorted(changes.items()):
        if change:
            held += change
            points.append((tick, held))
    return points
