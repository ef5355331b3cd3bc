"""How long each layer of a Keras 3 model takes on this machine, by the number of samples."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from tfwave.burst.profile import Layer, Profile
from tfwave.errors import TfwaveError
from tfwave.keras.bursts.nodes import Node, nodes_of


def profile_model(
    model: Any,
    batches: Sequence[int],
    *,
    repeats: int = 5,
    progress: Callable[[str], None] = lambda name: None,
) -> Profile:
    """Run each layer forward and backward by itself, on random inputs; the least time of the repeats counts.

    The model's weights stay as they are; what a layer keeps besides, as moving averages, is put back. Layers are
    TensorFlow functions, and run where TensorFlow puts them: on the first GPU, if there is one. `progress`
    is called with the name of each layer before it runs.

    Raises:
        TfwaveError: the model's layers are not known (see `nodes_of`), or one cannot be run by itself; names it.
    """
    if not batches or min(batches) < 1 or repeats < 1:
        raise TfwaveError(f"there is nothing to measure in batches of {list(batches)}, {repeats} times")
    layers: list[Layer] = []
    for node in nodes_of(model):
        progress(node.name)
        layers.append(
            Layer(
                name=node.name,
                reads=node.reads,
                output_bytes=node.output_bytes,
                weight_bytes=node.weight_bytes,
                seconds={batch: _seconds(node, batch, repeats) for batch in sorted(set(batches))},
            )
        )
    return Profile(model=model.name, layers=tuple(layers))


def _seconds(node: Node, batch: int, repeats: int) -> float:
    if node.call.is_input:
        return 0.0
    kept = [(variable, variable.numpy()) for variable in getattr(node.layer, "non_trainable_variables", [])]
    try:
        return _least(node, batch, repeats)
    except Exception as error:
        raise TfwaveError(
            f"layer '{node.name}' cannot be run by itself, on {batch} samples: {error}"
        ) from error
    finally:
        for variable, value in kept:
            variable.assign(value)


def _least(node: Node, batch: int, repeats: int) -> float:
    tensorflow: Any = __import__("tensorflow")
    inputs = [_random(tensorflow, tensor, batch) for tensor in node.call.input_tensors]
    step = tensorflow.function(_step(tensorflow, node))
    step(*inputs)  # traced, and run once
    return min(_timed(step, inputs) for _ in range(repeats))


def _step(tensorflow: Any, node: Node) -> Callable[..., Any]:
    """The layer's forward and backward pass."""
    symbols = [id(tensor) for tensor in node.call.input_tensors]
    weights = [weight.value for weight in node.weights]
    training = {"training": True} if getattr(node.layer, "_call_has_training_arg", False) else {}

    def step(*inputs: Any) -> Any:
        wanted = [tensor for tensor in inputs if tensor.dtype.is_floating] + weights
        with tensorflow.GradientTape() as tape:
            tape.watch(wanted)
            arguments, options = node.call.arguments.fill_in(dict(zip(symbols, inputs, strict=True)))
            outputs = node.layer(*arguments, **(training | options))
        return outputs, [g for g in tape.gradient(outputs, wanted) if g is not None]

    return step


def _random(tensorflow: Any, symbol: Any, batch: int) -> Any:
    """A tensor as the layer reads it: normal numbers, or zeros where they are no floats, as for an embedding."""
    shape = (batch, *symbol.shape[1:])
    kind = tensorflow.as_dtype(symbol.dtype)
    if not kind.is_floating:
        return tensorflow.zeros(shape, kind)
    return tensorflow.cast(tensorflow.random.stateless_normal(shape, seed=[batch, 7]), kind)


def _timed(step: Any, inputs: Sequence[Any]) -> float:
    sync: Callable[[], None] = __import__("tensorflow").test.experimental.sync_devices
    sync()
    begin = time.perf_counter()
    step(*inputs)
    sync()
    return time.perf_counter() - begin
