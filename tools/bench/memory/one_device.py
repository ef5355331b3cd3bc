"""A captured step as if all of it had run on its GPU: what `tfwave` decides on runs on one device.

TensorFlow cuts a GPU's step: what a call fetches ends on the CPU, and so does what a GPU has no kernel for.

1. The graph is the program's own, each node on the GPU; sends and receives between the parts are not in it.
2. Memory is the GPU's; what lies on the host, as small integers do, takes none.
3. The seconds of an op are those of its kernels, where the trace has them, else those in which they were started.
4. A step keeps the GPU busy while any kernel runs; that share stands for the cores' in the bundle.

When ops begin, and when buffers are free, is the host's view: the allocator is asked there, ahead of the kernels.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tfwave.bundle.bundle import Bundle, StepSummary, load_bundle, save_bundle
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeExecStats, StepStats

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
KERNELS = "/device:GPU:0/stream:all"
COPIES = "/device:GPU:0/memcpy"
"""What TensorFlow calls what it traced on the GPU itself; absent where the profiling library does not open."""
_ON_HOST = re.compile("cpu|host", re.IGNORECASE)
"""In the names of the allocators whose memory is not a GPU's."""

Interval = tuple[float, float]


def narrow(path: Path, device: str = GPU) -> None:
    """Write a bundle again with all of its step on one device."""
    save_bundle(on_one_device(load_bundle(path), device), path)


def on_one_device(bundle: Bundle, device: str = GPU) -> Bundle:
    """Cases 1 to 4; as it is where the program's own graph is not known."""
    if bundle.own is None:
        return bundle
    graph = GraphDef()
    graph.CopyFrom(bundle.own)
    for node in graph.node:
        node.device = device
    names = frozenset(node.name for node in graph.node)
    steps = tuple(_step(step, names, device) for step in bundle.steps)
    summaries = [
        _summary(summary, step, bundle.manifest.cores)
        for summary, step in zip(bundle.manifest.steps, bundle.steps, strict=True)
    ]
    manifest = bundle.manifest.model_copy(update={"steps": summaries})
    return replace(bundle, manifest=manifest, graphs=(graph,), steps=steps)


def kernel_seconds(stats: StepStats) -> Mapping[str, float]:
    """Of the kernels of each op, by its name; empty where none was traced."""
    seconds: dict[str, float] = defaultdict(float)
    for event in _traced(stats, KERNELS):
        seconds[event.node_name.partition(":")[0]] += event.op_end_rel_micros / 1e6
    return seconds


def overlapped_seconds(stats: StepStats) -> tuple[float, float]:
    """How long something was copied to or from the GPU, and how long of that kernels ran."""
    copies, kernels = (_merged(map(_interval, _traced(stats, of))) for of in (COPIES, KERNELS))
    both = sum(
        max(0.0, min(end, until) - max(begin, since)) for begin, end in copies for since, until in kernels
    )
    return sum(end - begin for begin, end in copies), both


def _step(stats: StepStats, names: frozenset[str], device: str) -> StepStats:
    kernels = kernel_seconds(stats)
    made = StepStats()
    events = made.dev_stats.add(device=device).node_stats
    for of_device in stats.dev_stats:
        if of_device.device.startswith("/job:"):
            there = of_device.device == device
            events.extend(
                _event(event, there, kernels) for event in of_device.node_stats if event.node_name in names
            )
    return made


def _event(event: NodeExecStats, there: bool, kernels: Mapping[str, float]) -> NodeExecStats:
    """Cases 2 and 3."""
    copy = NodeExecStats()
    copy.CopyFrom(event)
    memory = [one for one in event.memory if there and not _ON_HOST.search(one.allocator_name)]
    outputs = [
        one
        for one in event.output
        if there and not _ON_HOST.search(one.tensor_description.allocation_description.allocator_name)
    ]
    del copy.memory[:], copy.output[:]
    copy.memory.extend(memory)
    copy.output.extend(outputs)
    if event.node_name in kernels:
        copy.op_start_rel_nanos = copy.op_start_rel_micros = 0
        copy.op_end_rel_nanos = round(kernels[event.node_name] * 1e9)
    return copy


def _summary(summary: StepSummary, stats: StepStats, cores: int | None) -> StepSummary:
    """Case 4; a share that is not known stays so."""
    busy = sum(end - begin for begin, end in _merged(map(_interval, _traced(stats, KERNELS))))
    return summary.model_copy(update={"core_seconds": busy * cores if busy and cores else None})


def _traced(stats: StepStats, device: str) -> Iterator[NodeExecStats]:
    for of_device in stats.dev_stats:
        if of_device.device == device:
            yield from of_device.node_stats


def _interval(event: NodeExecStats) -> Interval:
    begin = event.all_start_micros / 1e6
    return begin, begin + event.all_end_rel_micros / 1e6


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    """In order, those that touch as one."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
