"""The offset of two waves, chosen by what a step takes of the CPU's pool."""

import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tfwave.capture.memory.traced import TRACED_STEPS, traced_memory
from tfwave.errors import EnforcerError
from tfwave.graph.verify import verify
from tfwave.memory.step import StepMemory
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.match import check_graph
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves
from tfwave.rewrite.waves.training import Training
from tfwave.runtime.pool import pool_in_use, pool_limit
from tfwave.runtime.trace.memory import MemoryTrace, trace_memory
from tfwave.runtime.waves.alone import StepAlone
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.rewritten import RewrittenStep
from tfwave.runtime.waves.step import TracedStep
from tfwave.sizes import in_words
from tfwave.waves.fit import fitting_offset, least_room

_NUMBER = "or give the offset as a number"
_log = logging.getLogger("tfwave")


class OffsetChoice:
    """The options of one training in waves, with the offset that they or a plan say, or one that is chosen once."""

    def __init__(self, options: WaveOptions) -> None:
        """Nothing is measured yet.

        Raises:
            EnforcerError: as `check_pool`.
        """
        check_pool(options)
        self._options = options
        self._waves = options.planned
        self._is_checked = options.planned is None

    @property
    def offset(self) -> float | None:
        """None before it is chosen."""
        return None if self._options.is_auto else float(self._options.offset)

    @property
    def waves(self) -> Waves | None:
        """As a section of a plan, given or chosen; None before, and where a number says the offset."""
        return self._waves

    @property
    def plan(self) -> Plan | None:
        """The same as a plan, for another run."""
        return None if self._waves is None else Plan(waves=self._waves)

    def options(self, step: TracedStep, args: Any, carried: Sequence[Any] = ()) -> WaveOptions:
        """With an offset in numbers, the first time chosen for this step and its arguments; or checked, if planned.

        Raises:
            EnforcerError: the step cannot be measured: it is called within a `tf.function`, its variables are not
                on a CPU, it changes what is no variable, or the process is being profiled.
            PassError, GraphError: the step cannot run in waves; names the node.
            PlanError: two waves fit at no offset, or the plan was made for another step.
        """
        if self._options.is_auto:
            self._waves, self._is_checked = choose_waves(step, args, carried), True
            self._options = self._options.at(self._waves.offset)
        elif self._waves is not None and not self._is_checked:
            check_graph(self._waves.graph, verify(RewrittenStep(step, self._options).plain))
            self._is_checked = True
        return self._options


@dataclass(frozen=True)
class MeasuredStep:
    """What a step did to the pool, and what lay there besides: `others`, of both waves, in bytes."""

    training: Training
    memory: StepMemory
    others: int


def check_pool(options: WaveOptions) -> None:
    """Refuse an offset that is to be chosen where nothing tells for what.

    Raises:
        EnforcerError: the CPU's pool has no limit.
    """
    if options.is_auto:
        try:
            pool_limit()
        except EnforcerError as err:
            raise EnforcerError(f"offset='auto' fits waves into a pool, and {err}, {_NUMBER}") from err


def choose_waves(step: TracedStep, args: Any, carried: Sequence[Any] = ()) -> Waves:
    """Two waves of a step at the least offset with which they fit into the CPU's pool by the model; logs it.

    Some steps are run and traced for it (`measure_step`). The model and its margins are those of
    `tfwave.waves.fit.fitting_offset`.

    Raises:
        EnforcerError, PassError, GraphError, PlanError: as `OffsetChoice.options`.
    """
    found = measure_step(step, args, carried)
    gc.collect()  # the copies of the variables: graphs of functions are cycles
    limit = pool_limit()
    offset = fitting_offset(found.training, found.memory, limit, found.others)
    needed = least_room(found.training, found.memory, offset, found.others)
    _log.info(
        "tfwave: the offset of the waves is %.3f: they need up to %s by the model, in a pool of %s",
        offset,
        in_words(needed),
        in_words(limit),
    )
    return Waves(graph_print(found.training.step.view), 2, offset, limit, needed)


def measure_step(step: TracedStep, args: Any, carried: Sequence[Any] = ()) -> MeasuredStep:
    """Run a step on copies of its variables: once, so that TensorFlow optimizes it, then traced, the highest peak.

    1. Nothing is left behind: the training goes on as if these steps had not been.
    2. Resident is nothing: what lies in the pool between the steps, the second wave's variables included, is in
       `others`. With it are a second instance's constants, and each gradient twice, for the averages (see
       `tfwave.waves.fit`): the trace does not tell which of an op's tensors is the gradient.

    Raises:
        EnforcerError, PassError, GraphError: as `OffsetChoice.options`.
        PlanError: the pool has no room for one step.
    """
    _check_eager()
    rewritten = RewrittenStep(step, WaveOptions(waves=1))
    training = rewritten.training
    _check_place(rewritten)
    _check_changes(training)
    alone = StepAlone(rewritten)
    before = pool_in_use()
    alone(args, carried)
    constants = max(0, pool_in_use() - before - alone.copied_bytes)
    nodes = frozenset(training.step.view.names)
    besides = constants + 2 * _gradient_bytes(step, training)
    steps: list[MeasuredStep] = []
    for _ in range(TRACED_STEPS):
        held = pool_in_use()
        _, trace = trace_memory(lambda: alone(args, carried))
        of_step = trace.of_step(nodes)
        memory = traced_memory(of_step, _ran(of_step))
        steps.append(MeasuredStep(training, memory, held + besides))
    return max(steps, key=lambda found: found.memory.profile.peak + found.others)


def _ran(trace: MemoryTrace) -> frozenset[str]:
    """All nodes of a step, those too that TensorFlow made of others."""
    return frozenset([*(run.node for run in trace.ops), *(made.node for made in trace.allocations)])


def _gradient_bytes(step: TracedStep, training: Training) -> int:
    """Of those whose shape is known before they are computed, as that of a variable's gradient is."""
    graph = step.concrete.graph
    names = [f"{gradient.tensor.node}:{gradient.tensor.port}" for gradient in training.gradients]
    tensors = map(graph.get_tensor_by_name, names)
    return sum(t.shape.num_elements() * t.dtype.size for t in tensors if t.shape.is_fully_defined())


def _check_eager() -> None:
    if not import_module("tensorflow").executing_eagerly():
        raise EnforcerError(f"offset='auto' runs steps first: call once outside of a tf.function, {_NUMBER}")


def _check_place(rewritten: RewrittenStep) -> None:
    for name, device in sorted((rewritten.plain.handles or {}).items()):
        if "/device:CPU:" not in device:
            raise EnforcerError(
                f"offset='auto' knows the CPU's pool, and the variable of '{name}' is on {device}: train on "
                f"the CPU, {_NUMBER}"
            )


def _check_changes(training: Training) -> None:
    """Only variables can be copied."""
    view, known = training.step.view, training.variables
    others = {t.node for t in known.touches if t.writes and t.resource not in known.changed}
    for node in sorted(others, key=lambda node: view.names[node]):
        raise EnforcerError(
            f"offset='auto' runs steps first, and node '{view.names[node]}' ({view.ops[node]}) changes what is no "
            f"variable: leave it out, {_NUMBER}"
        )
