"""Gradients of rows, as a step gives them."""

from importlib import import_module
from typing import Any

from tfwave.errors import TfwaveError


def of_rows(gradient: Any, rows: Any, table: str) -> Any:
    """A gradient as a tensor of the rows' type: of rows in half precision it is in half precision, too.

    The kernels of updates end the process, a server's too, where a gradient is of another type than the table.

    Raises:
        TfwaveError: there is none, or it is of another shape than the rows.
    """
    tensorflow: Any = import_module("tensorflow")
    if gradient is None:
        raise TfwaveError(
            f"the loss does not depend on the rows of table '{table}': call tape.watch on what was looked up "
            "before it is computed, or leave the table out"
        )
    found = tensorflow.convert_to_tensor(gradient)
    if not found.shape.is_compatible_with(rows.shape):
        raise TfwaveError(
            f"the gradient for table '{table}' has shape {found.shape}, and its rows have {rows.shape}: give "
            "tape.gradient of the loss to these rows"
        )
    return tensorflow.cast(found, rows.dtype)
