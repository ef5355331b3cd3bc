"""Gradients of rows, as a step gives them."""

from importlib import import_module
from typing import Any


def of_rows(gradient: Any, rows: Any) -> Any:
    """A gradient as a tensor of the rows' type: of rows in half precision it is in half precision, too.

    The kernels of updates end the process, a server's too, where a gradient is of another type than the table.
    """
    tensorflow: Any = import_module("tensorflow")
    return tensorflow.cast(tensorflow.convert_to_tensor(gradient), rows.dtype)
