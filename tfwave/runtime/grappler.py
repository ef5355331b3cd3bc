"""Passes inside Grappler, TensorFlow's own graph optimizer, in the process that runs the graph."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from tfwave.errors import EnforcerError
from tfwave.passes.base import Transform
from tfwave.runtime.grappler_plugin import Plugin, PluginCall

_REGISTERING = Lock()


@contextmanager
def in_grappler(graph_pass: Transform) -> Generator[None]:
    """Let Grappler run a pass on every graph that this process optimizes inside the block.

    That is: for a Session, where its master is (this process, or the server it connects to); for a
    `tf.function`, where it executes (here, or on the workers of a strategy). A graph is optimized when it first
    runs, and keeps for good what it got then.

    The pass sees graphs that are placed on devices, with at least one node on a CPU and at least 4 nodes;
    functions come inlined, or as graphs of their own. It is called twice per graph, other optimizers in between,
    and must find its own work done the second time. It runs in TensorFlow's threads, in several at once. What
    it edits in the function library is lost. A pass that fails leaves the graph as it is, and the job goes on.

    Enter the first such block before other threads run graphs: TensorFlow registers optimizers unguarded.

    Raises:
        EnvironmentUnsupported: this TensorFlow takes no optimizer from Python; says what to do instead.
        EnforcerError: another pass is in Grappler; or, at the end of the block, the pass failed.
    """
    use = _Use(graph_pass)
    with _switch().turned_to(use):
        try:
            yield
        except Exception as error:
            if use.failures:
                error.add_note(str(use.failure()))
            raise
    if use.failures:
        raise use.failure()


class _Use:
    """One pass while it is in Grappler; `failures` are its errors and the fetches of the graphs they came with."""

    def __init__(self, graph_pass: Transform) -> None:
        self._pass = graph_pass
        self.failures: list[tuple[BaseException, tuple[str, ...]]] = []

    def optimize(self, call: PluginCall) -> bytes | None:
        fetches: tuple[str, ...] = ()
        try:
            item = call.item()
            fetches = item.fetches
            result = self._pass(item)
            return result.item.graph.SerializeToString() if result.changed else None
        except BaseException as error:  # none may cross C++, nor stop the job
            self.failures.append((error, fetches))
            return None

    def failure(self) -> BaseException:
        """The first failure as it is to be raised."""
        error, fetches = self.failures[0]
        if not isinstance(error, Exception):
            return error
        failure = EnforcerError(
            f"the pass {self._pass} failed inside Grappler, on the graph of {', '.join(fetches) or 'no fetch'}, "
            f"which ran without it: {error or type(error).__name__}"
        )
        failure.__cause__ = error
        return failure


class _Switch:
    """What the process's plugin does: nothing, or the pass in use."""

    def __init__(self) -> None:
        self._use: _Use | None = None
        self._lock = Lock()
        self._plugin = Plugin(self._optimize)

    @contextmanager
    def turned_to(self, use: _Use) -> Generator[None]:
        with self._lock:
            if self._use is not None:
                raise EnforcerError("a pass is in Grappler already: put both into one Pipeline")
            self._use = use
        try:
            yield
        finally:
            self._use = None

    def _optimize(self, call: PluginCall) -> bytes | None:
        use = self._use
        return use.optimize(call) if use else None


def _switch() -> _Switch:
    with _REGISTERING:
        return _the_switch()


@cache
def _the_switch() -> _Switch:
    """The one of this process: TensorFlow takes a plugin once and for good."""
    return _Switch()
