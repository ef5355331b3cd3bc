"""What a batch takes of each partition of a model, from the traced step of one wave."""

from collections.abc import Mapping, Sequence

from tfwave.errors import PlanError
from tfwave.graph.names import parse_input
from tfwave.memory.step import StepMemory
from tfwave.rewrite.waves.cells import passes_of
from tfwave.rewrite.waves.cycles import Direction
from tfwave.rewrite.waves.partitions import Partitions
from tfwave.rewrite.waves.training import Training
from tfwave.waves.gradients import gradient_bytes
from tfwave.waves.iteration import Partition

_Passes = Mapping[int, tuple[Direction, int]]


def partition_profiles(
    training: Training, partitions: Partitions, memories: Sequence[StepMemory]
) -> tuple[Partition, ...]:
    """The partitions of a model parallel step, as `tfwave.waves.count` takes them.

    `memories` has the trace of each partition's device, of one step with one batch: a pass takes the time from the
    begin of its first node there to the end of its last. Nodes that the trace does not have (pruned, or folded by
    TensorFlow) do not count. What the device holds when the forward pass has left it is kept for the backward pass.

    Raises:
        PlanError: a trace has no node of a pass.
    """
    passes = passes_of(training, partitions)
    sent = [_sent(training, passes, number) for number in range(len(partitions))]
    found: list[Partition] = []
    for number, memory in enumerate(memories):
        (begin, left), (back, end) = [_span(training, passes, (way, number), memory) for way in Direction]
        resident, peak = memory.profile.resident, memory.profile.peak
        kept = max(0, [held for at, held in memory.curve if at <= left][-1] - resident)
        own = [gradient for gradient in training.gradients if partitions.at.get(gradient.node) == number]
        sizes = (_bytes(memory, sent[number]), gradient_bytes(training, own, memory))
        found.append(
            Partition(left - begin, end - back, resident, kept, max(0, peak - resident - kept), *sizes)
        )
    return tuple(found)


def _span(
    training: Training, passes: _Passes, wanted: tuple[Direction, int], memory: StepMemory
) -> tuple[float, float]:
    """When a pass begins and ends on its device, in seconds."""
    names = {training.step.view.names[node] for node, one in passes.items() if one == wanted}
    traced = zip(memory.profile.ops, memory.begins, memory.ends, strict=True)
    times = [(begin, end) for op, begin, end in traced if op.node in names]
    if not times:
        raise PlanError(
            f"the trace of '{memory.profile.device}' has no node of its {wanted[0].name.lower()} pass: trace the "
            "graph that is rewritten"
        )
    return min(begin for begin, _ in times), max(end for _, end in times)


def _sent(training: Training, passes: _Passes, number: int) -> frozenset[str]:
    """What the forward pass of a partition gives to that of the next, as ``node:port``."""
    view = training.step.view
    here = {view.names[node] for node, one in passes.items() if one == (Direction.FORWARD, number)}
    following = [node for node, one in passes.items() if one == (Direction.FORWARD, number + 1)]
    taken = [parse_input(text) for node in following for text in view.nodes[node].input if text[0] != "^"]
    return frozenset(f"{tensor.node}:{tensor.port}" for tensor in taken if tensor.node in here)


def _bytes(memory: StepMemory, names: frozenset[str]) -> int:
    return sum(tensor.bytes for tensor in memory.tensors if not names.isdisjoint(tensor.names))
