"""How many training steps one call should make, so that they overlap, and into which blocks to cut tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

CHOICES = (1, 2, 4, 8, 16, 32)
WORTH_WHILE = 0.02
"""Share of a step's time that twice the steps, or smaller blocks, must save."""
MOST_NODES = 200_000
"""Of a call's graph: each worker and server cuts, optimizes and keeps it."""
MOST_BYTES = 4 << 30
"""That may lie on a worker, if all steps of a call had pulled all they need."""
BLOCKS = (0, 8 << 20, 4 << 20, 2 << 20, 1 << 20)
"""Sizes in bytes; 0: tensors stay whole."""


@dataclass(frozen=True)
class StepFigures:
    """One training step of one worker.

    Attributes:
        compute_seconds: of all its ops there.
        pulls: bytes of each transfer to it.
        pushes: bytes of each transfer from it.
        transfer_seconds: that each transfer takes beside its bytes.
        bytes_per_second: of the link, in each direction.
        nodes: of its graph.
    """

    compute_seconds: float
    pulls: Sequence[int]
    pushes: Sequence[int]
    transfer_seconds: float
    bytes_per_second: float
    nodes: int

    def seconds(self, steps: int, block_bytes: int = 0) -> float:
        """Of a step, at least, if so many make a call, and tensors are cut into blocks of that size.

        The bound of a flow shop: a call begins with the pulls of its first step and ends with the pushes of its
        last. Between them the busier direction has the others to do, and each step waits while a block is pushed
        whole before it is pulled again.
        """
        pull, push = (self._direction(sizes, block_bytes) for sizes in (self.pulls, self.pushes))
        largest = max((*self.pulls, *self.pushes), default=0)
        cut = min(largest, block_bytes) if block_bytes else largest
        between = max(pull, push) + self.transfer_seconds + cut / self.bytes_per_second
        wire = pull + push + (steps - 1) * between
        return max(self.compute_seconds, wire / steps)

    def nodes_of(self, steps: int, block_bytes: int) -> int:
        """Of a call's graph, about: a block has an update, a read, a send and a receive in each direction."""
        blocks = sum(_blocks(size, block_bytes) for size in self.pulls) - len(self.pulls)
        return steps * (self.nodes + 6 * blocks)

    def _direction(self, sizes: Sequence[int], block_bytes: int) -> float:
        transfers = sum(_blocks(size, block_bytes) for size in sizes)
        return transfers * self.transfer_seconds + sum(sizes) / self.bytes_per_second


@dataclass(frozen=True)
class Overlap:
    """Steps a call, and the bytes of the largest block (0: tensors stay whole); `seconds` a step at least takes."""

    steps: int
    block_bytes: int
    seconds: float

    @property
    def passes(self) -> str:
        """The rewrite that makes them of one step's graph, in the passes' text form; empty for one step."""
        if self.steps == 1:
            return ""
        split = [f"split_variables{{max_bytes={self.block_bytes}}}"] if self.block_bytes else []
        return ",".join([*split, f"cross_step{{steps={self.steps}}}"])


def choose_overlap(step: StepFigures) -> Overlap:
    """The fewest steps a call that twice as many would not make faster by more than `WORTH_WHILE`.

    Blocks are as large as come within `WORTH_WHILE` of the best of `BLOCKS`. Never more steps than `MOST_NODES` and
    `MOST_BYTES` allow.
    """
    steps = choose_steps(step, min(BLOCKS, key=lambda size: step.seconds(CHOICES[-1], size)))
    block = choose_blocks(step, steps)
    return Overlap(steps, block, step.seconds(steps, block))


def choose_steps(step: StepFigures, block_bytes: int = 0) -> int:
    """The fewest steps a call that twice as many would not make faster by more than `WORTH_WHILE`."""
    pulled = sum(step.pulls)
    allowed = [
        k
        for k in CHOICES
        if k == 1 or (step.nodes_of(k, block_bytes) <= MOST_NODES and k * pulled <= MOST_BYTES)
    ]
    for steps, more in pairwise(allowed):
        if step.seconds(steps, block_bytes) <= (1 + WORTH_WHILE) * step.seconds(more, block_bytes):
            return steps
    return allowed[-1]


def choose_blocks(step: StepFigures, steps: int) -> int:
    """The largest size of `BLOCKS` that comes within `WORTH_WHILE` of the best, for so many steps a call."""
    best = min(step.seconds(steps, size) for size in BLOCKS)
    return next(size for size in BLOCKS if step.seconds(steps, size) <= (1 + WORTH_WHILE) * best)


def _blocks(size: int, block_bytes: int) -> int:
    return max(1, -(-size // block_bytes)) if block_bytes else 1
