"""A Keras 3 model, named on a command line."""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.keras.ready import check_keras


def load_model(name: str) -> Any:
    """The model in a file, or the one that ``module:function`` makes.

    Raises:
        TfwaveError: there is none, or it cannot be read or made; names it.
    """
    is_function = ":" in name and not Path(name).exists()
    make = _function(name) if is_function else _saved(name)
    try:
        model = make()
    except Exception as error:
        what = "made" if is_function else "read"
        raise TfwaveError(
            f"the Keras model '{name}' cannot be {what}: {type(error).__name__}: {error}"
        ) from error
    check_keras(model)
    return model


def _function(name: str) -> Callable[[], Any]:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise TfwaveError(f"there is no function '{name}': {error}") from error


def _saved(name: str) -> Callable[[], Any]:
    if not Path(name).exists():
        raise TfwaveError(f"there is no file '{name}': give a saved Keras model, or module:function")
    keras: Any = importlib.import_module("keras")
    return partial(keras.saving.load_model, name, compile=False)
