"""Steps that leave no trace in the variables."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def untouched(concrete: Any, *, only_on_error: bool = False) -> Generator[None]:
    """Give all variables that a trace captures their values back at the end; these are kept outside the pool."""
    raw_ops: Any = import_module("tensorflow").raw_ops
    before = [
        (handle, raw_ops.ReadVariableOp(resource=handle, dtype=kind).numpy())
        for handle, kind in _variables(concrete)
    ]
    done = False
    try:
        yield
        done = only_on_error
    finally:
        if not done:
            for handle, value in before:
                raw_ops.AssignVariableOp(resource=handle, value=value)


def _variables(concrete: Any) -> Iterator[tuple[Any, int]]:
    """The handles, those of variables that are only written, too, and their types."""
    for handle in concrete.captured_inputs:
        told = getattr(handle, "_handle_data", None)
        if told is not None and told.is_set:
            yield handle, told.shape_and_type[0].dtype
