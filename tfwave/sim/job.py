"""From the graph of a job to what the kernel runs: compiled once, run under many orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.cost.cluster import Cluster
from tfwave.cost.model import vetted
from tfwave.cost.table import Costs
from tfwave.cost.ticks import Ticks, in_ticks
from tfwave.errors import PlanError
from tfwave.graph.levels import natural_ranks
from tfwave.graph.names import Channel, task_of
from tfwave.graph.transfer import Transfers
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.plan.discipline import Discipline
from tfwave.sim.edges import forward_edges, refuse_deadlock
from tfwave.sim.engine import UNTIMED, Job, Lane, Outcome, Pool, run


@dataclass(frozen=True)
class CompiledJob:
    """One step of a job on a cluster, ready to be run under any order of its transfers.

    Ranks say, for each of `transfers.data`, how urgent it is within its channel: least first, equal in the
    sequence of `transfers.data`. No ranks: in that sequence.

    Stock TensorFlow sends in another order each step. A channel without a discipline does not show that, as it goes
    by the time at which a send is done; the mean over random ranks under `Discipline.PRIORITY` does.
    """

    view: GraphView
    transfers: Transfers
    kernel: Job
    ticks: Ticks
    devices: tuple[str, ...]
    """The units of the kernel: the devices that compute; then the channels."""
    channels: tuple[Channel, ...]

    def makespan(self, ranks: Sequence[float] | None = None) -> float:
        """Seconds until all is done.

        Raises:
            PlanError: not one rank for each transfer, or a channel whose counter waits for itself.
        """
        return self.ticks.seconds(self.run(ranks).finish)

    def run(self, ranks: Sequence[float] | None = None) -> Outcome:
        """When each node began and ended, in ticks.

        Raises:
            PlanError: not one rank for each transfer, or a channel whose counter waits for itself.
        """
        outcome = run(self.kernel, None if ranks is None else self._in_order(ranks))
        refuse_deadlock(self.view, outcome)
        return outcome

    def _in_order(self, ranks: Sequence[float]) -> list[int]:
        carried = self.kernel.carried
        if len(ranks) != len(carried):
            raise PlanError(f"{len(ranks)} ranks were given for {len(carried)} transfers: give one for each")
        return [carried[i] for i in sorted(range(len(carried)), key=ranks.__getitem__)]


def compile_job(
    view: GraphView,
    transfers: Transfers,
    costs: Costs,
    cluster: Cluster,
    disciplines: Mapping[Channel, Discipline | None],
) -> CompiledJob:
    """What a step does on a cluster, each channel by its discipline, if it is given one (see `Lane`).

    An op runs on one thread of its device; of the ready ops those that became ready first go first, then those
    of least (longest-path level, name). An op that takes no time needs no thread, as TensorFlow's executor runs
    such ops inline. An op that names no device is on the only one that receives, or on one of its own.

    A transfer is ready when its `_Send` is done and its `_Recv` has started (at once, where the sender's
    partition is not in view). It takes what the costs say, less the channel's latency, while it has its
    channel's narrower card to itself, and shares cards with other channels; then the latency, in which its
    channel already sends the next. A control-only transfer takes the latency alone. Receives that are in
    neither list take no time.

    Raises:
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle.
    """
    channels = tuple(sorted({t.channel for t in transfers.data}))
    times = _times(view, transfers, costs, cluster)
    home = transfers.destinations[0] if len(transfers.destinations) == 1 else ""
    device_of = {
        node: view.nodes[node].device or home
        for node, op in enumerate(view.ops)
        if op not in RECV_OPS and times.durations[node]
    }
    devices = tuple(sorted(set(device_of.values())))
    ports, bandwidths = _ports(channels, cluster)
    successors, pending = forward_edges(view)
    kernel = Job(
        _units(view, device_of, transfers, (*devices, *channels)),
        times.durations,
        successors,
        pending,
        pools=[Pool(cluster.threads_of(device)) for device in devices],
        lanes=[
            Lane(disciplines.get(channel), times.latencies[channel], own)
            for channel, own in zip(channels, ports, strict=True)
        ],
        pooled=list(natural_ranks(view, device_of, view.levels)),
        carried=[transfer.recv for transfer in transfers.data],
        bandwidths=bandwidths,
    )
    return CompiledJob(view, transfers, kernel, times.ticks, devices, channels)


@dataclass(frozen=True)
class _Times:
    """In ticks: how long each node takes, and how far each channel is."""

    ticks: Ticks
    durations: list[int]
    latencies: Mapping[Channel, int]


def _times(view: GraphView, transfers: Transfers, costs: Costs, cluster: Cluster) -> _Times:
    ops = [node for node, op in enumerate(view.ops) if op not in RECV_OPS]
    latency = {t.channel: cluster.latency_seconds(t.channel) for t in (*transfers.data, *transfers.control)}
    wires = [max(0.0, vetted(costs.transfer_seconds(t), t.node) - latency[t.channel]) for t in transfers.data]
    seconds = [vetted(costs.op_seconds(op), view.names[op]) for op in ops]
    ticks = in_ticks(seconds, [*wires, *latency.values()])
    latencies = dict(zip(latency, ticks.transfers[len(wires) :], strict=True))
    durations = [0] * len(view)
    for op, taken in zip(ops, ticks.ops, strict=True):
        durations[op] = taken
    for transfer, taken in zip(transfers.data, ticks.transfers, strict=False):
        durations[transfer.recv] = taken
    for transfer in transfers.control:
        durations[transfer.recv] = latencies[transfer.channel]
    return _Times(ticks, durations, latencies)


def _units(
    view: GraphView, device_of: Mapping[int, str], transfers: Transfers, names: Sequence[str | Channel]
) -> list[int]:
    number = {name: unit for unit, name in enumerate(names)}
    units = [UNTIMED] * len(view)
    for op, device in device_of.items():
        units[op] = number[device]
    for transfer in transfers.data:
        units[transfer.recv] = number[transfer.channel]
    return units


def _ports(channels: Sequence[Channel], cluster: Cluster) -> tuple[list[tuple[int, int]], list[float]]:
    """The two ports of each channel, and the bandwidth of each port: what a task sends by, then what it gets by."""
    ends = [(task_of(channel.source), task_of(channel.destination)) for channel in channels]
    tasks = sorted({task for pair in ends for task in pair})
    number = {task: i for i, task in enumerate(tasks)}
    bandwidths = [cluster.nic_of(task).bytes_per_second for task in tasks]
    return [(number[a], len(tasks) + number[b]) for a, b in ends], bandwidths * 2
