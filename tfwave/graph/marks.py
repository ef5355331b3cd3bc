"""The traces that tfwave leaves in a graph: enough to take back each rewrite exactly.

    _tfwave           on a node that was added: the pass that added it, with its options
    _tfwave_inputs    on a node whose inputs changed: the inputs before
    _tfwave_device    on a node that was moved: the device before
    _tfwave_given     on a node that was given attributes of TensorFlow's which it had not: their names
    _tfwave_removed   on the node `REMOVED`: the nodes that were taken out, as they were (NodeDef)
    _tfwave_*         on any node: what a pass noted there

TensorFlow keeps attributes that begin with an underscore, and gives them no meaning.
"""

from google.protobuf.message import DecodeError

from tfwave.errors import GraphError
from tfwave.graph.attrs import string_attr
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

PREFIX = "_tfwave"
ADDED_BY = PREFIX
INPUTS = "_tfwave_inputs"
DEVICE = "_tfwave_device"
GIVEN = "_tfwave_given"
REMOVED_NODES = "_tfwave_removed"
REMOVED = "tfwave/removed"
STEP_MARKER_OP = "TfwaveStep"
"""The op that the send hook puts into the graphs of its own process."""
BARRIER_OP = "TfwaveCounterBarrier"
"""The op that asks the ledger of its process to let a job's node group begin; its attributes are `job`, a name, and
`group`, the number of the group after it."""
STASH_OP = "TfwaveStash"
"""The op that copies a tensor out of TensorFlow's pool; it gives a ticket once the copy is complete."""
FETCH_OP = "TfwaveFetch"
"""The op that takes a ticket, and gives the tensor back."""
TICKET_OPS = frozenset({STASH_OP, FETCH_OP})
"""Ops that leave nothing behind a step, and do not run twice in it: a ticket is for one tensor, once."""


def is_added(node: NodeDef) -> bool:
    """Whether tfwave put this node into the graph."""
    return ADDED_BY in node.attr or node.op.startswith(STEP_MARKER_OP)


def added_by(node: NodeDef) -> str:
    """The pass that added a node, with its options; empty for a node of the user."""
    return string_attr(node, ADDED_BY)


def is_marked(node: NodeDef) -> bool:
    """Whether tfwave added or changed this node."""
    return is_added(node) or any(name.startswith(PREFIX) for name in node.attr)


def restore(node: NodeDef) -> None:
    """Give a changed node its inputs, device and attributes back, in place.

    Raises:
        GraphError: a mark is damaged; names the node.
    """
    if INPUTS in node.attr:
        before = [_text(node, INPUTS, text) for text in node.attr[INPUTS].list.s]
        del node.input[:]
        node.input.extend(before)
    if DEVICE in node.attr:
        node.device = _text(node, DEVICE, node.attr[DEVICE].s)
    if GIVEN in node.attr:
        for data in node.attr[GIVEN].list.s:
            node.attr.pop(_text(node, GIVEN, data), None)
    for name in [name for name in node.attr if name.startswith(PREFIX)]:
        del node.attr[name]


def removed_nodes(graph: GraphDef) -> list[NodeDef]:
    """The nodes that rewrites took out of a graph, as they were.

    Raises:
        GraphError: the mark that holds them is damaged.
    """
    holder = next((node for node in graph.node if node.name == REMOVED), None)
    kept = None if holder is None else holder.attr.get(REMOVED_NODES)
    return [] if kept is None else [_removed_node(data) for data in kept.list.s]


def _removed_node(data: bytes) -> NodeDef:
    try:
        node = NodeDef.FromString(data)
    except DecodeError as error:
        raise _damaged(REMOVED, REMOVED_NODES) from error
    if not node.name or is_marked(node):
        raise _damaged(REMOVED, REMOVED_NODES)
    return node


def _text(node: NodeDef, mark: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _damaged(node.name, mark) from error


def _damaged(name: str, mark: str) -> GraphError:
    return GraphError(f"node '{name}': its attribute {mark} is damaged, so that it cannot be undone")
