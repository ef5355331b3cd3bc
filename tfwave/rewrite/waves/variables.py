"""The variables that each wave has for itself, and how those of all waves come to their first values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import PassError
from tfwave.graph.access import HANDLE_OPS, READING_OPS, Resource, makes_handle, resource_of
from tfwave.graph.item import GraphItem
from tfwave.graph.levels import by_name
from tfwave.graph.names import natural_key, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import NodeDef


@dataclass(frozen=True)
class OwnVariables:
    """The variables that a step changes, by the names of their handles, and what gives them values besides it."""

    handles: frozenset[str]
    writers: tuple[str, ...]
    """Nodes outside the step that take a handle and do not just read: initialisers, those of a restore."""
    fed: bool
    """Are the handles fed, as in the graph of a traced function?"""


def own_variables(
    item: GraphItem, view: GraphView, changed: Iterable[Resource], copied: frozenset[str]
) -> OwnVariables:
    """What of a graph belongs to the variables that a step changes; `copied` are the step's nodes.

    Raises:
        PassError: a variable that nothing in the graph initialises; names its handle.
    """
    wanted = set(changed)
    table = OpTable.of(item.graph)
    handles = {
        i
        for i, node in enumerate(view.nodes)
        if node.op in HANDLE_OPS and resource_of(node) in wanted and makes_handle(node, table)
    }
    writers = {handle: _writers(view, handle, copied) for handle in handles}
    _check_initialised(view, writers)
    names = sorted({name for found in writers.values() for name in found}, key=natural_key)
    fed = any(view.ops[handle] != "VarHandleOp" for handle in handles)
    return OwnVariables(frozenset(view.names[handle] for handle in handles), tuple(names), fed)


def _writers(view: GraphView, handle: int, copied: frozenset[str]) -> list[str]:
    takers = {i for i in view.fanouts[handle] if view.names[handle] in _taken(view.nodes[i])}
    return [view.names[i] for i in takers if view.names[i] not in copied and view.ops[i] not in READING_OPS]


def _taken(node: NodeDef) -> list[str]:
    return [parse_input(text).node for text in node.input if not text.startswith("^")]


def _check_initialised(view: GraphView, writers: Mapping[int, Sequence[str]]) -> None:
    first: dict[Resource, str] = {}
    known = {resource_of(view.nodes[handle]) for handle, found in writers.items() if found}
    for handle in by_name(view, writers):
        resource = resource_of(view.nodes[handle])
        if view.ops[handle] == "VarHandleOp" and resource not in known:
            first.setdefault(resource, view.names[handle])
    for name in first.values():
        raise PassError(
            f"nothing in the graph initialises the variable '{name}', so that nothing would initialise those of "
            "further waves: rewrite the graph together with its initialisers"
        )
