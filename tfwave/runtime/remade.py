"""A `tf.function` that is made anew, of what another one was made of."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tfwave.errors import EnforcerError

_OPTIONS = {
    "input_signature": "input_signature",
    "autograph": "_autograph",
    "reduce_retracing": "_reduce_retracing",
}
"""Of `tf.function`, and where what that makes keeps them."""


def python_function(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step itself, or what a `tf.function` was made of."""
    return getattr(step, "python_function", step)


def remade(step: Callable[..., Any], python: Callable[..., Any] | None = None, **given: Any) -> Any:
    """A `tf.function` of the step's Python function, or of another one, that was never traced.

    It has the options that the step was made with, if that is a `tf.function`, but for those that are given.
    """
    options = {option: getattr(step, name) for option, name in _OPTIONS.items() if hasattr(step, name)}
    return import_module("tensorflow").function(python or python_function(step), **{**options, **given})


def refuse_compiled(step: Callable[..., Any], why: str) -> None:
    """Refuse a step that XLA is to compile, and say why; what it calls may be compiled.

    Raises:
        EnforcerError: it is such a step.
    """
    if getattr(step, "_jit_compile", None):
        python = python_function(step)
        name = getattr(python, "__name__", type(python).__name__)
        raise EnforcerError(
            f"XLA is to compile the step '{name}', {why}: make the tf.function without jit_compile=True; functions "
            "that it calls may be compiled"
        )
