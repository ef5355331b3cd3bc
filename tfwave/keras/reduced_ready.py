"""Can a model be trained by reduces between processes? Who says no, says what to do."""

from collections.abc import Iterator
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.keras.ready import check_keras, optimizers_of


def check_reduced(model: Any) -> None:
    """Refuse a model whose gradients cannot be reduced.

    Raises:
        TfwaveError: names what is at fault.
    """
    check_keras(model)
    for fault in _faults(model):
        raise TfwaveError(f"the model '{model.name}' {fault}")


def _faults(model: Any) -> Iterator[str]:
    if model._distribute_strategy is not None:
        yield "belongs to a strategy, and here each process trains by itself: make it outside of strategies"
    if model.run_eagerly:
        yield "runs eagerly, and reduces are in the graph of its step: compile(run_eagerly=False)"
    if model.jit_compile:
        yield "is compiled by XLA, which cannot wait for other processes: compile(jit_compile=False)"
    if len(optimizers_of(model)) > 1:
        yield "scales its loss, each process by another factor: compile(auto_scale_loss=False)"
    kinds = sorted({variable.dtype for variable in model.trainable_variables})
    if len(kinds) != 1:
        yield f"has weights to train of {len(kinds)} types ({', '.join(kinds)}): give all layers one dtype"
    elif kinds[0] not in ("float16", "float32", "float64"):
        yield f"has weights of {kinds[0]}, which are not summed: give its layers a dtype of float32"
