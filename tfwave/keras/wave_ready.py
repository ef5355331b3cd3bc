"""Can a model train in waves? Who says no, says what to do."""

from collections.abc import Iterator
from typing import Any

from tfwave.distribute.mirrored import check_machines, is_mirrored
from tfwave.errors import TfwaveError
from tfwave.keras.ready import check_train_function, optimizers_of
from tfwave.runtime.waves.options import WaveOptions


def check_waves(model: Any, options: WaveOptions) -> None:
    """Refuse a model that `fit` would not train in waves, or otherwise than it was compiled.

    Raises:
        TfwaveError: names what is at fault.
    """
    check_train_function(model, "train it in a loop of your own, with tfwave.distribute.in_waves")
    check_machines(model.distribute_strategy)
    for fault in _faults(model, options):
        raise TfwaveError(f"the model '{model.name}' {fault}")


def _faults(model: Any, options: WaveOptions) -> Iterator[str]:
    yield from _strategy(model, options)
    yield from _ways_of_running(model, options.waves)
    yield from _optimizers(model)


def _strategy(model: Any, options: WaveOptions) -> Iterator[str]:
    replicas = model.distribute_strategy.num_replicas_in_sync
    if model._distribute_strategy is not None and not is_mirrored(model.distribute_strategy):
        name = type(model.distribute_strategy).__name__
        yield (
            f"belongs to a {name}, and waves under `fit` are for one device or a MirroredStrategy: make it outside "
            "of strategies"
        )
    if options.is_parallel and model._distribute_strategy is not None:
        yield "belongs to a strategy, and its layers are given devices: make it outside of strategies"
    if options.is_auto and replicas > 1:
        yield f"has {replicas} replicas, and 'auto' is known for one: give waves and offset as numbers"


def _ways_of_running(model: Any, waves: int) -> Iterator[str]:
    steps = model.steps_per_execution
    if steps != waves:
        yield (
            f"has steps_per_execution={steps!r}, and an execution of {waves} waves takes {waves} batches: "
            f"compile(steps_per_execution={waves})"
        )
    if model.run_eagerly:
        yield "runs eagerly, and waves are a graph: compile(run_eagerly=False)"
    if model.jit_compile:
        yield "is compiled by XLA, which runs all waves as it likes: compile(jit_compile=False)"


def _optimizers(model: Any) -> Iterator[str]:
    if len(optimizers_of(model)) > 1:
        yield "scales its loss, and skips updates for it, each wave others: compile(auto_scale_loss=False)"
    others = _other_optimizers(model)
    for optimizer in (*optimizers_of(model), *others):
        if optimizer.gradient_accumulation_steps and is_mirrored(model.distribute_strategy):
            yield (
                "accumulates gradients, which Keras cannot do under a MirroredStrategy, in waves or not: set no "
                "gradient_accumulation_steps, or make the model outside of strategies"
            )
        if optimizer.use_ema and optimizer.ema_overwrite_frequency:
            yield "overwrites its weights by averages in single steps: set no ema_overwrite_frequency"
    for optimizer in others:
        if not optimizer.built:
            yield (
                f"has another optimizer, '{optimizer.name}', which is not built: call its build() with the "
                "variables that it updates, before fit"
            )


def _other_optimizers(model: Any) -> list[Any]:
    """The optimizers that a model holds beside those that it is compiled with."""
    keras: Any = __import__("keras")
    tensorflow: Any = __import__("tensorflow")
    held = tensorflow.train.TrackableView(model).descendants()
    known = {id(optimizer) for optimizer in optimizers_of(model)}
    return [one for one in held if isinstance(one, keras.optimizers.Optimizer) and id(one) not in known]
