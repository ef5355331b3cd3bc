"""Whether a step runs in two waves, and when the second begins, chosen by what it takes of the CPU's pool."""

import gc
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from tfwave.capture.memory.traced import TRACED_STEPS, traced_memory
from tfwave.capture.timed import timed
from tfwave.errors import EnforcerError
from tfwave.graph.verify import verify
from tfwave.memory.step import StepMemory
from tfwave.plan.fingerprint import graph_print, nameless_print
from tfwave.plan.groups import UNKNOWN_SHARE
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
from tfwave.waves.fit import fitting_offset, least_room, wave_starts
from tfwave.waves.needs import PoolNeeds
from tfwave.waves.number import planned_waves
from tfwave.waves.pair import Pace
from tfwave.waves.verdict import StepUse, judge_waves

_NUMBER = "or give the offset as a number, and waves, too"
_log = logging.getLogger("tfwave")


@dataclass(frozen=True)
class MeasuredStep:
    """What a step did to the pool and the cores, and what waves of it need; nothing is resident in its trace."""

    training: Training
    needs: PoolNeeds
    use: StepUse

    @property
    def memory(self) -> StepMemory:
        """Of the step alone."""
        return self.needs.memory

    @property
    def others(self) -> int:
        """The bytes that lie in the pool besides what the steps of two waves take."""
        return self.needs.fixed(2)

    def second_begins(self, offset: float) -> float:
        """When a second wave begins by the model, in seconds after the first."""
        return wave_starts(self.training, self.memory, [offset])[0]


OnChosen = Callable[[Plan, MeasuredStep], None]


class WaveChoice:
    """The options of one training in waves, with the number and offset that they or a plan say, or chosen once."""

    def __init__(self, options: WaveOptions, on_chosen: OnChosen | None = None) -> None:
        """Nothing is measured yet; `on_chosen` gets what was chosen, and by what.

        Raises:
            EnforcerError: as `check_pool`.
        """
        check_pool(options)
        self._options, self._on_chosen = options, on_chosen
        self._waves = options.planned
        self._is_checked = options.planned is None

    @property
    def count(self) -> int:
        """How many waves; before it is chosen, the most."""
        return self._options.waves

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
            choose = choose_number if self._options.may_be_one else choose_offset
            found = measure_step(step, args, carried)
            gc.collect()  # the copies of the variables: graphs of functions are cycles
            graph = nameless_print(found.training.step.view)  # its model may be built again in this process
            self._waves, self._is_checked = replace(choose(found, pool_limit()), graph=graph), True
            self._options = self._options.chosen(self._waves)
            if self._on_chosen is not None:
                self._on_chosen(Plan(waves=self._waves), found)
        elif self._waves is not None and not self._is_checked:
            check_graph(self._waves.graph, verify(RewrittenStep(step, self._options).plain))
            self._is_checked = True
        return self._options


def check_pool(options: WaveOptions) -> None:
    """Refuse what is to be chosen where nothing tells for what.

    Raises:
        EnforcerError: the CPU's pool has no limit.
    """
    if options.is_auto:
        try:
            pool_limit()
        except EnforcerError as err:
            what = "waves" if options.may_be_one else "offset"
            raise EnforcerError(f"{what}='auto' fits waves into a pool, and {err}, {_NUMBER}") from err


def choose_offset(found: MeasuredStep, limit: int) -> Waves:
    """Two waves of a step at the least offset with which they fit into a pool of so many bytes; logs it.

    The model and its margins are those of `tfwave.waves.fit.fitting_offset`.

    Raises:
        PlanError: they fit at none.
    """
    offset = fitting_offset(found.training, found.memory, limit, found.others)
    needed = least_room(found.training, found.memory, offset, found.others)
    waves = Waves(graph_print(found.training.step.view), 2, offset, limit, needed)
    _log.info("tfwave: the offset of the waves is %s", _told(waves))
    return waves


def choose_number(found: MeasuredStep, limit: int) -> Waves:
    """Two waves as `choose_offset` has them, or one where no gain is expected or two do not fit; logs why.

    What is compared is tick-tock with one larger batch in the same memory (`tfwave.waves.verdict.judge_waves`), in
    rounds, as a graph with both waves runs.
    """
    verdict = judge_waves(found.needs, found.use, limit, Pace.ROUNDS)
    waves = planned_waves(found.training, verdict, found.needs, limit, found.others)
    if waves.count == 1:
        _log.warning("tfwave: waves='auto' is 1, plain training: %s", waves.verdict)
    else:
        _log.info("tfwave: waves='auto' is 2, at the offset %s: %s", _told(waves), waves.verdict)
    return waves


def _told(waves: Waves) -> str:
    needed, limit = in_words(waves.needed_bytes), in_words(waves.limit_bytes)
    return f"{waves.offset:.3f}: they need up to {needed} by the model, in a pool of {limit}"


def measure_step(step: TracedStep, args: Any, carried: Sequence[Any] = ()) -> MeasuredStep:
    """Run a step on copies of its variables: once, so that TensorFlow optimizes it, then traced, the highest peak.

    1. Nothing is left behind: the training goes on as if these steps had not been.
    2. Resident is nothing: what lies in the pool between the steps is in `others`. With it are the second wave's
       variables, a second instance's constants, and each gradient twice, for the averages (see
       `tfwave.waves.fit`): the trace does not tell which of an op's tensors is the gradient.
    3. How busy the cores are is of this process alone, in the median step.

    Raises:
        EnforcerError, PassError, GraphError: as `WaveChoice.options`.
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
    own, gradients = alone.copied_bytes + constants, _gradient_bytes(step, training)
    nodes = frozenset(training.step.view.names)
    needs: list[PoolNeeds] = []
    shares: list[float] = []
    for _ in range(TRACED_STEPS):
        held = pool_in_use()
        (_, taken), trace = trace_memory(lambda: timed(lambda: alone(args, carried), time.process_time))
        of_step = trace.of_step(nodes)
        memory = traced_memory(of_step, _ran(of_step))
        needs.append(PoolNeeds(memory, held + constants - 2 * own, gradients, own))
        shares.append(taken.compute_share or UNKNOWN_SHARE)
    highest = max(needs, key=lambda found: found.memory.profile.peak + found.others)
    return MeasuredStep(training, highest, StepUse(statistics.median(shares)))


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
