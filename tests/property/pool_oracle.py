"""A pool as a map of cells, one for each chunk of the alignment's size: slow, and free of any bookkeeping."""

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

Cell = str | frozenset[int]
"""The name of what holds the cell, or the streams that may still work on it though it is free."""


class Given(NamedTuple):
    start: int
    cells: int
    waited: bool


class NoRoom(Exception):
    pass


@dataclass
class CellMap:
    """Free cells side by side are one chunk if they are of one kind, or if the pool is blind.

    A blind one knows of a chunk who may work somewhere in it, not where.
    """

    cells: list[Cell]
    most_padding: int
    blind: bool

    def runs(self) -> list[tuple[int, int, frozenset[int]]]:
        """The free chunks, as (cells, first cell, streams)."""
        found: list[tuple[int, int, frozenset[int]]] = []
        at = 0
        for _, group in groupby(self.cells, key=self._looks):
            run = list(group)
            if not isinstance(run[0], str):
                streams = frozenset(stream for cell in run for stream in cell)
                found.append((len(run), at, streams))
            at += len(run)
        return found

    def allocate(self, name: str, stream: int, cells: int) -> Given:
        waited = False
        fitting = self._usable(stream, cells)
        if not fitting and any(isinstance(cell, frozenset) and cell for cell in self.cells):
            waited = True
            self.synchronise()
            fitting = self._usable(stream, cells)
        if not fitting:
            raise NoRoom
        size, start, _ = min(fitting)
        if size < 2 * cells and size - cells < self.most_padding:
            cells = size
        self.cells[start : start + cells] = [name] * cells
        return Given(start, cells, waited)

    def free(self, name: str, stream: int) -> None:
        self.cells = [frozenset([stream]) if cell == name else cell for cell in self.cells]
        for size, start, streams in self.runs() if self.blind else ():
            self.cells[start : start + size] = [streams] * size

    def synchronise(self) -> None:
        self.cells = [cell if isinstance(cell, str) else frozenset() for cell in self.cells]

    def _looks(self, cell: Cell) -> object:
        return "free" if self.blind and not isinstance(cell, str) else cell

    def _usable(self, stream: int, cells: int) -> list[tuple[int, int, frozenset[int]]]:
        fitting = [run for run in self.runs() if run[0] >= cells]
        if self.blind:
            best = min(fitting, default=None)
            return [best] if best and best[2] <= {stream} else []
        own = [run for run in fitting if run[2] == {stream}]
        return own or [run for run in fitting if not run[2]]
