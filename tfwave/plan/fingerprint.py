"""What a plan remembers of its graph: enough to know it again and to name the first difference."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tfwave.graph.marks import PREFIX
from tfwave.graph.names import parse_input
from tfwave.graph.view import RECV_OPS, SEND_OPS, GraphView
from tfwave.proto.tensorflow_pb2 import AttrValue, NameAttrList, NodeDef

_INCARNATION = "send_device_incarnation"
_NUMBERED = frozenset({"_gradient_op_type", "_user_specified_name"})
_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_NUMBER = re.compile(r"_\d+$")
_NUMBERS = re.compile(r"_\d+(?=_|$)")
_NAMELESS = "nameless "
_COLOCATED = "_class"
_DIGEST_BYTES = 2


@dataclass(frozen=True)
class GraphPrint:
    """The fingerprint of a graph, its op counts (sorted by op), and a short digest of each node.

    `node_digests` holds two bytes a node, nodes sorted by (name, device); of a nameless print they are sorted.
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
    return _print_of(view, [_digest(view.nodes[i]) for i in nodes_by_name(view)])


def nameless_print(view: GraphView) -> GraphPrint:
    """Take a print that is equal whatever nodes are called, as in a model that is built again in one process.

    Keras counts the names of its layers on as a process goes on. A node is known by its op, device and attributes,
    and by what it reads; what comes around a while loop does not count.
    """
    given = _print_of(view, sorted(_nameless_digests(view)))
    return replace(given, fingerprint=_NAMELESS + given.fingerprint)


def first_difference(planned: GraphPrint, view: GraphView, given: GraphPrint | None = None) -> str | None:
    """The first difference between the planned graph and this one, in words; None if there is none.

    `given` is the view's print, where it was taken before.
    """
    is_nameless = planned.fingerprint.startswith(_NAMELESS)
    given = nameless_print(view) if is_nameless else given or graph_print(view)
    if given.fingerprint == planned.fingerprint:
        return None
    before, now = dict(planned.op_counts), dict(given.op_counts)
    for op in sorted(before | now):
        if before.get(op, 0) != now.get(op, 0):
            return f"the planned graph has {before.get(op, 0)} {op} nodes, this one {now.get(op, 0)}"
    if is_nameless:
        return _first_strange(planned, view)
    for position, node in enumerate(nodes_by_name(view)):
        at = slice(position * _DIGEST_BYTES, (position + 1) * _DIGEST_BYTES)
        if planned.node_digests[at] != given.node_digests[at]:
            return f"node '{view.names[node]}' differs: its name, device, inputs or attributes"
    return "a node's inputs or attributes"


def _print_of(view: GraphView, digests: Sequence[bytes]) -> GraphPrint:
    return GraphPrint(
        fingerprint=hashlib.sha256(b"".join(digests)).hexdigest(),
        op_counts=tuple(sorted(Counter(view.ops).items())),
        node_digests=b"".join([digest[:_DIGEST_BYTES] for digest in digests]),
    )


def _first_strange(planned: GraphPrint, view: GraphView) -> str:
    """The first node that reads what was planned, and is not what was."""
    known = {
        planned.node_digests[at : at + _DIGEST_BYTES]
        for at in range(0, len(planned.node_digests), _DIGEST_BYTES)
    }
    digests = _nameless_digests(view)
    for node in view.topological_order:
        if digests[node][:_DIGEST_BYTES] not in known:
            return f"node '{view.names[node]}' differs: its device, inputs or attributes"
    return "a node's inputs or attributes"


def nodes_by_name(view: GraphView) -> list[int]:
    """Node indices by (name, device): an order that does not see numbering."""
    return sorted(range(len(view)), key=lambda i: (view.names[i], view.nodes[i].device))


def _digest(node: NodeDef) -> bytes:
    volatile = [name for name, value in node.attr.items() if _differs_by_run(node.op, name, value)]
    if volatile or node.HasField("experimental_debug_info"):
        node = _without(node, volatile, _NUMBER)
    return _hashed(node.SerializeToString(deterministic=True))


def _nameless_digests(view: GraphView) -> list[bytes]:
    """Of each node, by its index."""
    digests = [b""] * len(view)
    for node in view.topological_order:
        data = view.data_fanins[node]
        ports = [parse_input(text).port for text in view.nodes[node].input[:data]]
        read = [b"%d:" % port + digests[i] for port, i in zip(ports, view.fanins[node], strict=False)]
        waits = sorted([digests[i] for i in view.fanins[node][data:]])
        digests[node] = _hashed(b" ".join([_bare(view.nodes[node]), *read, b"^", *waits]))
    return digests


def _bare(node: NodeDef) -> bytes:
    """Without its name, and those of others."""
    volatile = [name for name, value in node.attr.items() if _differs_by_run(node.op, name, value)]
    copy = _without(node, [*volatile, *(name for name in node.attr if name == _COLOCATED)], _NUMBERS)
    copy.ClearField("name")
    copy.ClearField("input")
    return copy.SerializeToString(deterministic=True)


def _hashed(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _differs_by_run(op: str, attr: str, value: AttrValue) -> bool:
    if attr == _INCARNATION:
        return op in SEND_OPS or op in RECV_OPS
    if attr == "token":
        return op in _PYTHON_OPS
    return attr in _NUMBERED or attr.startswith(PREFIX) or bool(_called(value))


def _without(node: NodeDef, volatile: Iterable[str], numbers: re.Pattern[str]) -> NodeDef:
    """A function's name stays, without numbers."""
    copy = NodeDef()
    copy.CopyFrom(node)
    copy.ClearField("experimental_debug_info")
    for name in volatile:
        functions = _called(copy.attr[name])
        for function in functions:
            function.name = numbers.sub("", function.name)
        if not functions:
            del copy.attr[name]
    return copy


def _called(value: AttrValue) -> Sequence[NameAttrList]:
    """The functions that an attribute names: one, or the branches of a Case."""
    if value.HasField("func"):
        return [value.func]
    return value.list.func if value.HasField("list") else ()
