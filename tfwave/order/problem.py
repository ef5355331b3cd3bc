"""The orders into one task as a problem in integers: what `search` and `exact` work on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.cost.table import Costs
from tfwave.cost.ticks import Ticks, ticks_of
from tfwave.graph.reach import reached_without
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.deps import Dependencies, find_dependencies
from tfwave.order.floors import Load
from tfwave.order.order import Order, ranked_in_turn


@dataclass(frozen=True)
class Problem:
    """Transfers 0..n-1 in the order of the tie rule, and what each lets the task compute.

    Times are in ticks. An order is a permutation of the numbers in which blockers come first.
    """

    found: Dependencies
    ticks: Ticks
    channels: tuple[int, ...]
    """Per transfer: the number of its channel, in the order of the channels' names."""
    work: Mapping[int, int]
    """Each set of transfers -> the ticks of all ops that wait for exactly it; of the empty set too."""
    free: bool
    """Whether every transfer can start at once: none waits for an op of the task or for a transfer."""

    @property
    def durations(self) -> Sequence[int]:
        """Ticks of each transfer."""
        return self.ticks.transfers

    @cached_property
    def load(self) -> Load:
        """The compute resource and the channels, with their ops and transfers."""
        channels: list[dict[int, int]] = [{} for _ in range(max(self.channels, default=-1) + 1)]
        for transfer, channel, ticks in zip(self.found.transfers, self.channels, self.durations, strict=True):
            channels[channel][transfer.recv] = ticks
        return Load([dict(zip(self.found.ops, self.ticks.ops, strict=True))], channels)

    def order(self, sequence: Sequence[int]) -> Order:
        """The transfers of a permutation, by rank."""
        return ranked_in_turn([self.found.transfers[i] for i in sequence])


def problem_of(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Problem:
    """Find the dependencies and costs of the transfers into one task.

    Raises:
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle, or transfers into more than one task.
    """
    found = find_dependencies(view, transfers)
    ticks = ticks_of(view, found.ops, found.transfers, costs)
    work = found.work(ticks.ops)
    at_once = sum(ticks.ops) - sum(work.values())
    number = {channel: i for i, channel in enumerate(sorted({t.channel for t in found.transfers}))}
    return Problem(
        found,
        ticks,
        tuple(number[t.channel] for t in found.transfers),
        {0: at_once} | work,
        not _some_wait(view, found),
    )


def _some_wait(view: GraphView, found: Dependencies) -> bool:
    """Whether an op of the task or another transfer is upstream of any transfer."""
    timed = {*found.ops, *(t.recv for t in found.transfers)}
    before = [fanin for t in found.transfers for fanin in view.forward_fanins(t.recv)]
    return reached_without(view.forward_fanins, before, timed.__contains__) is None
