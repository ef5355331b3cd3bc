"""Methods of one object that is TensorFlow's, answered by others for a while."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

Method = Callable[..., Any]


def replace(undo: ExitStack, owner: Any, name: str, make: Callable[[Method], Method]) -> None:
    """Let an instance answer by what is made of its method, until `undo`."""
    setattr(owner, name, make(getattr(owner, name)))
    undo.callback(delattr, owner, name)
