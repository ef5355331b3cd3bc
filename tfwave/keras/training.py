"""`Model.fit` of a Keras 3 model under a ParameterServerStrategy, which Keras itself refuses."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tfwave.distribute.overlap import StepChoice, step_choice
from tfwave.keras.data import Dealt, Source, dealt, source_of
from tfwave.keras.failures import explained
from tfwave.keras.flight import Flight
from tfwave.keras.metrics import Logs, MetricTotals
from tfwave.keras.ready import build, check_arguments, check_model
from tfwave.keras.steps import Phase, StepFunctions
from tfwave.passes.base import Transform
from tfwave.runtime.live.install import install


def fit(  # noqa: PLR0913
    model: Any,
    x: Any,
    *,
    epochs: int = 1,
    steps_per_epoch: int | None = None,
    validation_data: Any = None,
    validation_steps: int | None = None,
    validation_freq: int | Sequence[int] = 1,
    callbacks: Any = None,
    initial_epoch: int = 0,
    verbose: str | int = "auto",
    passes: Transform | None = None,
    **unsupported: Any,
) -> Any:
    """Train a model that was made and compiled under the scope of a `tf.distribute.ParameterServerStrategy`.

    The arguments mean what they mean to `keras.Model.fit`. What differs is asynchronous:

    1. Each worker runs one step at a time, on the parameters as they are when it reads them. With one
       worker this is `Model.fit`, step by step.
    2. A `tf.data.Dataset` is read here, on the chief, which sends each batch to the next free worker: an
       epoch uses each batch once, whatever the number of workers. Where batches are large, give a function
       instead: it takes a `tf.distribute.InputContext` and returns a dataset, as for tf_keras's
       `DatasetCreator`. Each worker calls it and draws from its own dataset, again and again; an epoch is
       `steps_per_epoch` steps, of all workers together.
    3. `on_train_batch_begin(i)` is called as step i is handed out, `on_train_batch_end(i, logs)` as the
       i-th result arrives; its logs are those of the i + 1 steps that ended. At most one step per worker
       is under way: what a callback changes reaches the steps that are handed out later, and after
       `model.stop_training = True` the steps under way are the last.
    4. Metrics and losses are exact. No worker updates a metric's variables: a step returns what it adds to
       them, and the chief sums that. Hence metrics must be sums of what the batches add, as all of
       Keras's are, and the logs of a custom `train_step` must be named as the model's metrics.
    5. Validation deals each batch of `validation_data`, a `tf.data.Dataset`, to the workers once.
    6. `steps_per_execution` steps are unrolled into one graph, where they overlap: a step reads a parameter
       as soon as the one before has updated it, and pushes each gradient as soon as it is computed.
       ``compile(steps_per_execution="auto")`` leaves their number to the planner of a wrapped strategy: one,
       until the schedule has measured it (see `tfwave.distribute.overlap`). No step is compiled by XLA:
       `jit_compile="auto"` means so.
    7. A worker that is lost, and comes back, costs time only: its step is done again, perhaps by another, and
       counts once in the metrics; updates that it had sent stay. A chief or parameter server that is lost
       ends the training: start it again, and the chief, and `keras.callbacks.BackupAndRestore` continues
       from the last backup.

    Args:
        model: a compiled Keras 3 model; it is built from the dataset's element spec if need be.
        x: a `tf.data.Dataset` of batches (inputs, targets) or (inputs, targets, sample weights), or a
            function that returns one.
        epochs: the number of the last epoch; training runs from `initial_epoch` up to it.
        steps_per_epoch: batches of an epoch; None for the whole dataset.
        validation_data: a `tf.data.Dataset` of batches, or None.
        validation_steps: batches of a validation; None for the whole of `validation_data`.
        validation_freq: validate each so many epochs, or the epochs to validate after, from 1.
        callbacks: a list of `keras.callbacks.Callback`, or a `keras.callbacks.CallbackList`.
        initial_epoch: the epoch to start from; a callback that restores the model can set it.
        verbose: as for `keras.Model.fit`.
        passes: a pass or pipeline that rewrites the graph of each step, of training and of validation, such as
            ``tfwave.parse_pipeline("gather_on_server")`` where tables are large.
        unsupported: any other argument of `keras.Model.fit` is refused, with the way out.

    Returns:
        The `keras.callbacks.History` of the epochs.

    Raises:
        TfwaveError: the model, the data or an argument cannot be trained with like this, a parameter server was
            lost, or what `passes` raises.
    """
    check_arguments(unsupported)
    check_model(model)
    tensorflow: Any = __import__("tensorflow")
    coordinator = tensorflow.distribute.coordinator.ClusterCoordinator(model.distribute_strategy)
    choices = _choices(model)
    with explained():
        source = source_of(x, coordinator, steps_per_epoch)
        validation = _validation(validation_data, validation_steps)
        build(model, source.element_spec)
        with Flight(coordinator) as flight, _rewriting(passes) as on_function:
            training = _Training(
                model, flight, _callback_list(model, callbacks, verbose, epochs, source), choices, on_function
            )
            training.run(source, validation, validation_freq, initial_epoch, epochs)
    return model.history


@contextmanager
def _rewriting(passes: Transform | None) -> Generator[Callable[[Any], None]]:
    """What is to be given each `tf.function` before it is traced, inside the block."""
    with ExitStack() as installed:

        def on_function(function: Any) -> None:
            if passes is not None:
                installed.enter_context(install(function, passes))

        yield on_function


def _choices(model: Any) -> tuple[StepChoice, StepChoice]:
    """The steps of an execution, in training and in validation, where none overlap: nothing is updated."""
    strategy, said = model.distribute_strategy, model.steps_per_execution
    steps = None if said == "auto" else int(said)
    return step_choice("fit", steps, strategy), step_choice("validation", steps or 1, strategy)


def _validation(data: Any, steps: int | None) -> Dealt | None:
    return None if data is None else dealt("validation_data", data, steps)


def _callback_list(model: Any, callbacks: Any, verbose: str | int, epochs: int, source: Source) -> Any:
    keras: Any = __import__("keras")
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    return keras.callbacks.CallbackList(
        callbacks,
        add_history=True,
        add_progbar=verbose != 0,
        verbose=verbose,
        epochs=epochs,
        steps=source.steps_known,
        model=model,
    )


@dataclass(frozen=True)
class _Training:
    """The epochs of one fit, in the order of `keras.Model.fit`."""

    model: Any
    flight: Flight
    callbacks: Any
    choices: tuple[StepChoice, StepChoice]
    on_function: Callable[[Any], None]

    def run(
        self,
        source: Source,
        validation: Dealt | None,
        validation_freq: int | Sequence[int],
        initial_epoch: int,
        epochs: int,
    ) -> None:
        model, callbacks = self.model, self.callbacks
        train, test = self._phases()
        model.stop_training = False
        callbacks.on_train_begin()
        logs: Logs | None = None
        for epoch in range(model._initial_epoch or initial_epoch, epochs):
            callbacks.on_epoch_begin(epoch)
            logs = train.run(source, self.flight)
            if validation is not None and model._should_eval(epoch, validation_freq):
                logs = {**logs, **self._validate(test, validation)}
            callbacks.on_epoch_end(epoch, logs)
            if model.stop_training:
                break
        if epochs > 0 and model.optimizer is not None:
            model.optimizer.finalize_variable_values(model.trainable_weights)
        callbacks.on_train_end(logs)

    def _phases(self) -> tuple[Phase, Phase]:
        model, callbacks = self.model, self.callbacks
        totals = MetricTotals(model)
        train = Phase(
            StepFunctions(model, model.train_step, totals.variables, self.choices[0], self.on_function),
            totals,
            callbacks.on_train_batch_begin,
            callbacks.on_train_batch_end,
            lambda: model.stop_training,
        )
        test = Phase(
            StepFunctions(model, model.test_step, totals.variables, self.choices[1], self.on_function),
            totals,
            callbacks.on_test_batch_begin,
            callbacks.on_test_batch_end,
            lambda: model.stop_evaluating,
        )
        return train, test

    def _validate(self, test: Phase, validation: Dealt) -> Logs:
        self.model.stop_evaluating = False
        self.callbacks.on_test_begin()
        logs = test.run(validation.from_the_start(), self.flight)
        self.callbacks.on_test_end(logs)
        return {f"val_{name}": value for name, value in logs.items()}
