"""A Keras 3 model, named on a command line."""

import importlib
from pathlib import Path
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.keras.ready import check_keras


def load_model(name: str) -> Any:
    """The model in a file, or the one that ``module:function`` makes.

    Raises:
        TfwaveError: there is none, or it cannot be read or made; names it.
    """
    module, colon, function = name.partition(":")
    try:
        if not colon or Path(name).exists():
            keras: Any = importlib.import_module("keras")
            model = keras.saving.load_model(name, compile=False)
        else:
            model = getattr(importlib.import_module(module), function)()
    except Exception as error:
        raise TfwaveError(f"there is no Keras model '{name}': {error}") from error
    check_keras(model)
    return model
