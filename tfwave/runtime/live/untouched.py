"""Steps that leave no trace in the variables."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tfwave.runtime.live.batches import bound_to


@contextmanager
def untouched(step: Any, batch: tuple[Any, ...], *, only_on_error: bool = False) -> Generator[None]:
    """Give all variables that a `tf.function` has with a batch their values back at the end.

    Those that it is called with, also by default, and those that it captures. Values are kept outside the pool.
    """
    raw_ops: Any = import_module("tensorflow").raw_ops
    before = [
        (handle, raw_ops.ReadVariableOp(resource=handle, dtype=kind).numpy())
        for handle, kind in _variables(step, batch)
    ]
    done = False
    try:
        yield
        done = only_on_error
    finally:
        if not done:
            for handle, value in before:
                raw_ops.AssignVariableOp(resource=handle, value=value)


def _variables(step: Any, batch: tuple[Any, ...]) -> Iterator[tuple[Any, int]]:
    """The handles, those of variables that are only written, too, and their types."""
    bound = bound_to(step, batch, {})
    leaves = import_module("tensorflow").nest.flatten([bound.args, bound.kwargs])
    given = [leaf.handle for leaf in leaves if hasattr(leaf, "handle")]
    for handle in (*given, *step.get_concrete_function(*batch).captured_inputs):
        told = getattr(handle, "_handle_data", None)
        if told is not None and told.is_set:
            yield handle, told.shape_and_type[0].dtype
