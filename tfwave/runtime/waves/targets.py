"""What a step takes gradients of, and what it makes of them: `tf.GradientTape` is asked."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_LOCK = threading.RLock()


@contextmanager
def targets_noted() -> Generator[list[Any]]:
    """Inside the block the tensors whose gradients a tape is asked for come into the list, from any thread.

    The gradients of graphs that are single rows are of any number of them: what a step makes of them, it makes of
    those of several waves, too.

    One block at a time: others wait for its end.
    """
    tensorflow: Any = import_module("tensorflow")
    tape: Any = tensorflow.GradientTape
    noted: list[Any] = []
    stock = tape.gradient

    def gradient(self: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        noted.extend(tensorflow.nest.flatten(target))
        return tensorflow.nest.map_structure(_opened, stock(self, target, *args, **kwargs))

    with _LOCK:
        tape.gradient = gradient
        try:
            yield noted
        finally:
            tape.gradient = stock


def _opened(gradient: Any) -> Any:
    tensorflow: Any = import_module("tensorflow")
    if not isinstance(gradient, tensorflow.IndexedSlices) or not tensorflow.is_symbolic_tensor(
        gradient.values
    ):
        return gradient
    of_any = tensorflow.compat.v1.placeholder_with_default
    values = of_any(gradient.values, [None, *gradient.values.shape[1:]])
    return tensorflow.IndexedSlices(values, of_any(gradient.indices, [None]), gradient.dense_shape)
