"""Several steps in one traced function."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def unrolled(step: Callable[..., Any], count: int, on_trace: Callable[[Any], None]) -> Any:
    """A `tf.function` that calls a step so often, each time with its own arguments.

    It returns what the step returns, each leaf as a tensor of its time, stacked along a new first axis of length
    `count`; None stays None.
    The calls are unrolled, not looped, and a step that is a `tf.function` itself is called as the Python function
    that it is made of: the end of a loop's iteration, or of a nested function's call, waits for everything in it,
    while TensorFlow's automatic control dependencies let unrolled steps wait for each other variable by variable.

    `on_trace` gets each `tf.Graph` that it is traced into.
    """
    tensorflow: Any = import_module("tensorflow")
    python = getattr(step, "python_function", step)

    told = tensorflow.autograph.experimental.do_not_convert(on_trace)

    def valued(leaf: Any) -> Any:
        return None if leaf is None else tensorflow.convert_to_tensor(leaf)

    def stacked(*leaves: Any) -> Any:
        return None if leaves[0] is None else tensorflow.stack(leaves)

    def steps(*args: Any, **kwargs: Any) -> Any:
        told(tensorflow.compat.v1.get_default_graph())
        results: list[Any] = []
        for _ in range(count):
            results.append(tensorflow.nest.map_structure(valued, python(*args, **kwargs)))
        return tensorflow.nest.map_structure(stacked, *results)

    steps.__name__ = f"{getattr(python, '__name__', 'step')}_{count}"
    return tensorflow.function(steps)
