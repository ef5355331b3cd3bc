"""When a call is done, in whose place TensorFlow may put the nodes of functions."""

from tfwave.graph.attrs import KEEP_ATTR
from tfwave.graph.functions.nodes import types_attr
from tfwave.graph.item import GraphItem
from tfwave.graph.names import CONTROL_PORT, TensorName, parse_input
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, NodeDef
from tfwave.rewrite.steps.copies import SCOPE
from tfwave.rewrite.steps.step import Step


def done_name(call: str) -> str:
    """The name of what comes after all of a call."""
    return f"{SCOPE}/done/{call}"


def done_of(call: int, step: Step, item: GraphItem, table: OpTable) -> NodeDef:
    """A node that comes after all that a step runs of a call: it takes of the call what the step does.

    A control edge from a branch, or from a call, comes after what its functions say must run. Those of a graph of
    TensorFlow 1 say nothing: there each node runs for the sake of what is taken. Grappler leaves the node as it is.
    """
    node = step.view.nodes[call]
    kinds = table.output_types(node)
    used = _used(call, step, item) or {TensorName(node.name, CONTROL_PORT)}
    ports = [port for port, kind in enumerate(kinds) if (node.name, port) in used and kind != DT_RESOURCE]
    made = NodeDef(name=done_name(node.name), op="IdentityN" if ports else "NoOp", device=node.device)
    made.input.extend([f"{node.name}:{port}" if port else node.name for port in ports])
    if (node.name, CONTROL_PORT) in used or not ports:
        made.input.append(f"^{node.name}")
    if ports:
        made.attr["T"].CopyFrom(types_attr([kinds[port] for port in ports]))
    made.attr[KEEP_ATTR].b = True
    return made


def _used(call: int, step: Step, item: GraphItem) -> set[TensorName]:
    """What of a call its readers in the step take, and what of it is fetched."""
    view, name = step.view, step.view.names[call]
    texts = [
        text for reader in view.fanouts[call] if reader in step.fanins for text in view.nodes[reader].input
    ]
    tensors = [tensor for tensor in map(parse_input, [*texts, *item.fetches]) if tensor.node == name]
    return {*tensors, *([TensorName(name, CONTROL_PORT)] if name in item.fetches else [])}
