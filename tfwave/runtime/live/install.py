"""Applying passes to what is live: a `tf.function`, a Keras train function, a v1 graph or session."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.passes.base import Transform
from tfwave.runtime.live.replay import live_item, rewrite_live, traced_item
from tfwave.runtime.live.retrace import find_functions, retraced, run_eagerly
from tfwave.runtime.live.sessions import graph_and_sessions, refuse_running


@contextmanager
def install(target: Any, graph_pass: Transform) -> Generator[None]:
    """Rewrite a live target with a pass (or a `Pipeline`) inside the block, and restore it at the end.

    1. A `tf.function`: it is traced anew inside the block, at each new input shape, and each trace is rewritten.
       After it the old traces run again. The functions that it calls are not touched, nor are traced callers
       of it: they keep what they have.
    2. A plain Python function around `tf.function`s, as Keras's `train_function`: all that its closures hold.
    3. A v1 `tf.Graph` or `Session` that has not run yet: the graph is rewritten. A session that is open at the
       start, or first runs inside the block, keeps what it got; for later sessions the graph is as before. What
       was added stays in the graph, but nothing leads there.

    A pass that fails raises where the trace happens: at the call of the function, or here for a v1 graph. What it
    remarks is logged there (logger `tfwave`, level INFO).

    Raises:
        EnforcerError: not such a target; a session has run the graph; the pass does what a live graph cannot.
        EnvironmentUnsupported: this TensorFlow cannot be reached so.
    """
    session_target = graph_and_sessions(target)
    if session_target:
        with _rewritten_graph(*session_target, graph_pass):
            yield
        return
    functions = find_functions(target)
    if functions and run_eagerly():
        raise EnforcerError(
            "functions run eagerly, so nothing is traced: tf.config.run_functions_eagerly(False)"
        )
    if not functions:
        raise EnforcerError(
            f"cannot install on {target!r}: give a tf.function, a Keras train function (after make_train_function) "
            "or a tf.compat.v1 Graph or Session"
        )
    with retraced(functions, lambda graph: rewrite_trace(graph, graph_pass)):
        yield


def rewrite_trace(graph: Any, graph_pass: Transform) -> None:
    """Rewrite the graph of a `tf.function`, before its first use, and for good: nothing to undo.

    Raises:
        EnforcerError: the pass does what a live graph cannot.
        TfwaveError: what the pass raises.
    """
    item = traced_item(graph)
    with ExitStack() as undo:
        rewrite_live(graph, graph_pass, item, undo)
        undo.pop_all()


@contextmanager
def _rewritten_graph(graph: Any, sessions: list[Any], graph_pass: Transform) -> Generator[None]:
    if graph.finalized:
        raise EnforcerError(
            "the graph is finalized (a MonitoredSession does that): install before, or rewrite it offline"
        )
    with ExitStack() as undo:
        edits = rewrite_live(graph, graph_pass, live_item(graph), undo)
        refuse_running(graph, sessions, edits, undo)
        yield
