"""Making `tf.function`s trace afresh inside a block, and run their old traces after it."""

import dataclasses
import functools
import importlib
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from tfwave.errors import EnvironmentUnsupported
from tfwave.runtime import native

Rewrite = Callable[[Any], None]
"""It edits a FuncGraph in place."""

_awaited: WeakKeyDictionary[Any, list[Rewrite]] = WeakKeyDictionary()
"""The edits of graphs that are being traced."""
_CONFIGS = ("_variable_creation_config", "_no_variable_creation_config")
_STATE = (*_CONFIGS, "_lock", "_function_cache", "_generate_tracing_options")


@contextmanager
def retraced(functions: list[Any], rewrite: Rewrite) -> Generator[None]:
    """Inside the block these functions are traced anew, and `rewrite` edits each graph before it is used.

    Functions and loop bodies that they trace on their way are not edited. What was traced before is kept aside
    and runs again after the block; what was traced inside is forgotten.

    Raises:
        EnvironmentUnsupported: this TensorFlow keeps its traces otherwise.
    """
    _watch()
    with ExitStack() as undo:
        for function in functions:
            undo.enter_context(_fresh(function, rewrite))
        yield


def when_traced(graph: Any, rewrite: Rewrite) -> None:
    """Have a FuncGraph that is being traced edited once it is complete, before it is used.

    Several edits are made in the order in which they are asked for.

    Raises:
        EnvironmentUnsupported: this TensorFlow keeps its traces otherwise.
    """
    _watch()
    _awaited.setdefault(graph, []).append(rewrite)


def _watch() -> None:
    transforms = _transforms()
    if _edit not in transforms:
        transforms.append(_edit)


def _edit(graph: Any) -> None:
    for rewrite in _awaited.pop(graph, ()):
        rewrite(graph)


def find_functions(target: Any) -> list[Any]:
    """The `tf.function`s behind a target: itself, or those that a plain Python function has in its closures.

    A Keras train function is a plain one around a `tf.function`, which calls another one.
    """
    return [target] if is_function(target) else list(_in_closures(target, {}))


def is_function(target: Any) -> bool:
    """Whether it is what `tf.function` makes."""
    module = importlib.import_module("tensorflow.python.eager.polymorphic_function.polymorphic_function")
    return isinstance(target, module.Function)


def run_eagerly() -> bool:
    """Whether TensorFlow was told to trace no function."""
    return importlib.import_module("tensorflow").config.functions_run_eagerly()


def _in_closures(target: Any, seen: dict[int, Any]) -> Iterator[Any]:
    if id(target) in seen:
        return
    seen[id(target)] = target
    if isinstance(target, functools.partial):
        yield from _in_closures(target.func, seen)
    elif is_function(target):
        yield target
        yield from _in_closures(target.python_function, seen)
    elif isinstance(target, types.FunctionType):
        for cell in target.__closure__ or ():
            yield from _in_closures(_content(cell), seen)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _transforms() -> list[Any]:
    """TensorFlow's own list of callables that get each traced graph before its FunctionDef exists."""
    version = native.tensorflow_version()
    try:
        module = importlib.import_module("tensorflow.python.eager.polymorphic_function.transform")
        return module.FUNC_GRAPH_TRANSFORMS
    except (ImportError, AttributeError) as err:
        raise _unsupported(version) from err


@dataclasses.dataclass(frozen=True)
class _Rewriting:
    """The Python function of a `tf.function`; has the graph rewritten that it is traced into."""

    function: Callable[..., Any]
    rewrite: Rewrite
    default_graph: Callable[[], Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        when_traced(self.default_graph(), self.rewrite)
        return self.function(*args, **kwargs)


@contextmanager
def _fresh(function: Any, rewrite: Rewrite) -> Generator[None]:
    """Give a `tf.function` an empty cache of traces for a while.

    Its tracing options, made at its first call, be that before or inside the block, are exchanged and never taken
    away: other threads may be calling it.
    """
    if not all(hasattr(function, name) for name in _STATE):
        raise _unsupported(native.tensorflow_version())
    default_graph: Any = importlib.import_module("tensorflow.python.framework.ops").get_default_graph
    make, overridden = function._generate_tracing_options, "_generate_tracing_options" in vars(function)
    cache = function._function_cache
    fresh = type(cache)()

    def noting(options: Any) -> Any:
        noted = _Rewriting(options.python_function, rewrite, default_graph)
        return dataclasses.replace(options, python_function=noted, function_cache=fresh)

    def plain(options: Any) -> Any:
        return dataclasses.replace(
            options, python_function=options.python_function.function, function_cache=cache
        )

    def new(*args: Any) -> Any:
        return noting(make(*args))

    with function._lock:
        _exchange(function, noting)
        function._function_cache = fresh
        function._generate_tracing_options = new
    try:
        yield
    finally:
        with function._lock:
            function._generate_tracing_options = make
            if not overridden:
                del function._generate_tracing_options
            function._function_cache = cache
            _exchange(function, plain)


def _exchange(function: Any, change: Callable[[Any], Any]) -> None:
    for name in _CONFIGS:
        options = getattr(function, name)
        if options is not None:
            setattr(function, name, change(options))


def _unsupported(version: str) -> EnvironmentUnsupported:
    return EnvironmentUnsupported(
        f"TensorFlow {version} traces functions in another way: run the pass inside Grappler, or rewrite the graph "
        "offline"
    )
