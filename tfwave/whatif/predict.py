"""Simulate a changed job: unordered, and under the orders of a policy or a plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.errors import PlanError
from tfwave.graph.transfer import Transfer
from tfwave.order.bounds import Floor
from tfwave.plan.discipline import Discipline
from tfwave.plan.given import order_of
from tfwave.plan.match import check_match
from tfwave.plan.plan import ChannelOrder, Plan
from tfwave.planner.plan import PlanRequest, choose_orders
from tfwave.sim.steps import Sending, StepTimes, simulate_steps
from tfwave.sim.stock import stock_ranks
from tfwave.sim.timeline import Timeline
from tfwave.whatif.change import Change
from tfwave.whatif.costs import Loads, bound_of, inherited, later, loads_of
from tfwave.whatif.layout import Layout
from tfwave.whatif.servers import deal, servers_of
from tfwave.whatif.subject import Subject
from tfwave.whatif.workers import replicate, workers_of


@dataclass(frozen=True)
class Prediction(StepTimes):
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
    loads: Loads
    bound: Floor
    source: CostSource

    @property
    def spread(self) -> float:
        """How far unordered steps are from their mean at most, about: half their range, as a share of it."""
        return (max(self.unordered) - min(self.unordered)) / 2 / (self.unordered_seconds or 1.0)

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
        PlanError: the plan is for another graph, or for other servers, or orders nothing.
        GraphError: nothing to order, no variable to deal, or no worker to copy.
        MissingCost: no transfer has a known cost; names one.
    """
    captured = Layout.captured(subject.view, subject.transfers)
    network = subject.network_after(change)
    dealt = _dealt(captured, subject.job, change)
    costs = inherited(network.costs, dealt, subject.job, change.batch_scale)
    policy, chosen = _chosen(captured, dealt, costs, orders)
    job = _replicated(dealt, subject.job, change.workers)
    own = inherited(network.costs, job, subject.job, change.batch_scale)
    steps = simulate_steps(
        job.transfers,
        later(own, change.latency_seconds),
        network.cluster,
        _Orders.of(chosen, dealt).sending(job),
        stock_ranks(_captured(job, subject), network.seen),
    )
    loads = loads_of(job, own)
    return Prediction(
        steps.ordered.seconds,
        steps.unordered,
        change,
        policy,
        steps.ordered.timeline,
        steps.free.timeline,
        loads,
        bound_of(job, own, loads),
        own.source,
    )


def _dealt(captured: Layout, job: str, change: Change) -> Layout:
    there = len(servers_of(captured, job))
    if change.balanced:
        return deal(captured, job, change.servers or there, balanced=True)
    return captured if change.servers in {None, there} else deal(captured, job, change.servers or there)


def _replicated(dealt: Layout, job: str, workers: int | None) -> Layout:
    if workers is None or workers == len(workers_of(dealt, job)):
        return dealt
    return replicate(dealt, job, workers)


def _captured(job: Layout, subject: Subject) -> list[Transfer]:
    """Of each transfer the captured one that it is a copy of."""
    captured = {transfer.recv: transfer for transfer in subject.transfers.data}
    return [captured[job.origins[transfer.recv]] for transfer in job.transfers.data]


def _chosen(
    captured: Layout, dealt: Layout, costs: Costs, orders: Plan | PlanRequest
) -> tuple[str, Sequence[ChannelOrder]]:
    """The policy, and the orders."""
    if isinstance(orders, PlanRequest):
        chosen = choose_orders(dealt.view, dealt.transfers.data, costs, orders)
        return chosen.policy, chosen.orders
    check_match(order_of(orders), captured.view, captured.transfers)
    if dealt is not captured:
        raise PlanError("--plan orders what the servers hold now: leave it out, or what deals them anew")
    return orders.policy, orders.orders


@dataclass(frozen=True)
class _Orders:
    """By the captured `_Recv` of a transfer: its rank, and the discipline of its channel."""

    ranks: Mapping[int, int]
    disciplines: Mapping[int, Discipline]

    @classmethod
    def of(cls, orders: Iterable[ChannelOrder], dealt: Layout) -> "_Orders":
        recvs = {t.key: dealt.origins[t.recv] for t in dealt.transfers.data}
        planned = [(recvs[t.key], t.rank, order.discipline) for order in orders for t in order.transfers]
        return cls(
            {recv: rank for recv, rank, _ in planned},
            {recv: discipline for recv, _, discipline in planned},
        )

    def sending(self, job: Layout) -> Sending:
        """How a layout sends; copies are ordered as what they are copies of."""
        found = ((t.channel, self.disciplines.get(job.origins[t.recv])) for t in job.transfers.data)
        return Sending(
            {channel: discipline for channel, discipline in found if discipline is not None},
            [self.ranks.get(job.origins[t.recv], 0) for t in job.transfers.data],
        )
