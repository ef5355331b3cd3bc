"""What a step takes gradients of, and what it makes of them: `tf.GradientTape` is asked."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_LOCK = threading.RLock()


@contextmanager
def targets_noted() -> Generator[list[Any]]:
    """Inside the block the tensors whose gradients a tape is asked for come into the list, from any thread.

    One block at a time: others wait for its end.
    """
    tensorflow: Any = import_module("tensorflow")
    noted: list[Any] = []

    def gradient(stock: Any, tape: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        noted.extend(tensorflow.nest.flatten(target))
        return stock(tape, target, *args, **kwargs)

    with _taken_by(gradient):
        yield noted


@contextmanager
def rows_opened() -> Generator[None]:
    """Inside the block the gradients of graphs that are single rows are of any number of them.

    What a step makes of them, it makes of those of several waves, too. One block at a time.
    """
    tensorflow: Any = import_module("tensorflow")

    def gradient(stock: Any, *args: Any, **kwargs: Any) -> Any:
        return tensorflow.nest.map_structure(_opened, stock(*args, **kwargs))

    with _taken_by(gradient):
        yield


@contextmanager
def _taken_by(gradient: Callable[..., Any]) -> Generator[None]:
    """Put a function in the place of `tf.GradientTape.gradient`, which it gets as its first argument."""
    tape: Any = import_module("tensorflow").GradientTape
    with _LOCK:
        stock = tape.gradient

        def taken(*args: Any, **kwargs: Any) -> Any:
            return gradient(stock, *args, **kwargs)

        tape.gradient = taken
        try:
            yield
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
