"""Variables that lie where another one does."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def beside(other: Any, start: Callable[[], Any], name: str) -> Any:
    """A variable on the device of another; `start` makes its value there."""
    tensorflow: Any = import_module("tensorflow")
    strategy = tensorflow.distribute.get_strategy()  # in its scope it would deal variables out over servers
    with strategy.extended.colocate_vars_with(other), tensorflow.device(other.device):
        return tensorflow.Variable(start(), trainable=False, name=name)
