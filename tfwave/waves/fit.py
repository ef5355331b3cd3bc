"""How late the next wave must begin for two waves to fit into memory."""

from collections.abc import Sequence
from itertools import accumulate

from tfwave.errors import PlanError
from tfwave.memory.slots import room
from tfwave.memory.step import StepMemory
from tfwave.rewrite.waves.gate import backward_order
from tfwave.rewrite.waves.training import Training
from tfwave.sizes import in_words
from tfwave.waves.gradients import gradient_bytes
from tfwave.waves.needs import PoolNeeds
from tfwave.waves.overlap import two_wave_peaks


def fitting_offset(training: Training, memory: StepMemory, limit_bytes: int, others: int = 0) -> float:
    """The least offset of `tick_tock` with which two waves fit under a limit by the model, its margins included.

    Once the gate is open, either wave may hold the other up: any pace is reckoned with. The margins are that of
    jobs side by side, and room for the largest piece (`tfwave.waves.needs`).

    `memory` is a trace of one step of the same graph, alone: the gate opens when the last of the nodes before it
    has ended there; a node that the trace does not have (pruned, or folded by TensorFlow) does not count. `others`
    are the bytes that the pool holds besides (`CapturedMemory.others`).

    Raises:
        PlanError: the trace has none of the nodes that end the forward pass, or two waves fit at no offset.
    """
    opens = _openings(training, memory)
    needs = pool_needs(training, memory, others)
    usable = room(limit_bytes, 2) - needs.piece
    starts = sorted(set(opens))
    peaks = dict(zip(starts, needs.peaks(starts), strict=True))
    count = next((count for count, opened in enumerate(opens) if peaks[opened] <= usable), None)
    if count is None:
        raise PlanError(
            f"two waves hold {in_words(min(peaks.values()))} at the least by the model, and of the limit of "
            f"{in_words(limit_bytes)}, {in_words(usable)} are left by the margins: take a smaller batch, or "
            "raise the limit"
        )
    return count / max(1, len(opens) - 1)


def wave_peaks(
    training: Training, memory: StepMemory, offsets: Sequence[float], others: int = 0
) -> tuple[int, ...]:
    """The most bytes that the pool holds by the model with two waves of `tick_tock`, at each of some offsets.

    Neither wave slows the other, and the margins are not in it. The arguments are those of `fitting_offset`.

    Raises:
        PlanError: the trace has none of the nodes that end the forward pass.
    """
    besides = pool_needs(training, memory, others).fixed(2) - 2 * memory.profile.resident
    starts = wave_starts(training, memory, offsets)
    return tuple([peak + besides for peak in two_wave_peaks(memory, starts)])


def least_room(training: Training, memory: StepMemory, offset: float, others: int = 0) -> int:
    """The bytes that two waves at an offset must have room for (`tfwave.memory.slots.room`) by `fitting_offset`.

    Raises:
        PlanError: the trace has none of the nodes that end the forward pass.
    """
    needs = pool_needs(training, memory, others)
    return needs.peaks(wave_starts(training, memory, [offset]))[0] + needs.piece


def wave_starts(training: Training, memory: StepMemory, offsets: Sequence[float]) -> tuple[float, ...]:
    """When the second wave starts by the model at each of some offsets, in seconds after the first.

    Raises:
        PlanError: the trace has none of the nodes that end the forward pass.
    """
    opens = _openings(training, memory)
    return tuple([opens[round(offset * (len(opens) - 1))] for offset in offsets])


def pool_needs(training: Training, memory: StepMemory, others: int = 0) -> PoolNeeds:
    """What the waves of a step need of a pool; the arguments are those of `fitting_offset`."""
    return PoolNeeds(memory, others, gradient_bytes(training, training.gradients, memory))


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
