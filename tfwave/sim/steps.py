"""Steps of a job, one under orders and some without any: what they take, and what the orders save."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.cost.cluster import Cluster
from tfwave.cost.table import Costs
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfers
from tfwave.plan.discipline import Discipline
from tfwave.sim.engine import Outcome
from tfwave.sim.job import CompiledJob, compile_job
from tfwave.sim.simulate import timeline_of
from tfwave.sim.stock import stock_disciplines
from tfwave.sim.timeline import Timeline


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a step of all devices together: under orders, and of some steps without any."""

    ordered_seconds: float
    unordered: tuple[float, ...]

    @cached_property
    def unordered_seconds(self) -> float:
        """The mean."""
        return statistics.fmean(self.unordered)

    @property
    def gain(self) -> float:
        """The share of the mean unordered step that the orders save."""
        return self.gain_over(self.unordered_seconds)

    def gain_over(self, unordered_seconds: float) -> float:
        """The share of such an unordered step that the orders save."""
        return 1 - self.ordered_seconds / unordered_seconds if unordered_seconds else 0.0


@dataclass(frozen=True)
class Sending:
    """How a step sends: the discipline of each channel that has one, and the rank of each transfer."""

    disciplines: Mapping[Channel, Discipline | None]
    ranks: Sequence[int]


@dataclass(frozen=True)
class SimulatedStep:
    """A step that was simulated, under these ranks of its transfers."""

    job: CompiledJob
    ranks: Sequence[int]
    outcome: Outcome

    @property
    def seconds(self) -> float:
        """Until all is done."""
        return self.job.ticks.seconds(self.outcome.finish)

    @property
    def timeline(self) -> Timeline:
        """What took time in it."""
        return timeline_of(self.job, self.outcome)


@dataclass(frozen=True)
class SimulatedSteps:
    """One step under orders, and the seconds of some without any, of which `free` is the first."""

    ordered: SimulatedStep
    free: SimulatedStep
    unordered: tuple[float, ...]


def simulate_steps(
    transfers: Transfers, costs: Costs, cluster: Cluster, ordered: Sending, stock: Sequence[Sequence[int]]
) -> SimulatedSteps:
    """Simulate a step as it is ordered, and as stock TensorFlow sends, under each of some ranks.

    Raises:
        MissingCost: a cost is not known; names it.
        PlanError: an order waits for itself.
    """
    anyhow = stock_disciplines(transfers.data)
    first, *others = stock
    job = compile_job(costs.view, transfers, costs, cluster, ordered.disciplines)
    unordered = compile_job(costs.view, transfers, costs, cluster, anyhow)
    free = SimulatedStep(unordered, first, unordered.run(first))
    seconds = (free.seconds, *(unordered.makespan(ranks) for ranks in others))
    return SimulatedSteps(SimulatedStep(job, ordered.ranks, job.run(ordered.ranks)), free, seconds)
