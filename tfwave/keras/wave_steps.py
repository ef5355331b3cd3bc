"""The train function of a Keras 3 model in waves."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any

from tfwave.capture.wave_choice import WaveChoice
from tfwave.keras.batches import batch_spec, plain_batch, spec_of_a_replica
from tfwave.keras.layer_devices import LayerDevices
from tfwave.keras.ready import make_variables
from tfwave.keras.steps import step_scope
from tfwave.report.waves import WaveReport
from tfwave.runtime.waves.function import WaveFunction
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.state import WaveState
from tfwave.runtime.waves.step import TracedStep, trace_step


class WaveSteps:
    """Takes the place of `model.train_function`: an iterator of batches goes in, logs come out.

    1. A call takes one batch for each wave, and gives the logs of the last. Where the number of waves is chosen,
       it takes as many as for the most, and runs them in calls of that number.
    2. Metrics and the counters of random seeds are carried from wave to wave, as from step to step: all waves add
       to the model's own.
    3. Batches at the end of the data that are less than one for each wave are plain steps of wave 0. The wave after
       them averages with none before (``average="wave"``), or the further waves take wave 0's variables over
       (``"batch"``).
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        model: Any,
        options: WaveOptions,
        choice: WaveChoice,
        state: WaveState,
        report: WaveReport,
        devices: LayerDevices | None = None,
    ) -> None:
        self._model = model
        self._report = report
        self._devices = devices
        self._options = options
        self._choice = choice
        self._state = state
        self._functions: dict[str, tuple[TracedStep, WaveFunction]] = {}
        self._carried: Sequence[Any] = ()
        self._warned = False

    def __call__(self, iterator: Iterator[Any]) -> Any:
        """Run a call's waves.

        Raises:
            StopIteration: there are no batches.
            TfwaveError: the model's step cannot run in waves.
        """
        batches = [plain_batch(batch) for batch in islice(iterator, self._options.waves)]
        if not batches:
            raise StopIteration
        step, waves = self._of(batch_spec(iterator, batches[0]), batches[0])
        given = [(batch,) for batch in batches]
        values = self._values()
        if len(batches) % self._choice.count:
            logs, values = self._run_rest(step, given, values)
        else:
            logs, values = self._run(waves, given, values)
        for variable, value in zip(self._parts(), values, strict=True):
            variable.assign(value)
        return logs[-1]

    def _run(self, waves: WaveFunction, given: Sequence[Any], values: Any) -> tuple[list[Any], Any]:
        """Case 1."""
        logs: list[Any] = []
        count = self._choice.count
        for first in range(0, len(given), count):
            returned, values = waves(given[first : first + count], values)
            logs += returned
        return logs, values

    def _run_rest(self, step: TracedStep, given: Sequence[Any], values: Any) -> tuple[list[Any], Any]:
        """Case 3."""
        self._warn(len(given))
        logs: list[Any] = []
        for one in given:
            returned, values = step(one, values)
            logs.append(returned)
        self._state.after_plain_steps(self._options.average)
        return logs, values

    def _warn(self, count: int) -> None:
        if not self._warned:
            waves = self._options.waves
            warnings.warn(
                f"the last {count} of an epoch's batches, too few for {waves} waves, are plain steps of wave 0: "
                f"let {waves} divide the number of batches, and all steps run in waves",
                stacklevel=3,
            )
        self._warned = True

    def _of(self, spec: Any, batch: Any) -> tuple[TracedStep, WaveFunction]:
        key = repr(spec)
        if key not in self._functions:
            step = self._trace(spec)
            options = self._choice.options(step, (batch,), self._values())
            self._functions[key] = step, WaveFunction(step, options, self._state)
            replicas = self._model.distribute_strategy.num_replicas_in_sync
            self._report.leave(options, self._choice.plan, replicas, self._state.copies)
        return self._functions[key]

    def _values(self) -> list[Any]:
        """Of what is carried."""
        tensorflow: Any = __import__("tensorflow")
        return [tensorflow.convert_to_tensor(variable) for variable in self._parts()]

    def _parts(self) -> list[Any]:
        """The variables behind what is carried, those of a variable's replicas side by side."""
        local = self._model.distribute_strategy.experimental_local_results
        return [part for variable in self._carried for part in local(variable._value)]

    def _trace(self, spec: Any) -> TracedStep:
        self._build(spec)
        if self._devices is None:
            return self._traced(spec)
        with self._devices.running(self._model):
            return self._traced(spec)

    def _build(self, spec: Any) -> None:
        tensorflow: Any = __import__("tensorflow")
        of_a_replica = tensorflow.nest.map_structure(spec_of_a_replica, spec)
        if self._devices is None:
            make_variables(self._model, of_a_replica)
            return
        with self._devices.building(self._model):
            make_variables(self._model, of_a_replica)
        self._devices.check_weights(self._model)

    def _traced(self, spec: Any) -> TracedStep:
        tensorflow: Any = __import__("tensorflow")
        seeds = _seeds(self._model)
        self._carried = list({id(v): v for v in (*self._model.metrics_variables, *seeds)}.values())
        self._state.hold(seed._value for seed in seeds)
        specs = [tensorflow.TensorSpec(part.shape, part.dtype) for part in self._parts()]
        return trace_step(tensorflow.autograph.experimental.do_not_convert(self._step()), (spec,), specs)

    def _step(self) -> Callable[[Sequence[Any], Any], Any]:
        tensorflow: Any = __import__("tensorflow")
        model, carried, strategy = self._model, self._carried, self._model.distribute_strategy
        count = strategy.num_replicas_in_sync

        def on_replica(values: Sequence[Any], batch: Any) -> Any:
            number = tensorflow.distribute.get_replica_context().replica_id_in_sync_group
            replica = tensorflow.get_static_value(number)
            with step_scope(carried, values[replica::count], ()) as scope:
                logs = model.train_step(batch)
                return logs, [scope.get_current_value(variable) for variable in carried]

        def step(values: Sequence[Any], batch: Any) -> Any:
            logs, state = strategy.run(on_replica, args=(values, batch))
            parts = [part for value in state for part in strategy.experimental_local_results(value)]
            return tensorflow.nest.map_structure(mean, logs), parts

        def mean(value: Any) -> Any:
            """Of the replicas, as Keras logs it."""
            values = strategy.experimental_local_results(value)
            return value if count == 1 else tensorflow.reduce_mean(values, axis=0)

        return step


def _seeds(model: Any) -> Sequence[Any]:
    """The states of the layers' random seeds, and of Keras's own generator, which layers without one draw from.

    That may be of no strategy, so that several replicas have one among them: it is left to them as it is. Else it
    is made here, if it is not there: in a scope it could not be. Python's own numbers go on as if it had not been.
    """
    seeds = [seed.state for layer in model._flatten_layers() for seed in layer._seed_generators]
    if model.distribute_strategy.num_replicas_in_sync == 1:
        before = random.getstate()
        seeds.append(import_module("keras.src.random.seed_generator").global_seed_generator().state)
        random.setstate(before)
    return seeds
