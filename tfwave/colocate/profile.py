"""From traced steps of a job to what a plan is made of."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tfwave.capture.memory.traced import traced_memory
from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.errors import EnforcerError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import JobStep
from tfwave.plan.fingerprint import GraphPrint
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.runtime.trace.memory import MemoryTrace


@dataclass(frozen=True)
class ProfiledStep:
    """The step of a job: its graph as the optimizer left it, what its ops take, and the print of what ran."""

    item: GraphItem
    step: JobStep
    graph: GraphPrint


def constant_bytes(nodes: Iterable[NodeDef]) -> int:
    """What another instance of a graph with these nodes holds for good."""
    values = (node.attr["value"] for node in nodes if node.op == "Const" and "value" in node.attr)
    return sum(value.ByteSize() for value in values)


def find_graph(name: str, seen: Sequence[GraphItem], traces: Sequence[MemoryTrace]) -> GraphItem:
    """Of the graphs that were optimized, the one whose nodes allocated most in the traces, the last of equals.

    Raises:
        EnforcerError: none of them did.
    """
    sizes: Counter[str] = Counter()
    for trace in traces:
        for allocation in trace.allocations:
            sizes[allocation.node] += allocation.bytes
    held = [sum(sizes[node.name] for node in item.graph.node) for item in seen]
    if not any(held):
        raise EnforcerError(
            f"no graph of the job '{name}' was seen to allocate: let TensorFlow's graph optimizer run, and the "
            "step compute on the CPU"
        )
    return seen[max(range(len(seen)), key=lambda i: (held[i], i))]


def profile_step(name: str, item: GraphItem, traces: Sequence[MemoryTrace], resident: int) -> JobStep:
    """The traced step with the highest peak, the first of equals; an op costs the least of its runs."""
    nodes = {node.name for node in item.graph.node}
    device = next((node.device for node in item.graph.node if node.device), "")
    steps = [trace.of_step(nodes) for trace in traces]
    profiles = [traced_memory(step, nodes, device, resident).profile for step in steps]
    profile = max(profiles, key=lambda found: found.peak)
    view = GraphView.of(item.graph)
    costs = Costs.named(view, _seconds(steps, nodes), {}, CostSource("measured", "measured"))
    return JobStep(name, view, profile, costs)


def _seconds(steps: Sequence[MemoryTrace], nodes: Collection[str]) -> dict[str, float]:
    """The least over the steps; a loop's op runs several times in each. What only allocated was cheap."""
    least: dict[str, float] = {}
    for step in steps:
        spent: dict[str, float] = defaultdict(float)
        for run in step.ops:
            if run.node in nodes:
                spent[run.node] += run.seconds
        least |= {node: min(seconds, least.get(node, seconds)) for node, seconds in spent.items()}
    allocating = (allocation.node for step in steps for allocation in step.allocations)
    return {node: 0.0 for node in allocating if node in nodes} | least
