"""What a step takes gradients of: `tf.GradientTape` is asked, and tells."""

import threading
from collections.abc import Generator
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
    tape: Any = tensorflow.GradientTape
    noted: list[Any] = []
    stock = tape.gradient

    def gradient(self: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        noted.extend(tensorflow.nest.flatten(target))
        return stock(self, target, *args, **kwargs)

    with _LOCK:
        tape.gradient = gradient
        try:
            yield noted
        finally:
            tape.gradient = stock
