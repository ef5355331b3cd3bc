"""Can a model train in waves? Who says no, says what to do."""

from collections.abc import Iterator
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.keras.ready import check_keras, optimizers_of


def check_waves(model: Any, waves: int) -> None:
    """Refuse a model that `fit` would not train in waves, or otherwise than it was compiled.

    Raises:
        TfwaveError: names what is at fault.
    """
    check_keras(model)
    for fault in _faults(model, waves):
        raise TfwaveError(f"the model '{model.name}' {fault}")


def _faults(model: Any, waves: int) -> Iterator[str]:
    yield from _ways_of_running(model, waves)
    yield from _optimizers(model)


def _ways_of_running(model: Any, waves: int) -> Iterator[str]:
    steps = model.steps_per_execution
    if model._distribute_strategy is not None:
        name = type(model.distribute_strategy).__name__
        yield f"belongs to a {name}, and waves under `fit` are for one device: make it outside of strategies"
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
        if optimizer.gradient_accumulation_steps:
            yield "accumulates gradients, which waves average: set no gradient_accumulation_steps"
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
