"""Can a model be trained by reduces between processes? Who says no, says what to do."""

from collections.abc import Iterator
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.keras.ready import check_keras, is_of_tf_keras, optimizers_of, other_optimizers

_STRATEGY = ("_distribute_strategy", "_distribution_strategy")
"""Under these names Keras 3 and tf_keras keep it."""


def check_reduced(model: Any) -> None:
    """Refuse a model whose gradients cannot be reduced.

    Raises:
        TfwaveError: names what is at fault.
    """
    if not is_of_tf_keras(model):
        check_keras(model)
    for fault in _faults(model):
        raise TfwaveError(f"the model '{model.name}' {fault}")


def _faults(model: Any) -> Iterator[str]:
    if any(getattr(model, name, None) is not None for name in _STRATEGY):
        yield "belongs to a strategy, and here each process trains by itself: make it outside of strategies"
    if model.run_eagerly:
        yield "runs eagerly, and reduces are in the graph of its step: compile(run_eagerly=False)"
    if model.jit_compile:
        yield "is compiled by XLA, which cannot wait for other processes: compile(jit_compile=False)"
    yield from _optimizers(model)
    if len(optimizers_of(model)) > 1:
        way_out = "take mixed_bfloat16" if is_of_tf_keras(model) else "compile(auto_scale_loss=False)"
        yield f"scales its loss, each process by another factor: {way_out}"
    if not model.trainable_variables:
        yield (
            "has no weights to train, and takes those of the first worker before its first batch: make it with an "
            "Input, or call it once on a batch, before fit"
        )


def _optimizers(model: Any) -> Iterator[str]:
    if not hasattr(model.optimizer, "apply_gradients"):
        yield "is compiled with no optimizer, or several, and reduces are of what one applies: give compile() one"
    others = ", ".join(dict.fromkeys(optimizer.name for optimizer in other_optimizers(model)))
    if others:
        yield (
            f"has other optimizers, {others}, and what they apply would not be reduced: let its train_step apply "
            "the gradients of all weights by the one of compile()"
        )
