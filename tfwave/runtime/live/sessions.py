"""v1 sessions: what they run of a graph is fixed, node by node, by their first run after it was made.

TensorFlow takes later changes of such nodes without an error, logs a warning at best, and ignores them.
"""

import gc
import importlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.graph.edits import ControlEdgeAdded, Edit, NodeAdded, NodeRemoved

_PROBE = "_tfwave_probe"
_PROBE_SECONDS = 60


def graph_and_sessions(target: Any) -> tuple[Any, list[Any]] | None:
    """The v1 graph of a target and the open sessions on it; None if it is neither a graph nor a session."""
    tensorflow = _tensorflow()
    base: Any = importlib.import_module("tensorflow.python.client.session").BaseSession
    if isinstance(target, base):
        return target.graph, [target]
    if isinstance(target, tensorflow.Graph) and not target.building_function:
        live = [thing for thing in gc.get_objects() if issubclass(type(thing), base)]
        return target, [s for s in live if s.graph is target and not s._closed]
    return None


def refuse_running(graph: Any, sessions: Sequence[Any], edits: Sequence[Edit], undo: ExitStack) -> None:
    """Check that the sessions see the edits, which were just made.

    A note on a constant tells; `undo` learns how to take it away. A graph without constants is not checked.

    Raises:
        EnforcerError: one has run a node that was edited, and goes on without; or it does not answer.
    """
    edited = _edited(edits)
    operations = graph.get_operations()
    first = next((i for i, operation in enumerate(operations) if operation.name in edited), None)
    probe = _probe(operations, first) if first is not None else None
    if probe is None:
        return
    probe._set_attr(_PROBE, _tensorflow().compat.v1.AttrValue(b=True))
    undo.callback(probe._clear_attr, _PROBE)
    for session in sessions:
        if not _sees_changes(session, probe):
            raise EnforcerError(
                f"node '{operations[first].name}' has been in a session's run, and TensorFlow ignores what changes "
                "after it: install before the first run, close that session, or rewrite the graph offline"
            )


def _edited(edits: Sequence[Edit]) -> set[str]:
    """The nodes that were there before."""
    added = {edit.node.name for edit in edits if isinstance(edit, NodeAdded)}
    changed = [e for e in edits if not isinstance(e, NodeAdded | NodeRemoved)]
    return {e.target if isinstance(e, ControlEdgeAdded) else e.node for e in changed} - added


def _probe(operations: Sequence[Any], first: int) -> Any:
    """A constant, which runs without effects: the last made before the first edited node, or the first after."""
    constants = [i for i, op in enumerate(operations) if op.type == "Const" and not op.control_inputs]
    before = [i for i in constants if i < first]
    place = before[-1] if before else next(iter(constants), None)
    return None if place is None else operations[place]


def _sees_changes(session: Any, probe: Any) -> bool:
    """Whether the note on the constant shows in what the session runs."""
    v1 = _tensorflow().compat.v1
    metadata = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True, timeout_in_ms=_PROBE_SECONDS * 1000)
    try:
        session.run(probe, options=options, run_metadata=metadata)
    except _tensorflow().errors.OpError as err:
        raise EnforcerError(f"the session does not run the constant '{probe.name}': {err.message}") from err
    nodes = [node for graph in metadata.partition_graphs for node in graph.node if node.name == probe.name]
    return any(_PROBE in node.attr for node in nodes)


def _tensorflow() -> Any:
    return importlib.import_module("tensorflow")
