"""What a step holds at another batch, and how large a one would fit: from a capture at one batch, or at two."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tfwave.errors import BundleError
from tfwave.offload.choice import Choice
from tfwave.offload.layout import Bytes, Layout, Method
from tfwave.offload.orders import tried_orders
from tfwave.offload.step import TrainingStep


@dataclass(frozen=True)
class LargestBatch:
    """In times of the captured batch: as the step is, and with all away that can be; infinite if nothing grows."""

    plain: float
    fitted: float


def largest_batch(
    step: TrainingStep, limit: int, other: TrainingStep | None = None, held_share: float = 1.0
) -> LargestBatch:
    """The batches whose steps hold no more than the limit, all bytes growing in a straight line.

    With all away that can be, they hold no more than `held_share` of it, as a pool loses the rest between what it
    holds. A step as it is fits no larger batch than that.

    From one capture: tensors grow with the batch, but gradients, which updates read, and scratch do not. From two:
    each as it differs between them.

    Raises:
        BundleError: the captures are not of one step at two batches.
    """
    grown, times = (_grown(step, 2.0, {}), 2.0) if other is None else _as_in(step, other)
    orders = tried_orders(step)
    plain = [
        _times(_held(step, o, Method.KEEP), _held(grown, o, Method.KEEP), limit, times) for o in orders[:1]
    ]
    held_most = limit * held_share
    away = [
        _times(_held(step, o, Method.OFFLOAD), _held(grown, o, Method.OFFLOAD), held_most, times)
        for o in orders
    ]
    return LargestBatch(min(max(plain), max(away)), max(away))


def at_rows(captures: Mapping[int, TrainingStep], rows: int) -> TrainingStep:
    """At so many rows, estimated from the step at other numbers of rows, of which the fewest and the most count.

    A buffer grows in a straight line, as it does between these two. One that they do not share, or all, if there is
    but one capture, grows with the rows, unless it is a gradient, which updates read. An op's seconds grow with the
    rows if any of its buffers does. Scratch does not grow.
    """
    fewest, most = min(captures), max(captures)
    step, times = captures[most], rows / most
    if fewest == most:
        return _grown(step, times, {})
    reach = (rows - most) / (most - fewest)
    before = _sizes(captures[fewest])
    lines = {
        number: b.bytes + max(0.0, (b.bytes - before[b.names[0]]) * reach)
        for number, b in enumerate(step.buffers)
        if b.names[0] in before
    }
    return _grown(step, times, lines)


def _grown(step: TrainingStep, times: float, known: Mapping[int, float]) -> TrainingStep:
    """At so many times its batch, where some buffers are known to have so many bytes then."""
    fixed = {number for op, used in zip(step.ops, step.used, strict=True) if op.changes for number in used}
    buffers = [
        replace(b, bytes=round(known.get(number, b.bytes if number in fixed else b.bytes * times)))
        for number, b in enumerate(step.buffers)
    ]
    grows = [now.bytes != b.bytes for b, now in zip(step.buffers, buffers, strict=True)]
    ops = tuple(
        replace(op, seconds=op.seconds * times) if any(grows[number] for number in used) else op
        for op, used in zip(step.ops, step.used, strict=True)
    )
    return replace(step, ops=ops, buffers=tuple(buffers))


def _sizes(step: TrainingStep) -> dict[str, int]:
    return {name: buffer.bytes for buffer in step.buffers for name in buffer.names}


def _as_in(step: TrainingStep, other: TrainingStep) -> tuple[TrainingStep, float]:
    """The step with the bytes of another, and the ratio of their batches: that by which most bytes differ."""
    _check_same(step, other)
    sizes = _sizes(other)
    scratch = {op.node: op.scratch for op in other.ops}
    buffers = tuple(replace(b, bytes=sizes.get(b.names[0], b.bytes)) for b in step.buffers)
    ops = tuple(replace(op, scratch=scratch.get(op.node, op.scratch)) for op in step.ops)
    held: Counter[float] = Counter()
    held_there: Counter[float] = Counter()
    for mine, theirs in zip(step.buffers, buffers, strict=True):
        if mine.bytes != theirs.bytes:
            ratio = round(theirs.bytes / mine.bytes, 2)
            held[ratio] += mine.bytes
            held_there[ratio] += theirs.bytes
    if not held:
        raise BundleError("the two captures hold the same bytes: capture the step at another batch")
    most = max(held, key=lambda ratio: (held[ratio], ratio))
    if most == 1:
        raise BundleError("the batches of the two captures hardly differ: capture the step at another batch")
    return replace(step, ops=ops, buffers=buffers), held_there[most] / held[most]


def _check_same(step: TrainingStep, other: TrainingStep) -> None:
    """TensorFlow may optimize a step otherwise at another batch, but most of its ops stay."""
    mine, theirs = ({op.node for op in one.ops} for one in (step, other))
    shared, most = len(mine & theirs), max(len(mine), len(theirs))
    if 2 * shared < most:
        raise BundleError(
            f"the captures at two batches are of different steps, which share {shared} of {most} ops: capture the "
            "same step at another batch"
        )


def _held(step: TrainingStep, order: tuple[int, ...], method: Method) -> Bytes:
    return Choice.all_of(Layout.of(step, order, 0), method).held


def _times(once: Bytes, grown: Bytes, limit: float, times: float) -> float:
    """How many times the batch keeps to the limit at each op."""
    growth = (grown - once) / (times - 1)
    sloped = growth > 0
    if np.any(once[~sloped] > limit):
        return 0.0
    return max(0.0, float(np.min(1 + (limit - once[sloped]) / growth[sloped], initial=np.inf)))
