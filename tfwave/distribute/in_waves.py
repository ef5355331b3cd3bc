"""Training steps in waves: on all replicas of a `MirroredStrategy`, or across devices (Wavelet's tick-tock)."""

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tfwave.capture.wave_choice import WaveChoice
from tfwave.distribute.mirrored import waves_of
from tfwave.errors import EnforcerError
from tfwave.plan.plan import Plan
from tfwave.report.waves import WaveReport
from tfwave.runtime.waves.function import WaveFunction
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.replicas import replicas_inlined
from tfwave.runtime.waves.state import WaveState
from tfwave.runtime.waves.step import TracedStep, specs_of, trace_step

_log = logging.getLogger("tfwave")


class InWaves:
    """A step of which each call runs one for each wave; see `in_waves`."""

    def __init__(
        self,
        step: Callable[..., Any],
        strategy: Any,
        options: WaveOptions,
        report_dir: str | Path | None = None,
    ) -> None:
        """Nothing is traced before the first call."""
        self._step = step
        self._strategy = strategy
        self._options = options
        self._report = WaveReport(report_dir)
        self._choice = WaveChoice(options, self._report.chosen)
        self._state = WaveState()
        self._traced: dict[str, TracedStep] = {}
        self._functions: dict[str, WaveFunction] = {}
        self._has_rested = False

    @property
    def waves(self) -> int:
        """How many batches a call trains; of "auto", before the first call has chosen, the most."""
        return self._choice.count

    @property
    def offset(self) -> float | None:
        """As given, or as chosen at the first call of all waves; None before."""
        return self._choice.offset

    @property
    def plan(self) -> Plan | None:
        """The waves as a plan, for another run, given or chosen; None before, and if a number says the offset."""
        return self._choice.plan

    @property
    def state(self) -> Any:
        """The variables of the further waves, for a checkpoint beside those of wave 0, which are the user's own."""
        return self._state.trackable

    def __call__(self, *batches: Any) -> list[Any]:
        """Train a batch in each wave; what the step returned for each.

        Raises:
            EnforcerError: no batch, or more than waves; or an iterator in place of a batch.
            PassError, GraphError: the step cannot run in waves; names the node.
            PlanError: the offset is "auto", and two waves fit into the pool at none; or the step is not what was
                planned.
        """
        if not 1 <= len(batches) <= self.waves:
            raise EnforcerError(f"a call trains a batch for each of {self.waves} waves, not {len(batches)}")
        given = [self._arguments(batch) for batch in batches]
        kinds = [repr(specs_of(args)) for args in given]
        if len(given) == self.waves and len(set(kinds)) == 1:
            return self._run(self._function(kinds[0], given[0]), given)
        return self._run_rest(given, kinds)

    def begin_anew(self) -> None:
        """Let all waves go on from the weights that wave 0 has: for a call after a restore of those alone."""
        self._state.follow()
        self._state.begin_anew()

    def _run(self, function: WaveFunction, given: Sequence[Any]) -> list[Any]:
        """In calls of as many waves as there are now: the number may have been chosen by these batches."""
        calls = [given[first : first + self.waves] for first in range(0, len(given), self.waves)]
        return [result for call in calls for result in function(call)[0]]

    def _arguments(self, batch: Any) -> tuple[Any, ...]:
        return tuple(batch) if _takes_parts(self._step, batch) else (batch,)

    def _function(self, kind: str, args: Any) -> WaveFunction:
        if kind not in self._functions:
            traced = self._trace(kind, args)
            options = self._choice.options(traced, args)
            self._functions[kind] = WaveFunction(traced, options, self._state)
            replicas = 1 if self._strategy is None else self._strategy.num_replicas_in_sync
            self._report.leave(options, self.plan, replicas, self._state.copies)
        return self._functions[kind]

    def _trace(self, kind: str, args: Any) -> TracedStep:
        if kind not in self._traced:
            inlined = nullcontext() if self._strategy is None else replicas_inlined(self._strategy)
            with inlined:
                traced = trace_step(self._step, args)
            _check_batch(traced.leaves(args))
            self._traced[kind] = traced
        return self._traced[kind]

    def _run_rest(self, given: Sequence[Any], kinds: Sequence[str]) -> list[Any]:
        """Plain steps of wave 0, which the other waves then follow, or after which they begin anew."""
        if not self._has_rested:
            _log.warning(
                "tfwave: %d batches, where %d of one shape are a call, are plain steps of wave 0: "
                "let waves divide the number of batches",
                len(given),
                self.waves,
            )
        self._has_rested = True
        results = [self._trace(kind, args)(args)[0] for kind, args in zip(kinds, given, strict=True)]
        self._state.after_plain_steps(self._options.average)
        return results


def in_waves(step: Callable[..., Any], *, strategy: Any) -> InWaves:
    """Train the replicas of a `MirroredStrategy` in waves, in a custom loop.

    A call takes a batch for each wave, each as `step` takes it, and gives a list of what `step` returned::

        strategy = tfwave.distribute.waves(tf.distribute.MirroredStrategy())
        ...
        train = tfwave.distribute.in_waves(step, strategy=strategy)
        batches = iter(strategy.experimental_distribute_dataset(dataset))
        while pair := list(itertools.islice(batches, train.waves)):
            losses = train(*pair)

    1. On each device wave w + 1 begins when wave w has ended its forward pass on all devices, and a share `offset`
       of its backward pass. Gradients are reduced over the replicas in each wave, then averaged over waves.
    2. ``average="batch"`` gives the weights of plain data parallel training with `waves` times the replicas, one
       update a call. ``average="wave"`` is the paper's Eq. 1: each wave updates weights of its own, by the mean of
       its gradient and that of the wave before. See `grappler_passes.tick_tock`.
    3. The strategy's variables are those of wave 0: these are read, saved and evaluated. What replicas keep for
       themselves, such as the moving averages of a batch norm, is of wave 0's batches there. The copies for further
       waves, slots of optimizers too, begin as wave 0's are at the first call. `InWaves.state` holds them for a
       checkpoint; after a restore without it, call `InWaves.begin_anew`.
    4. Fewer batches than waves, or of different shapes, are plain steps of wave 0, with a warning.
    5. The state of a random generator is a variable, too, so that all waves draw alike. To draw apart, let seeds
       come with the batches (`tf.random.stateless_uniform`).
    6. With ``offset="auto"`` the first call of all waves runs four steps more, on copies of the variables, for the
       least offset with which two waves fit into the CPU's pool; `InWaves.offset` has it from then on, for all
       batches. What is trained is the same as with that number, bit for bit. The step runs outside of a
       `tf.function` then, and changes nothing but variables. ``waves="auto"`` chooses the number by the same steps,
       and `InWaves.waves` has it from then on.

    Args:
        step: a `tf.function`, or its Python function, that calls ``strategy.run``. It takes the batch; one of
            several parameters by position, or of any number, takes the parts of a tuple or list. It draws no batch
            itself.
        strategy: what `tfwave.distribute.waves` returned.

    Raises:
        EnforcerError: the strategy has no waves.
    """
    settings = waves_of(strategy)
    return InWaves(step, strategy, settings.options, settings.report_dir)


def across_devices(
    step: Callable[..., Any], *, waves: int = 2, strategy: Any = None, report_dir: str | Path | None = None
) -> InWaves:
    """Train a model whose weights lie on several devices in waves, each on another device at a time.

    A call takes a batch for each wave, and is one update by the mean of their gradients: for a loss that is a mean
    over samples, what one large batch gives. Called as what `in_waves` returns::

        with tf.device("GPU:0"):
            front = tf.Variable(...)
        with tf.device("GPU:1"):
            back = tf.Variable(...)
        train = tfwave.distribute.across_devices(step)  # forward, a tape's gradients, updates
        losses = train(first_batch, second_batch)

    1. The devices of variables tell who runs what (`grappler_passes.tick_tock_partitions`): what names no device
       runs where its weights are, else where its data come from, and the backward pass where the forward pass ran.
    2. Wave 0 has the step's own variables. Those of further waves lie on other devices, and stay equal to them.
    3. Fewer batches than waves, or of different shapes, are plain steps, with a warning.

    Args:
        step: as for `in_waves`; it may call ``strategy.run``.
        waves: how many batches a call trains, 2 to the number of devices that hold weights.
        strategy: of one replica, if the step uses one.
        report_dir: as `tfwave.distribute.waves` has it.

    Raises:
        EnforcerError: a strategy of several replicas, or less than two waves. The first call raises as `InWaves`
            says, where the model lies on one device, or comes back to one that it has left.
        PassError: more than 64 waves.
    """
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        raise EnforcerError(
            f"the strategy has {strategy.num_replicas_in_sync} replicas, and a model across devices is one: take a "
            "strategy of one replica, or in_waves for replicas in waves"
        )
    if waves < 2:
        raise EnforcerError(f"waves is {waves}, and one wave is plain training: give 2 or more")
    return InWaves(step, strategy, WaveOptions.parallel(waves), report_dir)


def _takes_parts(step: Callable[..., Any], batch: object) -> bool:
    """Has a step several parameters by position, or any number of them, and the batch parts for these?"""
    parameters = inspect.signature(getattr(step, "python_function", step)).parameters.values()
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    has_places = len(positional) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return has_places and isinstance(batch, (tuple, list))


def _check_batch(leaves: Sequence[Any]) -> None:
    kinds = [getattr(leaf, "dtype", None) for leaf in leaves]  # a number of Python has none
    if any(getattr(kind, "name", "") == "resource" for kind in kinds):
        raise EnforcerError(
            "the step takes an iterator, from which waves would draw in any order: let it take a batch, and call "
            "with next(iterator) for each wave"
        )
