"""Simulate a changed job: unordered, and under the orders of a policy or a plan."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tfwave.cost.model import CostSource
from tfwave.errors import PlanError
from tfwave.graph.names import Channel
from tfwave.order.bounds import Floor
from tfwave.plan.discipline import Discipline
from tfwave.plan.match import check_match
from tfwave.plan.plan import Plan
from tfwave.planner import Network, PlanRequest, make_plan
from tfwave.sim.job import CompiledJob, compile_job
from tfwave.sim.simulate import timeline_of
from tfwave.sim.stock import stock_disciplines, stock_ranks
from tfwave.sim.timeline import Timeline
from tfwave.whatif.change import Change
from tfwave.whatif.costs import InheritedCosts, Loads, bound_of, loads_of
from tfwave.whatif.layout import Layout
from tfwave.whatif.servers import deal, servers_of
from tfwave.whatif.subject import Subject
from tfwave.whatif.workers import replicate, workers_of


@dataclass(frozen=True)
class Prediction:
    """A step of a changed job. `unordered` are the seconds of steps whose transfers go out as in the captured ones.

    Attributes:
        free: one of the unordered steps.
        bound: what no order can beat.
        source: where the costs come from, and how many are estimates.
    """

    change: Change
    policy: str
    ordered: Timeline
    free: Timeline
    unordered: tuple[float, ...]
    loads: Loads
    bound: Floor
    source: CostSource

    @property
    def ordered_seconds(self) -> float:
        """Of the step under the orders."""
        return self.ordered.makespan_seconds

    @cached_property
    def unordered_seconds(self) -> float:
        """The mean."""
        return statistics.fmean(self.unordered)

    @property
    def spread(self) -> float:
        """How far unordered steps are from their mean at most, about: half their range, as a share of it."""
        return (max(self.unordered) - min(self.unordered)) / 2 / (self.unordered_seconds or 1.0)

    @property
    def gain(self) -> float:
        """The share of the unordered step that the orders save."""
        return 1 - self.ordered_seconds / self.unordered_seconds if self.unordered_seconds else 0.0

    @property
    def card_share(self) -> float:
        """Of the ordered step: that in which the busiest network card has to work in one direction."""
        return self._share(self.loads.cards.values())

    @property
    def compute_share(self) -> float:
        """Of the ordered step: that in which the busiest device has to compute."""
        return self._share(self.loads.devices.values())

    def _share(self, loads: Iterable[float]) -> float:
        return max(loads, default=0.0) / self.ordered_seconds if self.ordered_seconds else 0.0


def predict(subject: Subject, change: Change, orders: Plan | PlanRequest) -> Prediction:
    """A step of a job after a change, under a plan made for the captured graph, or planned anew for this change.

    The orders of one worker are those of its copies.

    Raises:
        PlanError: the plan is for another graph, or for other servers.
        GraphError: nothing to order, no variable to deal, or no worker to copy.
        MissingCost: no transfer has a known cost; names one.
    """
    captured = Layout.captured(subject.view, subject.transfers)
    network = subject.network_after(change)
    costs = InheritedCosts(network.costs, subject, captured, change.batch_scale)
    dealt = _dealt(captured, subject.job, change)
    plan = _plan(captured, dealt, replace(costs, layout=dealt), orders)
    job = _replicated(dealt, subject.job, change.workers)
    return _simulated(change, plan.policy, _Orders.of(plan, dealt), replace(costs, layout=job), network)


def _dealt(captured: Layout, job: str, change: Change) -> Layout:
    there = len(servers_of(captured, job))
    if change.balanced:
        return deal(captured, job, change.servers or there, balanced=True)
    return captured if change.servers in {None, there} else deal(captured, job, change.servers or there)


def _replicated(dealt: Layout, job: str, workers: int | None) -> Layout:
    if workers is None or workers == len(workers_of(dealt, job)):
        return dealt
    return replicate(dealt, job, workers)


def _plan(captured: Layout, dealt: Layout, costs: InheritedCosts, orders: Plan | PlanRequest) -> Plan:
    if isinstance(orders, PlanRequest):
        return make_plan(dealt.view, dealt.transfers.data, Network(costs), orders)
    check_match(orders, captured.view, captured.transfers)
    if dealt is not captured:
        raise PlanError("--plan orders what the servers hold now: leave it out, or what deals them anew")
    return orders


@dataclass(frozen=True)
class _Orders:
    """By the captured `_Recv` of a transfer: its rank, and the discipline of its channel."""

    ranks: Mapping[int, int]
    disciplines: Mapping[int, Discipline]

    @classmethod
    def of(cls, plan: Plan, dealt: Layout) -> "_Orders":
        recvs = {t.key: dealt.origins[t.recv] for t in dealt.transfers.data}
        planned = [(recvs[t.key], t.rank, order.discipline) for order in plan.orders for t in order.transfers]
        return cls(
            {recv: rank for recv, rank, _ in planned},
            {recv: discipline for recv, _, discipline in planned},
        )

    def rank_all(self, job: Layout) -> list[int]:
        """The rank of each transfer; copies have that of what they are copies of."""
        return [self.ranks.get(job.origins[t.recv], 0) for t in job.transfers.data]

    def by_channel(self, job: Layout) -> dict[Channel, Discipline]:
        """The discipline of each channel that has an order."""
        found = ((t.channel, self.disciplines.get(job.origins[t.recv])) for t in job.transfers.data)
        return {channel: discipline for channel, discipline in found if discipline is not None}


def _simulated(
    change: Change, policy: str, orders: _Orders, costs: InheritedCosts, network: Network
) -> Prediction:
    job, cluster = costs.layout, network.cluster
    timed = replace(costs, latency_seconds=change.latency_seconds)
    ordered = compile_job(job.view, job.transfers, timed, cluster, orders.by_channel(job))
    free = compile_job(job.view, job.transfers, timed, cluster, stock_disciplines(job.transfers.data))
    shuffled = stock_ranks([costs.captured(t) for t in job.transfers.data], network.seen)
    loads = loads_of(job, costs)
    return Prediction(
        change,
        policy,
        _timeline(ordered, orders.rank_all(job)),
        _timeline(free, shuffled[0]),
        tuple(free.makespan(ranks) for ranks in shuffled),
        loads,
        bound_of(job, costs, loads),
        costs.source,
    )


def _timeline(job: CompiledJob, ranks: Sequence[int]) -> Timeline:
    return timeline_of(job, job.run(ranks))
