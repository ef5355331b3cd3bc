"""The scratch that ops ask for: a trace tells what a pool gave, up to twice as much, as it happened to be free.

Ops that are alike ask for the same, and a pool gives no less: the least that any of them was given is nearest.
"""

from collections.abc import Hashable, Mapping, Sequence

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory.captured import CapturedMemory, device_nodes
from tfwave.bundle.memory.runs import Run, device_runs
from tfwave.graph.names import TensorName, parse_input
from tfwave.proto.tensorflow_pb2 import NodeDef


def asked_scratch(bundle: Bundle, steps: Sequence[CapturedMemory]) -> dict[str, int]:
    """Of these steps of one device, by node: the least bytes that an op was given, or any that is like it."""
    first = steps[0]
    device = first.memory.profile.device
    kinds = _Kinds(device_runs(bundle, first.step, device), device_nodes(bundle, device))
    kind_of: dict[str, Hashable] = {}
    least: dict[Hashable, int] = {}
    for op in (op for step in steps for op in step.memory.profile.ops if op.scratch):
        kind = kind_of.setdefault(op.node, kinds.of(op.node))
        least[kind] = min(op.scratch, least.get(kind, op.scratch))
    return {node: least[kind] for node, kind in kind_of.items()}


class _Kinds:
    def __init__(self, runs: Sequence[Run], nodes: Mapping[str, NodeDef]) -> None:
        self._nodes = nodes
        self._made = {run.node: tuple(output.shape for output in run.outputs) for run in runs}
        self._shapes = {TensorName(run.node, made.port): made.shape for run in runs for made in run.outputs}

    def of(self, name: str) -> Hashable:
        """What ops alike have in common, all but names; what reads a tensor of unknown shape is like no other."""
        node = self._nodes.get(name)
        if node is None:
            return name
        attrs = (
            (attr, node.attr[attr].SerializeToString(deterministic=True))
            for attr in sorted(node.attr)
            if not attr.startswith("_")
        )
        inputs = (parse_input(text) for text in node.input if not text.startswith("^"))
        shapes = tuple(self._shapes.get(tensor, tensor) for tensor in inputs)
        return node.op, tuple(attrs), shapes, self._made.get(name)
