"""How many training steps one call should make, so that they overlap, and into which blocks to cut tensors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tfwave.cost.network import EXPOSED, Network
from tfwave.graph.names import home_of
from tfwave.graph.transfer import Transfer, ops_at
from tfwave.graph.view import GraphView
from tfwave.planner.workers import busiest_server

CHOICES = (1, 2, 4, 8, 16, 32)
WORTH_WHILE = 0.02
"""Twice the steps a call are taken only if they save more than this share of a step's time."""
WORTH_CUTTING = 0.005
"""Smaller blocks are taken only if they save more than this share of a step's time."""
MOST_NODES = 100_000
"""The graph of a call has no more nodes: each worker and server cuts, optimizes and keeps it."""
MOST_BYTES = 4 << 30
"""A worker would hold no more bytes, if all steps of a call had pulled all they need."""
BLOCKS = (0, 8 << 20, 4 << 20, 2 << 20, 1 << 20)
"""The sizes of blocks that are compared, in bytes; with 0 tensors stay whole."""
_BLOCK_NODES = 6
"""A block has a read, an update, and a send and a receive in each direction."""


class Sent(NamedTuple):
    """A transfer: its bytes, and the seconds that it takes alone."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class StepLoad:
    """One training step of one worker.

    Attributes:
        compute_seconds: of all its ops there, those of several devices one after the other.
        pulls: all transfers to it.
        pushes: all transfers from it.
        nodes: of the step's graph.
        served: seconds in which the busiest server sends, and receives, for a step of all workers of the graph.
        workers: how many run such a step, each by itself.
        machine_seconds: what the cores of its machine need for a step, were none ever idle.
    """

    compute_seconds: float
    pulls: Sequence[Sent]
    pushes: Sequence[Sent]
    nodes: int
    served: tuple[float, float] = (0.0, 0.0)
    workers: int = 1
    machine_seconds: float = 0.0

    def seconds(self, steps: int, block_bytes: int = 0) -> float:
        """Of a step, as forecast, if so many make a call, and tensors are cut into blocks of that size.

        Sending takes the bound of a flow shop: a call begins with the pulls of its first step and ends with the
        pushes of its last. Between them the busier direction has the others to do, and each step waits while a
        block is pushed whole before it is pulled again. Blocks take as long as the tensor they are of: one is on
        the wire while the next is made ready. That holds for the card of the worker, and for that of a server,
        which workers by themselves can keep busy in both directions, but no more than that. Computing goes on
        meanwhile, all but `EXPOSED`.
        """
        pull, push = (math.fsum(s.seconds for s in sent) for sent in (self.pulls, self.pushes))
        largest = max((_block_seconds(s, block_bytes) for s in (*self.pulls, *self.pushes)), default=0.0)
        wires = (
            (pull + push + (steps - 1) * (max(pull, push) + largest)) / steps
            for pull, push in ((pull, push), self.served)
        )
        wire = max(*wires, self.workers * max(self.served))
        shorter, longer = sorted((max(self.compute_seconds, self.machine_seconds), wire))
        return longer + EXPOSED * shorter

    def fits(self, steps: int, block_bytes: int) -> bool:
        """Whether a call's graph and what it pulls stay within `MOST_NODES` and `MOST_BYTES`."""
        blocks = sum(_blocks(pull, block_bytes) - 1 for pull in self.pulls)
        nodes = self.nodes + _BLOCK_NODES * blocks
        return steps * nodes <= MOST_NODES and steps * sum(pull.bytes for pull in self.pulls) <= MOST_BYTES


@dataclass(frozen=True)
class Overlap:
    """Steps a call, and the bytes of the largest block (0: tensors stay whole).

    `seconds` is what a step should take so, `single_seconds` with one step a call.
    """

    steps: int
    block_bytes: int
    seconds: float
    single_seconds: float

    @property
    def passes(self) -> str:
        """The rewrite that makes them of one step's graph, in the passes' text form; empty for one step."""
        if self.steps == 1:
            return ""
        split = [f"split_variables{{max_bytes={self.block_bytes}}}"] if self.block_bytes else []
        return ",".join([*split, f"cross_step{{steps={self.steps}}}"])


def step_load(
    view: GraphView, home: str, transfers: Sequence[Transfer], network: Network, workers: int = 1
) -> StepLoad:
    """The load of a worker in a graph that makes one step.

    Args:
        view: the graph, all partitions joined.
        home: a task that pulls, with all its devices; see `home_of`.
        transfers: all of the graph.
        network: what ops take, and for how long transfers keep cards busy.
        workers: how many run the graph, each by itself.

    Raises:
        MissingCost: a cost is not known; names it.
    """
    return StepLoad(
        math.fsum(network.given.op_seconds(node) for node in ops_at(view, home)),
        tuple(_sent(t, network) for t in transfers if home_of(t.channel.destination) == home),
        tuple(_sent(t, network) for t in transfers if home_of(t.channel.source) == home),
        len(view),
        busiest_server(view, transfers, network),
        workers,
        network.machine_seconds,
    )


def _sent(transfer: Transfer, network: Network) -> Sent:
    return Sent(transfer.bytes, network.card_seconds(transfer))


def choose_overlap(step: StepLoad) -> Overlap:
    """Steps as `choose_steps` says; blocks as large as come within `WORTH_CUTTING` of the best of `BLOCKS`."""
    best = min(BLOCKS, key=lambda size: step.seconds(CHOICES[-1], size))
    steps = choose_steps(step, best)
    block = choose_blocks(step, steps) if steps > 1 else 0
    return Overlap(steps, block, step.seconds(steps, block), step.seconds(1))


def choose_steps(step: StepLoad, block_bytes: int = 0) -> int:
    """The fewest steps a call that twice as many would not make faster by more than `WORTH_WHILE`.

    Never more than the graph's size and the worker's memory allow.
    """
    allowed = [k for k in CHOICES if k == 1 or step.fits(k, block_bytes)]
    for steps, more in pairwise(allowed):
        if step.seconds(steps, block_bytes) <= (1 + WORTH_WHILE) * step.seconds(more, block_bytes):
            return steps
    return allowed[-1]


def choose_blocks(step: StepLoad, steps: int) -> int:
    """The largest size of `BLOCKS` that comes within `WORTH_CUTTING` of the best, for so many steps a call."""
    best = min(step.seconds(steps, size) for size in BLOCKS)
    return next(size for size in BLOCKS if step.seconds(steps, size) <= (1 + WORTH_CUTTING) * best)


def _blocks(sent: Sent, block_bytes: int) -> int:
    return max(1, -(-sent.bytes // block_bytes)) if block_bytes else 1


def _block_seconds(sent: Sent, block_bytes: int) -> float:
    return sent.seconds if _blocks(sent, block_bytes) == 1 else sent.seconds * block_bytes / sent.bytes
