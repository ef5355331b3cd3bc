"""What is chosen for each tensor, what that costs, and what it leaves in memory."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tfwave.offload.layout import RECOMPUTE, Bytes, Layout, Method


@dataclass(frozen=True)
class Prices:
    """What it costs to have each candidate away, in seconds; infinite where it cannot be made again.

    `exposed` is what a second of copying counts: 1 if nothing of it hides behind compute.
    """

    layout: Layout
    exposed: float = 1.0

    @cached_property
    def of(self) -> npt.NDArray[np.float64]:
        """By candidate and method."""
        candidates, lanes = self.layout.candidates, self.layout.step.lanes
        copied = [2 * self.exposed * lanes.copy_seconds(candidate.bytes) for candidate in candidates]
        again = [candidate.chain.seconds if candidate.chain else math.inf for candidate in candidates]
        return np.array([np.zeros(len(candidates)), copied, again]).T

    def total(self, choice: "Choice") -> float:
        """Of all that is away."""
        return math.fsum(self.of[np.arange(len(choice.methods)), choice.methods])


@dataclass(frozen=True, eq=False)
class Choice:
    """A `Method` for each candidate of a layout.

    Attributes:
        layout: of the step.
        methods: by candidate.
        needed: as `Layout.needed`.
        held: as `Layout.held`.
    """

    layout: Layout
    methods: Bytes
    needed: Bytes
    held: Bytes

    @classmethod
    def of(cls, layout: Layout, methods: Bytes) -> "Choice":
        """These methods."""
        needed = layout.needed(methods)
        return cls(layout, methods, needed, layout.held(methods, layout.returns(methods, needed)))

    @classmethod
    def all_of(cls, layout: Layout, method: Method) -> "Choice":
        """The same for all."""
        return cls.of(layout, np.full(len(layout.candidates), method, dtype=np.int64))

    def having(self, number: int, method: int) -> "Choice":
        """With another method for one; what its chain needs may have to be there sooner or later then."""
        layout = self.layout
        made = Choice(layout, self.methods.copy(), self.needed.copy(), self.held.copy())
        made._set(number, method, int(self.needed[number]))
        waiting = {*layout.needs[number]} if RECOMPUTE in (method, self.methods[number]) else set[int]()
        while waiting:
            need = max(waiting)
            waiting.remove(need)
            own, needed = int(made.methods[need]), layout.needed_at(need, made.methods, made.needed)
            if needed != made.needed[need]:
                made._set(need, own, needed)
                waiting.update(layout.needs[need] if own == RECOMPUTE else ())
        return made

    def _set(self, number: int, method: int, needed: int) -> None:
        """In place; what its chain needs stays as it is."""
        self.layout.relieve(self.held, number, int(self.methods[number]), int(self.needed[number]), -1)
        self.methods[number], self.needed[number] = method, needed
        self.layout.relieve(self.held, number, method, needed)

    @property
    def returns(self) -> Bytes:
        """As `Layout.returns`."""
        return self.layout.returns(self.methods, self.needed)

    def is_same(self, other: "Choice") -> bool:
        """Are the methods of another the same?"""
        return np.array_equal(self.methods, other.methods)

    @property
    def peak(self) -> int:
        """The most bytes held at once."""
        return int(self.held.max(initial=0))

    def fits(self, limit: int) -> bool:
        """Is never more held?"""
        return self.peak <= limit

    def excess(self, limit: int) -> int:
        """Bytes over the limit, summed over all places."""
        return int(np.maximum(self.held - limit, 0).sum())
