"""What Keras 3 and tf_keras both take for a callback."""

from collections.abc import Callable
from typing import Any


def _ignore(self: "Hooks", *args: Any, **kwargs: Any) -> None:
    del self, args, kwargs


def _has_any(*names: str) -> "Callable[[Hooks], bool]":
    """Does a callback have any of these hooks? tf_keras asks, and calls none of a kind that no callback has."""

    def has(self: "Hooks") -> bool:
        return any(getattr(type(self), name) is not _ignore for name in names)

    return has


class Hooks:
    """A callback that does nothing. Both Kerases take any object with these methods, so that none is imported."""

    def __init__(self) -> None:
        self.model: Any = None
        self.params: Any = None
        self.validation_data: Any = None

    def set_model(self, model: Any) -> None:
        """Called by Keras."""
        self.model = model

    def set_params(self, params: Any) -> None:
        """Called by Keras."""
        self.params = params

    on_batch_begin = on_batch_end = _ignore
    on_epoch_begin = on_epoch_end = _ignore
    on_predict_batch_begin = on_predict_batch_end = _ignore
    on_predict_begin = on_predict_end = _ignore
    on_test_batch_begin = on_test_batch_end = _ignore
    on_test_begin = on_test_end = _ignore
    on_train_batch_begin = on_train_batch_end = _ignore
    on_train_begin = on_train_end = _ignore
    _implements_predict_batch_hooks = _has_any("on_predict_batch_begin", "on_predict_batch_end")
    _implements_test_batch_hooks = _has_any("on_test_batch_begin", "on_test_batch_end")
    _implements_train_batch_hooks = _has_any(
        "on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end"
    )
