"""Pipeline: passes one after the other, verified in between. It is a pass itself."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tfwave.errors import PassError, TfwaveError, excerpt
from tfwave.graph.edits import Edit
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.passes.base import PassResult, Transform


@dataclass(frozen=True)
class Stage:
    """One pass of a pipeline that has just run; `number` counts from 1, `seconds` is wall time."""

    number: int
    graph_pass: Transform
    before: GraphItem
    result: PassResult
    seconds: float


Instrument = Callable[[Stage], None]
"""It is called after each pass: to time, dump or count."""


@dataclass(frozen=True)
class Pipeline(Transform):
    """Runs passes in order, and shows each stage to the instruments.

    Raises:
        PassError: a pass failed, or broke its contract; names it and the passes before it. The cause is kept.
    """

    passes: tuple[Transform, ...]
    instruments: tuple[Instrument, ...] = ()

    def apply(self, item: GraphItem, view: GraphView) -> tuple[PassResult, GraphView]:
        """Run all passes on a verified graph."""
        edits: list[Edit] = []
        remarks: list[str] = []
        for number, graph_pass in enumerate(self.passes, 1):
            start = time.perf_counter()
            with self._naming(number):
                result, view = graph_pass.apply(item, view)
            self._show(Stage(number, graph_pass, item, result, time.perf_counter() - start))
            item = result.item
            edits += result.edits
            remarks += result.remarks
        return PassResult(item, tuple(edits), tuple(remarks)), view

    def _show(self, stage: Stage) -> None:
        for instrument in self.instruments:
            instrument(stage)

    @contextmanager
    def _naming(self, number: int) -> Generator[None]:
        """Say in every error which pass it came from, and what ran before."""
        try:
            yield
        except TfwaveError as error:
            raise PassError(f"{self._where(number)}: {error}") from error
        except Exception as error:
            error.add_note(f"in {self._where(number)}")
            raise

    def _where(self, number: int) -> str:
        before = ", ".join(str(p) for p in self.passes[: number - 1])
        after = f", after {excerpt(before)}" if before else ""
        return f"pass {number} of {len(self.passes)}, {excerpt(str(self.passes[number - 1]))}{after}"

    def __str__(self) -> str:
        """The text form: the passes' own, joined by commas."""
        return ",".join(map(str, self.passes))
