"""The traces that tfwave leaves in a graph: enough to take back each rewrite exactly.

    _tfwave           on a node that was added: the pass that added it, with its options
    _tfwave_inputs    on a node whose inputs changed: the inputs before
    _tfwave_device    on a node that was moved: the device before
    _tfwave_removed   on the node `REMOVED`: the nodes that were taken out, as they were (NodeDef)
    _tfwave_*         on any node: what a pass noted there

TensorFlow keeps attributes that begin with an underscore, and gives them no meaning.
"""

from tfwave.graph.attrs import string_attr
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

PREFIX = "_tfwave"
ADDED_BY = PREFIX
INPUTS = "_tfwave_inputs"
DEVICE = "_tfwave_device"
REMOVED_NODES = "_tfwave_removed"
REMOVED = "tfwave/removed"
STEP_MARKER_OP = "TfwaveStep"
"""The op (followed by a number of its graph) that the send hook puts into the graphs of its own process."""


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
    """Give a changed node its inputs, device and attributes back, in place."""
    if INPUTS in node.attr:
        before = [text.decode() for text in node.attr[INPUTS].list.s]
        del node.input[:]
        node.input.extend(before)
    if DEVICE in node.attr:
        node.device = node.attr[DEVICE].s.decode()
    for name in [name for name in node.attr if name.startswith(PREFIX)]:
        del node.attr[name]


def removed_nodes(graph: GraphDef) -> list[NodeDef]:
    """The nodes that rewrites took out of a graph, as they were."""
    holder = next((node for node in graph.node if node.name == REMOVED), None)
    if holder is None:
        return []
    return [NodeDef.FromString(data) for data in holder.attr[REMOVED_NODES].list.s]
