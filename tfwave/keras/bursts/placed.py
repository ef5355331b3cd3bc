"""Ops that lie on one device, forward and backward.

What a tape makes of an op has no device, wherever the op lies: a whole backward pass would lie on one. So an op's
gradient is asked of a tape of its own, on the op's device, and what several readers give back is summed there.
"""

from collections.abc import Callable, Sequence
from typing import Any


def on_device(device: str, call: Callable[[list[Any]], Sequence[Any]], tensors: Sequence[Any]) -> list[Any]:
    """What `call` makes of tensors; integers among them, and among what it makes, have no gradient.

    Variables that it reads besides, as where a layer uses another one's weights, have theirs.
    """
    tensorflow: Any = __import__("tensorflow")
    given = [tensor for tensor in tensors if _has_gradient(tensor)]
    made: list[Any] = []

    def forward(*values: Any) -> Any:
        left = iter(values)
        with tensorflow.GradientTape(persistent=True) as tape:
            tape.watch(values)
            made[:] = call([next(left) if _has_gradient(tensor) else tensor for tensor in tensors])
        results = [tensor for tensor in made if _has_gradient(tensor)]

        def backward(*gradients: Any, variables: Sequence[Any] = ()) -> Any:
            sources = (list(values), list(variables)) if variables else list(values)
            with tensorflow.device(device):
                return tape.gradient(results, sources, output_gradients=list(gradients))

        return results, backward

    with tensorflow.device(device):
        if not given:
            return list(call(list(tensors)))
        results = iter(tensorflow.custom_gradient(forward)(*given))
    return [next(results) if _has_gradient(tensor) else tensor for tensor in made]


def copies(tensor: Any, count: int, device: str) -> list[Any]:
    """A tensor of a device, once for each of its readers; their gradients are summed on that device."""
    if count <= 1 or not _has_gradient(tensor):
        return [tensor] * count
    tensorflow: Any = __import__("tensorflow")

    def forward(value: Any) -> Any:
        def backward(*gradients: Any) -> Any:
            with tensorflow.device(device):
                return _sum(gradients[::-1])  # as a tape sums them: the last reader's first

        return [tensorflow.identity(value) for _ in range(count)], backward

    with tensorflow.device(device):
        return list(tensorflow.custom_gradient(forward)(tensor))


def sent(tensor: Any, device: str) -> Any:
    """A tensor, on another device; its gradient comes back from there as it is."""
    tensorflow: Any = __import__("tensorflow")
    with tensorflow.device(device):
        return tensorflow.identity(tensor)


def spread(tensor: Any, source: str, devices: Sequence[str]) -> list[Any]:
    """A tensor of a device, on each of several; their gradients are summed where it was."""
    parts = copies(tensor, len(devices), source)
    return [sent(part, device) for part, device in zip(parts, devices, strict=True)]


def assigned(before: Any, value: Any) -> Any:
    """What is assigned to a variable, as that gives it: its gradient is the variable's, not that of what made it.

    `before` stands for the variable; None: it is not trained.
    """
    tensorflow: Any = __import__("tensorflow")
    if before is None or not _has_gradient(before):
        return tensorflow.stop_gradient(value)

    def forward(_: Any, value: Any) -> Any:
        def backward(gradient: Any) -> Any:
            return gradient, None

        return tensorflow.identity(value), backward

    return tensorflow.custom_gradient(forward)(before, value)


def _has_gradient(tensor: Any) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def _sum(gradients: Sequence[Any]) -> Any:
    """Of rows of a table, these together; else the sum."""
    tensorflow: Any = __import__("tensorflow")
    if not all(isinstance(one, tensorflow.IndexedSlices) for one in gradients):
        return tensorflow.add_n([tensorflow.convert_to_tensor(one) for one in gradients])
    return tensorflow.IndexedSlices(
        tensorflow.concat([one.values for one in gradients], 0),
        tensorflow.concat([one.indices for one in gradients], 0),
        gradients[0].dense_shape,
    )
