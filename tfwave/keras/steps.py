"""Steps of a Keras model as functions for workers, and the run of one epoch of them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

from tfwave.distribute.overlap import StepChoice
from tfwave.errors import TfwaveError
from tfwave.keras.data import Source
from tfwave.keras.flight import Flight
from tfwave.keras.metrics import Logs, MetricTotals
from tfwave.keras.ready import optimizers_of
from tfwave.runtime.live.untied import untie_when_traced
from tfwave.runtime.unroll import names_of


class StepFunctions:
    """`model.train_step` or `model.test_step`, as tf.functions of one or more steps."""

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        variables: Sequence[Any],
        choice: StepChoice,
        on_function: Callable[[Any], None],
    ) -> None:
        """Make functions of a step.

        Args:
            model: the model, built.
            step: takes a batch, returns logs by name.
            variables: the metric variables, whose additions the functions return.
            choice: how many steps a function makes; it learns of their traces.
            on_function: gets each function before it is traced.
        """
        self._model = model
        self._step = step
        self._variables = variables
        self.choice = choice
        self._on_function = on_function
        self._functions: dict[int, Any] = {}
        self.log_names: frozenset[str] = frozenset()

    def of(self, count: int, source: Source) -> Any:
        """The function of so many steps: takes an argument of the source, returns the additions.

        The steps are unrolled, not looped: the end of a loop's iteration is a barrier, while unrolled steps
        wait for each other variable by variable.
        """
        if count not in self._functions:
            self._functions[count] = self._make(count, source)
        return self._functions[count]

    def _make(self, count: int, source: Source) -> Any:
        tensorflow: Any = __import__("tensorflow")

        def execution(argument: Any) -> Any:
            graph = tensorflow.compat.v1.get_default_graph()
            self.choice.note(graph)
            untie_when_traced(graph)
            batches = source.batches(argument, count)
            return self._model.distribute_strategy.run(self._on_replica, args=(batches,))

        function = tensorflow.function(execution, input_signature=source.signature(count), autograph=False)
        self._on_function(function)
        return function

    def _on_replica(self, batches: Sequence[Any]) -> Sequence[Any]:
        tensorflow: Any = __import__("tensorflow")
        state = [tensorflow.zeros(v.shape, v.dtype) for v in self._variables]
        for number, batch in enumerate(batches):
            with names_of(number):
                state = self._one(batch, state)
        return state

    def _one(self, batch: Any, state: Sequence[Any]) -> Sequence[Any]:
        counters = [optimizer._iterations for optimizer in optimizers_of(self._model)]
        with step_scope(self._variables, state, counters) as scope:
            self._keep_names(self._step(batch))
            return [scope.get_current_value(v) for v in self._variables]

    def _keep_names(self, logs: Any) -> None:
        known = set(self._model.get_metrics_result())
        names = _names(logs)
        if names is None or not names <= known:
            name = getattr(self._step, "__qualname__", "the step")
            raise TfwaveError(
                f"{name} returns other logs than the metrics {', '.join(sorted(known))}: return a dict of"
                " model metrics by their names; a keras.metrics.Mean(name=...) holds any value"
            )
        self.log_names = names


def step_scope(
    variables: Sequence[Any], state: Sequence[Any], counters: Sequence[Any]
) -> AbstractContextManager[Any]:
    """A Keras scope in which a step is traced.

    1. Metric variables: reads and assignments go to `state`, never to the variables.
    2. Counters are read once and get what the step adds in one atomic addition, as Keras would read, add
       and assign, and lose the counts of other workers in between.
    3. All other variables are read and assigned as without the scope.
    """
    keras: Any = __import__("keras")
    tensorflow: Any = __import__("tensorflow")
    scope = keras.StatelessScope(
        state_mapping=zip(variables, state, strict=True), collect_losses=True, initialize_variables=False
    )
    metrics, counted = frozenset(map(id, variables)), frozenset(map(id, counters))
    read: dict[int, Any] = {}

    def current(variable: Any) -> Any:
        if id(variable) in metrics:  # 1
            return scope.state_mapping[id(variable)]
        if id(variable) not in counted:  # 3
            return variable._value
        if id(variable) not in read:  # 2
            read[id(variable)] = tensorflow.identity(variable._value)
        return read[id(variable)]

    def update(change: tuple[Any, Any]) -> None:
        variable, value = change
        if id(variable) in metrics:  # 1
            scope.state_mapping[id(variable)] = value
        elif id(variable) in counted:  # 2
            variable._value.assign_add(value - current(variable))
            del read[id(variable)]
        else:  # 3
            variable._direct_assign(value)

    scope.get_current_value = current
    scope.add_update = update
    return scope


def _names(logs: Any) -> frozenset[str] | None:
    return frozenset(cast("dict[str, Any]", logs)) if isinstance(logs, dict) else None


@dataclass(frozen=True)
class Phase:
    """Training or validation: its steps and the callbacks around them."""

    functions: StepFunctions
    totals: MetricTotals
    begin: Callable[[int], None]
    end: Callable[[int, Logs], None]
    stopped: Callable[[], bool]

    def run(self, source: Source, flight: Flight) -> Logs:
        """Run an epoch.

        Returns:
            The logs of all its steps.

        Raises:
            TfwaveError: the dataset is empty.
        """
        self.totals.reset()
        begun = ended = 0
        for count, argument in source.epoch(self.functions.choice.renew):
            self.begin(begun)
            flight.launch(count, self.functions.of(count, source), argument)
            begun += count
            if flight.full:
                ended = self._land(flight, ended)
            if self.stopped():
                break
        while ended < begun:
            ended = self._land(flight, ended)
        if not ended:
            raise TfwaveError("the dataset gave no batch")
        self.totals.write()
        return self._logs()

    def _land(self, flight: Flight, ended: int) -> int:
        count, additions = flight.land()
        self.totals.add(additions)
        self.end(ended + count - 1, self._logs())
        return ended + count

    def _logs(self) -> Logs:
        return self.totals.logs(self.functions.log_names)
