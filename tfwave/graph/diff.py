"""What differs between two graphs: nodes by name, functions by name, and the rest."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from tfwave.errors import GraphError
from tfwave.graph.text import function_parts, graph_parts, node_notes, split_inputs
from tfwave.graph.values import attrs_text
from tfwave.proto.tensorflow_pb2 import FunctionDef, GraphDef, NodeDef

Value = str | tuple[str, ...] | None
"""Text as in `tfwave.graph.text`; None for what is absent."""


@dataclass(frozen=True)
class Edit:
    """A value before and after."""

    before: Value
    after: Value


@dataclass(frozen=True)
class NodeChange:
    """A node of both graphs. Edits by name: ``op``, ``device``, ``inputs``, ``control_inputs``, ``type``..."""

    name: str
    edits: Mapping[str, Edit]
    attrs: Mapping[str, Edit]


@dataclass(frozen=True)
class NodeChanges:
    """The nodes of one graph or function body that differ, by name; in order of their names."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[NodeChange, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class FunctionChange:
    """A function of both libraries. Edits by name: ``signature``, ``attr x``, ``return y``..."""

    name: str
    edits: Mapping[str, Edit]
    nodes: NodeChanges


@dataclass(frozen=True)
class FunctionChanges:
    """The functions that differ, by name; in order of their names."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[FunctionChange, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class GraphDiff:
    """What differs between two graphs; false if nothing does."""

    nodes: NodeChanges = NodeChanges()
    functions: FunctionChanges = FunctionChanges()
    edits: Mapping[str, Edit] = field(default_factory=dict[str, Edit])
    """Beside nodes and functions: versions, gradients, debug information."""

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return not self.equal

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.nodes or self.functions or self.edits)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"equal": self.equal, **asdict(self)}


def diff(a: GraphDef, b: GraphDef) -> GraphDiff:
    """What to change in `a` to get `b`, in whatever order their nodes, functions and control inputs are.

    Raises:
        GraphError: two nodes or two functions of one graph share a name.
    """
    return GraphDiff(
        nodes=_diff_nodes(a.node, b.node),
        functions=_diff_functions(a.library.function, b.library.function),
        edits=_edits(graph_parts(a), graph_parts(b)),
    )


def _diff_nodes(a: Iterable[NodeDef], b: Iterable[NodeDef]) -> NodeChanges:
    before, after = _by_name(a, _node_name, "node"), _by_name(b, _node_name, "node")
    changes = [_node_change(before[name], after[name]) for name in _differing(before, after)]
    return NodeChanges(
        added=_only_in(after, before),
        removed=_only_in(before, after),
        changed=tuple([c for c in changes if c.edits or c.attrs]),
    )


def _diff_functions(a: Iterable[FunctionDef], b: Iterable[FunctionDef]) -> FunctionChanges:
    before, after = _by_name(a, _function_name, "function"), _by_name(b, _function_name, "function")
    changes = [_function_change(before[name], after[name]) for name in _differing(before, after)]
    return FunctionChanges(
        added=_only_in(after, before),
        removed=_only_in(before, after),
        changed=tuple([c for c in changes if c.edits or c.nodes]),
    )


def _node_change(a: NodeDef, b: NodeDef) -> NodeChange:
    return NodeChange(a.name, _edits(_node_parts(a), _node_parts(b)), _attr_edits(a, b))


def _attr_edits(a: NodeDef, b: NodeDef) -> dict[str, Edit]:
    before, after = dict(a.attr), dict(b.attr)
    if before == after:
        return {}
    return _edits(attrs_text(before), attrs_text(after))


def _node_parts(node: NodeDef) -> dict[str, Value]:
    inputs, control_inputs = split_inputs(node)
    return {
        "op": node.op,
        "device": node.device,
        "inputs": inputs,
        "control_inputs": control_inputs,
        **node_notes(node),
    }


def _function_change(a: FunctionDef, b: FunctionDef) -> FunctionChange:
    edits = _edits(function_parts(a), function_parts(b))
    return FunctionChange(a.signature.name, edits, _diff_nodes(a.node_def, b.node_def))


def _edits(before: Mapping[str, Value], after: Mapping[str, Value]) -> dict[str, Edit]:
    if before == after:
        return {}
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return {name: Edit(before.get(name), after.get(name)) for name in names}


_T = TypeVar("_T", NodeDef, FunctionDef)


def _by_name(things: Iterable[_T], name_of: Callable[[_T], str], kind: str) -> dict[str, _T]:
    index: dict[str, _T] = {}
    for thing in things:
        name = name_of(thing)
        if name in index:
            raise GraphError(f"{kind} name '{name}' is used more than once")
        index[name] = thing
    return index


def _differing(before: Mapping[str, _T], after: Mapping[str, _T]) -> list[str]:
    return sorted([name for name, thing in before.items() if name in after and thing != after[name]])


def _only_in(these: Mapping[str, Any], others: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(these.keys() - others.keys()))


def _node_name(node: NodeDef) -> str:
    return node.name


def _function_name(function: FunctionDef) -> str:
    return function.signature.name
