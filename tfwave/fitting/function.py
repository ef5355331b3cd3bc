"""A `tf.function` whose step is made to fit into a limited memory."""

import logging
import operator
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tfwave.bundle.bundle import Bundle
from tfwave.capture.call import traced_function
from tfwave.errors import EnforcerError, PlanError
from tfwave.offload.batch import at_rows
from tfwave.offload.captured import CapturedStep, captured_step
from tfwave.offload.question import Question
from tfwave.passes.registry import find_pass
from tfwave.plan.memory import Memory
from tfwave.plan.plan import Plan
from tfwave.report.drawn.fitted import fit_figure
from tfwave.report.page.left import leave_page
from tfwave.report.told import tell_plan
from tfwave.runtime.beside import ran_out_of_memory
from tfwave.runtime.events import Events
from tfwave.runtime.live.batches import by_place, kind_of, lengths_of
from tfwave.runtime.live.grappler import in_grappler
from tfwave.runtime.live.instances import FunctionInstance
from tfwave.runtime.live.retrace import is_function
from tfwave.runtime.live.rows import first_rows, rows_of
from tfwave.runtime.live.untouched import untouched
from tfwave.runtime.planned_pool import opened_pool
from tfwave.runtime.pool import any_pool_limit
from tfwave.runtime.stash import StashFigures, load_stash_ops, reserve_for, stash_figures
from tfwave.sizes import in_words, parse_size

_TRACED = 2
"""Steps: the one with the highest peak counts, and of each op the shortest run."""
_NOT_SHOWN = (
    "the step ran as it is, since TensorFlow's optimizer is off, in which it is rewritten: leave "
    "disable_meta_optimizer as it was, or use tfwave fit and tfwave rewrite on a graph"
)
_FIRST = threading.RLock()
"""One is planned at a time in a process: what TensorFlow tells of a step, it tells of those of all threads."""
_log = logging.getLogger("tfwave")


class _Kind(NamedTuple):
    """Of batches: how they are built, and how long what is ragged or sparse in them may be."""

    built: tuple[str, ...]
    lengths: tuple[int, ...]

    def is_covered_by(self, other: "_Kind") -> bool:
        """Does a step of such a batch take no more than one of the other?"""
        return self.built == other.built and all(map(operator.le, self.lengths, other.lengths))

    @property
    def said(self) -> tuple[str, ...]:
        most = ", ".join(map(str, self.lengths))
        return (*self.built, f"lengths up to {most}") if self.lengths else self.built


class FittedFunction:
    """Calls a `tf.function`, in a memory that its step would not keep to; made by `fit_memory`."""

    def __init__(
        self, step: Any, limit: int, sample_rows: int | None, report_dir: Path | None = None
    ) -> None:
        """Nothing is traced before the first call."""
        self._step, self._limit, self._sample_rows = step, limit, sample_rows
        self._pool = opened_pool()
        self._served: Memory | None = None
        self._report_dir = report_dir
        self._events = None if report_dir is None else Events(report_dir)
        self._instances: dict[_Kind, FunctionInstance] = {}
        self._plans: dict[_Kind, Plan] = {}
        self._rows: list[int] = []

    @property
    def plans(self) -> Mapping[tuple[str, ...], Plan]:
        """How the step fits, by shape and type of what it was called with."""
        return {kind.said: plan for kind, plan in self._plans.items()}

    @property
    def events(self) -> Events | None:
        """For TensorBoard; None without a `report_dir`."""
        return self._events

    @property
    def figures(self) -> StashFigures:
        """What this process has moved to the host and back, and holds there now."""
        return stash_figures()

    def __call__(self, *batch: Any, **named: Any) -> Any:
        """Make a step. The first with a batch of its shape and type is planned, which takes some steps' time.

        So is one whose ragged or sparse tensors have more values, or longer rows, than in any that was planned.
        Steps of several threads are planned one after the other.

        Raises:
            TypeError: the step is not called like that.
            PlanError: the step does not fit; says what would. Or the steps that are traced have no room.
            BundleError, EnforcerError: as `tfwave.capture_function`, or TensorFlow shows another graph than it ran,
                or none; or another thread's step in a planned pool does not end; or it takes arguments by name
                alone.
        """
        batch = by_place(self._step, batch, named)
        own = _Kind(kind_of(batch), lengths_of(batch))
        with nullcontext() if self._pool is None else self._pool.turn():
            kind = self._planned_for(own)
            if kind is None:
                with _FIRST:
                    kind = self._planned_for(own)  # another thread may have done that meanwhile
                    if kind is None:
                        return self._first(own, batch)
            self._serve(self._plans[kind])
            return self._instances[kind](*batch)

    def release(self) -> None:
        """Give back what a planned pool keeps free for the step, until the next one is made: for other work."""
        if self._pool is not None and self._served is not None:
            with self._pool.turn():
                if self._pool.installed is self._served:
                    self._pool.remove()

    def _planned_for(self, own: _Kind) -> _Kind | None:
        """What covers a batch of this kind, of all that was planned."""
        return next(filter(own.is_covered_by, list(self._plans)), None)

    def _first(self, kind: _Kind, batch: tuple[Any, ...]) -> Any:
        plan = self._planned(batch)
        instance = FunctionInstance(self._step)
        reserve_for(plan)
        self._serve(plan)
        make: Any = find_pass("fit_memory")
        with untouched(self._step, batch, only_on_error=True), in_grappler(make(plan)) as shown:
            try:
                value = instance(*batch)
            finally:
                if not shown:
                    raise EnforcerError(_NOT_SHOWN)
        self._instances[kind], self._plans[kind] = instance, plan
        self._rows.append(rows_of(batch))
        return value

    def _serve(self, plan: Plan) -> None:
        """Let its buffers lie where the plan says, in a pool that can."""
        if self._pool is not None and self._pool.installed is not plan.memory:
            self._pool.install(plan)
            self._served = plan.memory

    def _planned(self, batch: tuple[Any, ...]) -> Plan:
        rows = rows_of(batch)
        sample = first_rows(batch, rows, self._sample_rows)
        traced_rows = rows_of(sample)
        _log.info("tfwave: tracing %d steps of %d rows, on copies", _TRACED, traced_rows)
        if self._pool is not None:
            self._pool.remove()
        captured = captured_step(self._traced(sample, traced_rows))
        is_estimated = traced_rows != rows
        whole = self._at(captured, rows, sample, traced_rows) if is_estimated else captured
        question = Question(
            whole,
            captured if whole.step.buffers != captured.step.buffers else None,
            self._limit,
            places=self._pool is not None,
            estimated=is_estimated,
        )
        if question.fit is None or question.section is None:
            raise PlanError(_refusal(question, rows))
        section = question.section
        _log.info(
            "tfwave: %d of its tensors are away, up to %s of %s are held, %+.1f ms a step by the model",
            len(section.tensors),
            in_words(section.peak_bytes),
            in_words(question.usable),
            (section.seconds - section.plain_seconds) * 1e3,
        )
        plan = question.plan()
        self._leave(self._name(rows), plan, question)
        return plan

    def _at(self, captured: CapturedStep, rows: int, sample: tuple[Any, ...], traced: int) -> CapturedStep:
        """The step of so many rows, from what was traced and, of half as many, from what is traced now."""
        steps = {traced: captured.step}
        half = traced // 2
        if half:
            try:
                steps[half] = captured_step(self._traced(first_rows(sample, traced, half), half)).step
            except Exception as error:  # the step's own: any
                _log.warning(
                    "tfwave: the step was not traced with %d rows (%s): all bytes but those of gradients are taken "
                    "to grow with the rows",
                    half,
                    error,
                )
        return replace(captured, step=at_rows(steps, rows))

    def _traced(self, sample: tuple[Any, ...], rows: int) -> Bundle:
        try:
            with untouched(self._step, sample):
                return traced_function(self._step, *sample, steps=_TRACED, warmup=1)
        except Exception as error:
            if not ran_out_of_memory(error):
                raise
            raise PlanError(
                f"the steps that are traced, of {rows} rows, have no room as they are: let them be of fewer, with "
                "sample_rows"
            ) from error

    def _name(self, rows: int) -> str:
        """Of a plan's files: as many rows come in several shapes, such as sequences of several lengths."""
        number = self._rows.count(rows) + 1
        return f"fitted_{rows}_rows" if number == 1 else f"fitted_{rows}_rows_{number}"

    def _leave(self, name: str, plan: Plan, question: Question) -> None:
        if self._report_dir is None or self.events is None:
            return
        leave_page(self._report_dir, name, plan)
        tell_plan(self.events, name, plan, {"memory": lambda: fit_figure(question)}, len(self._plans))


def fit_memory(
    step: Any,
    limit: str | int | None = None,
    *,
    sample_rows: int | None = None,
    report_dir: str | Path | None = None,
) -> FittedFunction:
    """A training step that keeps to a limit of the CPU's pool: call what this returns in the place of `step`.

    The pool is that of `tfwave.colocate.limit_memory`, which comes before TensorFlow, or of
    `tfwave.colocate.planned_pool`: there the plan also says where all that the step takes lies, so that more fits,
    or the same in less time. At the first call with a batch of some shape, three steps run, and the step is planned
    as ``tfwave fit`` does: tensors are away between the forward and the backward pass, on the host or made again,
    and the ops that move the peak run in turn.

    1. What is trained is what `step` trains, bit for bit: variables are as they were behind those three steps. What
       is no variable, such as a table or an iterator that the step changes, is not put back.
    2. The steps that are traced must fit as they are: where the whole batch does not, let them be of its first
       `sample_rows` rows. Then three steps of half as many rows run, too, and each buffer is taken to grow in a
       straight line, as it does between these two; an op's seconds grow with the rows if a buffer of its own does.
    3. A tenth of the limit is kept free where ops run side by side, as nobody knows how they interleave, or where
       the first rows only were traced; a fiftieth else, as in a planned pool.
    4. `step` itself stays as it is; calls of it, and of what it calls, are not changed.

    Args:
        step: a `tf.function` that trains on one CPU.
        limit: bytes that all may hold in the pool, or with a unit, such as ``"512MiB"``; that of the pool, if
            nothing says otherwise.
        sample_rows: how many rows of the first batch are traced; all, if nothing says otherwise.
        report_dir: a directory that gets each plan as it is made, as ``fitted_<rows>_rows.plan.json``, a page of it
            as ``fitted_<rows>_rows.html`` (see `tfwave report`), and for TensorBoard what it says as text and what
            a step holds, as it is and fitted, as a picture (with ``tfwave[plot]``); None: none. Where as many rows
            come in several shapes, the second is ``fitted_<rows>_rows_2``.

    Raises:
        EnforcerError: the step is no `tf.function`, the pool has no limit, or a number is out of range.
        EnvironmentUnsupported: no supported TensorFlow, or no compiler.
    """
    if not is_function(step):
        raise EnforcerError(f"the step is {step!r}: give a tf.function")
    if sample_rows is not None and sample_rows < 1:
        raise EnforcerError(f"a sample of {sample_rows} rows: give 1 or more")
    most = any_pool_limit()
    wanted = most if limit is None else parse_size(limit)
    if not 0 < wanted <= most:
        raise EnforcerError(
            f"a limit of {in_words(wanted)} in a pool of {in_words(most)}: give more than 0, and no more than that"
        )
    load_stash_ops()
    return FittedFunction(step, wanted, sample_rows, None if report_dir is None else Path(report_dir))


def _refusal(question: Question, rows: int) -> str:
    largest = question.batch.fitted * rows
    would = f"at most {int(largest)} rows would fit" if 1 <= largest < float("inf") else "no batch would fit"
    free = 1 - question.usable / question.limit
    why = f"{question.refusal} ({free:.0%} of the limit is kept free)"
    return f"the step of {rows} rows: {why}; {would}, by the model"
