"""The integer optimum: which tensors are away, at the least price, by SciPy's HiGHS."""

import importlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tfwave.errors import EnvironmentUnsupported
from tfwave.offload.choice import Choice, Prices
from tfwave.offload.layout import Bytes, Layout, Method

_ROUNDS = 64

_Row = tuple[list[tuple[int, float]], float, float]
"""Coefficients by variable, and between what their sum must lie."""


@dataclass(frozen=True)
class Optimum:
    """The best choice found, None without any; none that keeps to the limit costs less than `bound` seconds."""

    choice: Choice | None
    bound: float


def exact_choice(prices: Prices, limit: int, seconds: float) -> Optimum:
    """Solve it within a time limit in seconds.

    The program lets some choices through that hold too much, where chains need what others give. One that it finds
    is ruled out for the next round; each round's bound holds.

    Raises:
        EnvironmentUnsupported: SciPy is not installed.
    """
    optimize = _scipy("scipy.optimize")
    program, bound = _Program(prices, limit), 0.0
    ends = time.monotonic() + seconds
    for _ in range(_ROUNDS):
        methods, least = _solved(optimize, program, ends - time.monotonic())
        bound = max(bound, least)
        if methods is None:
            break
        choice = Choice.of(prices.layout, methods)
        if choice.fits(limit):
            return Optimum(choice, bound)
        program.rule_out(methods)
    return Optimum(None, bound)


def _scipy(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EnvironmentUnsupported(
            f"the policy exact needs SciPy ({error}): python -m pip install 'tfwave[exact]', or choose another"
        ) from error


def _solved(optimize: Any, program: "_Program", seconds: float) -> tuple[Bytes | None, float]:
    rows = list(program.rows())
    sparse = _scipy("scipy.sparse")
    entries = [(value, row, column) for row, (terms, _, _) in enumerate(rows) for column, value in terms]
    values, at_rows, at_columns = zip(*entries, strict=True) if entries else ((), (), ())
    matrix = sparse.coo_matrix((values, (at_rows, at_columns)), shape=(len(rows), program.size))
    between = optimize.LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])
    costs = np.array(program.prices())
    unit = costs.max(initial=0.0) or 1.0
    found = optimize.milp(
        costs / unit,
        constraints=between,
        integrality=program.integral(),
        bounds=optimize.Bounds(0, program.most()),
        options={"time_limit": max(0.0, seconds), "mip_rel_gap": 1e-4},
    )
    if found.x is None:
        return None, 0.0
    return program.methods(found.x), float(found.mip_dual_bound) * unit


class _Program:
    """Variables: 0 to 2n - 1 whether a candidate is offloaded, or made again; then what is away in each segment,
    and for which segments a chain runs that takes room.

    1. Segments are the places between which nothing leaves or comes. Away are the first segments of a gap.
    2. What is made again comes back for the op that wants it, or with what is made of it.
    3. What its chain takes besides is held during the op for which it runs, which is a segment of its own.
    """

    def __init__(self, prices: Prices, limit: int) -> None:
        self._prices, self._limit = prices, limit
        self._layout: Layout = prices.layout
        self._n = len(self._layout.candidates)
        self._unit = float(self._layout.bytes.max(initial=1))
        cuts = {0, len(self._layout.kept)}
        for c in self._layout.candidates:
            cuts.update((c.left + 1, c.wanted, c.wanted + 1, max(c.fetched, c.left + 1)))
        self._segments = list(pairwise(sorted(cuts)))
        self._ruled_out: list[Bytes] = []
        self._away: dict[tuple[int, int], int] = {}
        self._gap: list[list[int]] = []
        for number, c in enumerate(self._layout.candidates):
            gap = [s for s, (a, b) in enumerate(self._segments) if c.left < a and b <= c.wanted]
            self._gap.append(gap)
            for s in gap:
                self._away[number, s] = 2 * self._n + len(self._away)
        self._runs: dict[tuple[int, int], int] = {}
        for number in np.flatnonzero(self._layout.temporary).tolist():
            for s in self._returns(number):
                self._runs[number, s] = 2 * self._n + len(self._away) + len(self._runs)
        self.size = 2 * self._n + len(self._away) + len(self._runs)

    def rows(self) -> Iterator[_Row]:
        for number in range(self._n):
            yield [(number, 1), (self._n + number, 1)], 0, 1
            yield from self._rows_of_gap(number)
            yield from self._rows_of_return(number)
            for need in self._layout.needs[number]:
                yield from self._rows_of_need(number, need)
        yield from self._rows_of_room()
        for methods in self._ruled_out:
            ones = [m + (k - 1) * self._n for m, k in enumerate(methods.tolist()) if k]
            yield [(v, -1.0 if v in ones else 1.0) for v in range(2 * self._n)], 1 - len(ones), float("inf")

    def rule_out(self, methods: Bytes) -> None:
        """Let it be found no more."""
        self._ruled_out.append(methods)

    def prices(self) -> list[float]:
        of = self._prices.of
        known = [
            p[Method.RECOMPUTE] if c.chain else 0.0 for p, c in zip(of, self._layout.candidates, strict=True)
        ]
        return [*(p[Method.OFFLOAD] for p in of), *known, *[0.0] * (self.size - 2 * self._n)]

    def most(self) -> list[float]:
        return [
            *[1.0] * self._n,
            *(float(c.chain is not None) for c in self._layout.candidates),
            *[1.0] * (self.size - 2 * self._n),
        ]

    def integral(self) -> list[int]:
        return [*[1] * (2 * self._n), *[0] * (self.size - 2 * self._n)]

    def methods(self, x: Sequence[float]) -> Bytes:
        chosen = np.round(x[: 2 * self._n]).astype(np.int64)
        return Method.OFFLOAD * chosen[: self._n] + Method.RECOMPUTE * chosen[self._n :]

    def _returns(self, number: int) -> list[int]:
        """The segments before which a candidate can come back by its chain: its gap's end, and those within."""
        last = self._gap[number][-1] + 1
        return [last, *(s for s in self._gap[number][1:] if self._layout.users[number])]

    def _drop(self, number: int, s: int) -> list[tuple[int, float]]:
        """Whether a candidate is away up to a segment, and not in it."""
        if (number, s - 1) not in self._away:
            return []
        now = [(self._away[number, s], -1.0)] if (number, s) in self._away else []
        return [(self._away[number, s - 1], 1.0), *now]

    def _rows_of_gap(self, number: int) -> Iterator[_Row]:
        """Away only if chosen; offloaded, not while it is copied back; and never again once it is there."""
        fetched = self._layout.candidates[number].fetched
        for s in self._gap[number]:
            terms = [(self._away[number, s], 1.0), (self._n + number, -1.0)]
            if self._segments[s][1] <= fetched:
                terms.append((number, -1.0))
            yield terms, -2, 0
        for s, later in pairwise(self._gap[number]):
            yield [(self._away[number, later], 1.0), (self._away[number, s], -1.0)], -1, 0

    def _rows_of_return(self, number: int) -> Iterator[_Row]:
        """Cases 2 and 3."""
        for s in self._gap[number][1:]:
            users = [(v, -c) for user in self._layout.users[number] for v, c in self._drop(user, s)]
            yield [*self._drop(number, s), (number, -1.0), *users], -float("inf"), 0
        for s in self._returns(number) if self._layout.temporary[number] else ():
            yield [*self._drop(number, s), (number, -1.0), (self._runs[number, s], -1.0)], -float("inf"), 0

    def _rows_of_need(self, number: int, need: int) -> Iterator[_Row]:
        """Once it is made again, what its chain needs is there."""
        left = self._layout.candidates[number].left
        for s in self._gap[need]:
            if self._segments[s][1] <= left + 1:
                continue
            terms = [(self._away[need, s], 1.0), (self._n + number, 1.0)]
            if (number, s) in self._away:
                terms.append((self._away[number, s], -1.0))
            yield terms, -2, 1

    def _rows_of_room(self) -> Iterator[_Row]:
        of_segment: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for (number, s), variable in self._away.items():
            of_segment[s].append((variable, self._layout.candidates[number].bytes / self._unit))
        for (number, s), variable in self._runs.items():
            of_segment[s].append((variable, -float(self._layout.temporary[number]) / self._unit))
        for s, (a, b) in enumerate(self._segments):
            over = int(self._layout.kept[a:b].max(initial=0)) - self._limit
            if over > 0 or any(value < 0 for _, value in of_segment[s]):
                yield of_segment[s], over / self._unit, float("inf")
