"""The scratch that ops ask for: a trace tells what a pool gave, up to twice as much, as it happened to be free.

Ops that are alike ask for the same, and a pool gives no less: the least that any of them was given is nearest.
"""

from collections.abc import Hashable, Mapping, Sequence

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory.captured import CapturedMemory, device_nodes
from tfwave.bundle.memory.runs import op_events
from tfwave.graph.names import parse_input
from tfwave.graph.values import attrs_text
from tfwave.proto.tensorflow_pb2 import NodeDef, NodeExecStats


def asked_scratch(bundle: Bundle, steps: Sequence[CapturedMemory]) -> dict[str, int]:
    """Of these steps of one device, by node: the least bytes that an op was given, or any that is like it."""
    first = steps[0]
    device = first.memory.profile.device
    shapes = {event.node_name: _shapes(event) for event in op_events(bundle.steps[first.step], device)}
    nodes = device_nodes(bundle, device)
    given = [(op.node, op.scratch) for step in steps for op in step.memory.profile.ops if op.scratch]
    names = dict.fromkeys(name for name, _ in given)
    kinds = {name: _kind(nodes[name], shapes) if name in nodes else name for name in names}
    least: dict[Hashable, int] = {}
    for name, scratch in given:
        least[kinds[name]] = min(scratch, least.get(kinds[name], scratch))
    return {name: least[kind] for name, kind in kinds.items()}


def _shapes(event: NodeExecStats) -> dict[int, tuple[int, ...]]:
    """Of what an op gives out, by port."""
    return {
        output.slot: tuple(side.size for side in output.tensor_description.shape.dim)
        for output in event.output
    }


def _kind(node: NodeDef, shapes: Mapping[str, Mapping[int, tuple[int, ...]]]) -> Hashable:
    """What ops alike have in common, all but names; what reads a tensor of unknown shape is like no other."""
    attrs = attrs_text({name: value for name, value in node.attr.items() if not name.startswith("_")})
    tensors = (parse_input(text) for text in node.input if not text.startswith("^"))
    read = tuple(shapes.get(tensor.node, {}).get(tensor.port, tensor) for tensor in tensors)
    return node.op, tuple(attrs.items()), read, tuple(shapes.get(node.name, {}).items())
