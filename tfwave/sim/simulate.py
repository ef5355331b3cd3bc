"""A step of a job on a cluster, all its devices at once, under the orders of its channels."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfwave.cost.cluster import Cluster
from tfwave.cost.table import Costs
from tfwave.errors import PlanError
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfer, Transfers
from tfwave.graph.view import GraphView
from tfwave.plan.discipline import Discipline
from tfwave.sim.engine import Outcome
from tfwave.sim.job import CompiledJob, compile_job
from tfwave.sim.timeline import BY_TIME, Interval, Timeline


@dataclass(frozen=True)
class ChannelRule:
    """How one channel sends: its discipline, and all its transfers, most urgent first.

    Without a discipline it sends as they become ready, and may do so without an order.
    """

    channel: Channel
    discipline: Discipline | None
    order: tuple[TransferKey, ...] = ()


def simulate(
    view: GraphView, transfers: Transfers, costs: Costs, cluster: Cluster, rules: Sequence[ChannelRule]
) -> Timeline:
    """One step; channels without a rule send as their transfers become ready. See `compile_job` for the model.

    Raises:
        PlanError: two rules for a channel, a rule that does not list exactly its channel's transfers, or an order
            that waits for itself.
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle.
    """
    ranks = ranks_of(transfers.data, rules)
    disciplines = {rule.channel: rule.discipline for rule in rules}
    job = compile_job(view, transfers, costs, cluster, disciplines)
    return timeline_of(job, job.run(ranks))


def ranks_of(transfers: Sequence[Transfer], rules: Sequence[ChannelRule]) -> list[int]:
    """The place of each transfer in its channel's rule; 0 for those of channels without one.

    Raises:
        PlanError: two rules for a channel, or a rule that does not list exactly its channel's transfers.
    """
    ranks: dict[TransferKey, int] = {t.key: 0 for t in transfers}
    carried: dict[Channel, set[TransferKey]] = defaultdict(set)
    for key in ranks:
        carried[key.channel].add(key)
    ruled: set[Channel] = set()
    for rule in rules:
        own = carried[rule.channel]
        if rule.channel in ruled:
            raise PlanError(f"two rules were given for the channel {rule.channel}: give one")
        if rule.discipline is not None or rule.order:
            _check(rule, own)
        ruled.add(rule.channel)
        ranks |= {key: rank for rank, key in enumerate(rule.order)}
    return [ranks[t.key] for t in transfers]


def _check(rule: ChannelRule, own: set[TransferKey]) -> None:
    wrong = sorted(own.symmetric_difference(rule.order))
    if wrong:
        said = "lacks" if wrong[0] in own else "has a transfer that the graph does not have:"
        raise PlanError(f"the order of the channel {rule.channel} {said} {wrong[0]}: plan this graph again")
    if len(rule.order) > len(own):
        raise PlanError(
            f"the order of the channel {rule.channel} lists a transfer twice: plan this graph again"
        )


def timeline_of(job: CompiledJob, outcome: Outcome) -> Timeline:
    """What took time in a run of a job, and each data transfer."""
    threads = {device: pool.servers for device, pool in zip(job.devices, job.kernel.pools, strict=True)}
    return Timeline(
        tuple(sorted([*_ops(job, outcome), *_transfers(job, outcome)], key=BY_TIME)),
        job.ticks.seconds(outcome.finish),
        threads | {str(channel): 1 for channel in job.channels},
    )


def _ops(job: CompiledJob, outcome: Outcome) -> Iterator[Interval]:
    seconds = job.ticks.seconds
    for node in job.kernel.pooled:
        device = job.devices[job.kernel.units[node]]
        yield Interval(
            seconds(outcome.begin[node]), seconds(outcome.end[node]), device, job.view.names[node], "op"
        )


def _transfers(job: CompiledJob, outcome: Outcome) -> Iterator[Interval]:
    seconds = job.ticks.seconds
    for transfer in job.transfers.data:
        begin, end = outcome.begin[transfer.recv], outcome.end[transfer.recv]
        lane = job.kernel.lanes[job.kernel.units[transfer.recv] - len(job.devices)]
        name = str(transfer.channel)
        left = seconds(end - lane.latency)
        yield Interval(seconds(begin), left, name, transfer.edge, "transfer", transfer.bytes)
    for transfer in job.transfers.control:
        begin, end = outcome.begin[transfer.recv], outcome.end[transfer.recv]
        if end > begin:
            yield Interval(seconds(begin), seconds(end), str(transfer.channel), transfer.edge, "control")
