"""From traced steps of a job to what a plan is made of."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.costs import bundle_costs
from tfwave.bundle.memory import captured_memory
from tfwave.colocate.first import FirstStep
from tfwave.errors import EnforcerError
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import JobStep
from tfwave.plan.groups import UNKNOWN_SHARE
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef
from tfwave.runtime.trace.memory import MemoryTrace


@dataclass(frozen=True)
class ProfiledStep:
    """A step of a job that runs: what was traced of it, the same for a plan, and what TensorFlow made of it."""

    bundle: Bundle
    step: JobStep
    made: FirstStep


def captured_step(name: str, bundle: Bundle, device: str | None = None) -> JobStep:
    """The step of a job that was captured: that with the highest peak.

    What its pool held besides counts, too: constants, and what a pool gives variables beyond what they need. So
    capture a job in a process of its own.

    Raises:
        BundleError: as `captured_memory`.
    """
    captured = captured_memory(bundle, device)
    besides = max(0, captured.others or 0)
    share = bundle.manifest.compute_share or UNKNOWN_SHARE
    return JobStep(
        name,
        bundle.view,
        captured.memory.profile,
        bundle_costs(bundle),
        compute_share=share,
        besides=besides,
        own=None if bundle.own is None else GraphView.of(bundle.own),
        fetches=tuple(bundle.manifest.fetches),
    )


def constant_bytes(nodes: Iterable[NodeDef]) -> int:
    """What another instance of a graph with these nodes holds for good."""
    values = (node.attr["value"] for node in nodes if node.op == "Const" and "value" in node.attr)
    return sum(value.ByteSize() for value in values)


def find_graph(name: str, graphs: Sequence[GraphDef], traces: Sequence[MemoryTrace]) -> GraphDef:
    """Of a step's graphs, one for each device, that whose nodes allocated most in the traces, the first of equals.

    Raises:
        EnforcerError: none of them did.
    """
    sizes: Counter[str] = Counter()
    for trace in traces:
        for allocation in trace.allocations:
            sizes[allocation.node] += allocation.bytes
    held = [sum(sizes[node.name] for node in graph.node) for graph in graphs]
    if not any(held):
        raise EnforcerError(
            f"no graph of the job '{name}' was seen to allocate: let the step compute on the CPU, as a graph, and "
            "do without jit_compile=True, also in what it calls"
        )
    return graphs[held.index(max(held))]
