"""How late the next wave must begin for two waves to fit into memory."""

from itertools import accumulate

from tfwave.errors import PlanError
from tfwave.memory.step import StepMemory
from tfwave.memory.waves import room
from tfwave.waves.overlap import two_wave_peaks
from tfwave.waves.rewrite.gate import backward_order
from tfwave.waves.rewrite.training import Training


def fitting_offset(training: Training, memory: StepMemory, limit_bytes: int) -> float:
    """The least offset of `tick_tock` with which two waves fit under a limit by the model, its margin included.

    `memory` is a trace of one step of the same graph, alone: the gate opens when the last of the nodes before it
    has ended there; a node that the trace does not have (pruned, or folded by TensorFlow) does not count.

    Raises:
        PlanError: the trace has none of the nodes that end the forward pass, or two waves fit at no offset.
    """
    opens = _openings(training, memory)
    usable = room(limit_bytes, 2)
    times = sorted(set(opens))
    fits = {t: peak <= usable for t, peak in zip(times, two_wave_peaks(memory, times), strict=True)}
    count = next((count for count, opened in enumerate(opens) if fits[opened]), None)
    if count is None:
        least = min(two_wave_peaks(memory, times))
        raise PlanError(
            f"two waves hold {least} bytes at the least by the model, and of the limit of {limit_bytes} bytes, "
            f"{usable} are left by the margin: take a smaller batch, or raise the limit"
        )
    return count / max(1, len(opens) - 1)


def _openings(training: Training, memory: StepMemory) -> list[float]:
    """When the gate opens, in seconds, behind the forward pass and each number of nodes of the backward pass."""
    names = training.step.view.names
    ends: dict[str, float] = {}
    for op, end in zip(memory.profile.ops, memory.ends, strict=True):
        ends[op.node] = max(end, ends.get(op.node, end))
    found = [ends[names[node]] for node in training.end if names[node] in ends]
    if not found:
        raise PlanError(
            f"the trace does not have '{names[training.end[0]]}', where the forward pass ends: trace the graph "
            "that is rewritten, or name another end with the option boundary"
        )
    backward = [ends.get(names[node], 0.0) for node in backward_order(training)]
    return list(accumulate(backward, max, initial=max(found)))
