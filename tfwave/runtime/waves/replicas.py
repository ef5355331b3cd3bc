"""What replicas run, in the graph of the step that has them run it."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replicas_inlined(strategy: Any) -> Generator[None]:
    """Inside the block ``strategy.run`` takes the Python function of a `tf.function`.

    Else a step's forward pass, collectives and updates are in a function, which waves cannot take apart.
    """
    stock = strategy.run

    def run(fn: Any, *args: Any, **kwargs: Any) -> Any:
        return stock(getattr(fn, "python_function", fn), *args, **kwargs)

    strategy.run = run
    try:
        yield
    finally:
        del strategy.run
