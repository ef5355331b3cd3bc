"""What a plan remembers of its graph: enough to know it again and to name the first difference."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfwave.graph.marks import PREFIX
from tfwave.graph.view import RECV_OPS, SEND_OPS, GraphView
from tfwave.proto.tensorflow_pb2 import AttrValue, NameAttrList, NodeDef

_INCARNATION = "send_device_incarnation"
_NUMBERED = frozenset({"_gradient_op_type", "_user_specified_name"})
_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_NUMBER = re.compile(r"_\d+$")
_DIGEST_BYTES = 2


@dataclass(frozen=True)
class GraphPrint:
    """The fingerprint of a graph, its op counts (sorted by op), and a short digest of each node.

    `node_digests` holds two bytes a node, nodes sorted by (name, device).
    """

    fingerprint: str
    op_counts: tuple[tuple[str, int], ...]
    node_digests: bytes

    @property
    def node_count(self) -> int:
        """How many nodes the graph has."""
        return len(self.node_digests) // _DIGEST_BYTES


NO_GRAPH = GraphPrint("", (), b"")
"""A plan that orders nothing has this print."""


def graph_print(view: GraphView) -> GraphPrint:
    """Take the print of a graph: equal under node reordering and in every run of one program.

    1. What differs from run to run is left out: device incarnations; the numbers that TensorFlow gives to custom
       gradients, to what a trace captures, to functions of Python, and to those that a node calls; and of which it
       was made.
    2. So are the notes of tfwave.
    """
    digests = [_digest(view.nodes[i]) for i in nodes_by_name(view)]
    return GraphPrint(
        fingerprint=hashlib.sha256(b"".join(digests)).hexdigest(),
        op_counts=tuple(sorted(Counter(view.ops).items())),
        node_digests=b"".join([d[:_DIGEST_BYTES] for d in digests]),
    )


def first_difference(planned: GraphPrint, view: GraphView, given: GraphPrint | None = None) -> str | None:
    """The first difference between the planned graph and this one, in words; None if there is none.

    `given` is the view's print, where it was taken before.
    """
    given = given or graph_print(view)
    if given.fingerprint == planned.fingerprint:
        return None
    before, now = dict(planned.op_counts), dict(given.op_counts)
    for op in sorted(before | now):
        if before.get(op, 0) != now.get(op, 0):
            return f"the planned graph has {before.get(op, 0)} {op} nodes, this one {now.get(op, 0)}"
    for position, node in enumerate(nodes_by_name(view)):
        at = slice(position * _DIGEST_BYTES, (position + 1) * _DIGEST_BYTES)
        if planned.node_digests[at] != given.node_digests[at]:
            return f"node '{view.names[node]}' differs: its name, device, inputs or attributes"
    return "a node's inputs or attributes"


def nodes_by_name(view: GraphView) -> list[int]:
    """Node indices by (name, device): an order that does not see numbering."""
    return sorted(range(len(view)), key=lambda i: (view.names[i], view.nodes[i].device))


def _digest(node: NodeDef) -> bytes:
    volatile = [name for name, value in node.attr.items() if _differs_by_run(node.op, name, value)]
    if volatile or node.HasField("experimental_debug_info"):
        node = _without(node, volatile)
    return hashlib.blake2b(node.SerializeToString(deterministic=True), digest_size=16).digest()


def _differs_by_run(op: str, attr: str, value: AttrValue) -> bool:
    if attr == _INCARNATION:
        return op in SEND_OPS or op in RECV_OPS
    if attr == "token":
        return op in _PYTHON_OPS
    return attr in _NUMBERED or attr.startswith(PREFIX) or bool(_called(value))


def _without(node: NodeDef, volatile: Iterable[str]) -> NodeDef:
    """A function's name stays, without its number."""
    copy = NodeDef()
    copy.CopyFrom(node)
    copy.ClearField("experimental_debug_info")
    for name in volatile:
        functions = _called(copy.attr[name])
        for function in functions:
            function.name = _NUMBER.sub("", function.name)
        if not functions:
            del copy.attr[name]
    return copy


def _called(value: AttrValue) -> Sequence[NameAttrList]:
    """The functions that an attribute names: one, or the branches of a Case."""
    if value.HasField("func"):
        return [value.func]
    return value.list.func if value.HasField("list") else ()
