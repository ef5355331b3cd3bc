"""What the tasks of a job saw of some steps: how long their ops took, and when tensors arrived."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfwave.bundle.cards import traced_network
from tfwave.bundle.links import channel_links, service_seconds
from tfwave.bundle.step_stats import TransferRecord
from tfwave.capture.function import FunctionGraph
from tfwave.cost.analytic import over_links
from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.cost.trace import measured_costs
from tfwave.errors import EnforcerError, MissingCost
from tfwave.graph.names import Channel, TransferKey, edge_source, task_of
from tfwave.graph.transfer import Transfer, origins
from tfwave.graph.view import GraphView
from tfwave.proto import control_pb2


@dataclass(frozen=True)
class TaskTrace:
    """Traced steps of one task, named as TensorFlow does: ``/job:worker/replica:0/task:0``.

    `op_seconds` holds the fastest run of each op, by function and node; `steps` the function of each step, and what
    arrived in it, in seconds of the task's own clock.
    """

    task: str
    op_seconds: Mapping[str, Mapping[str, float]]
    steps: tuple[tuple[str, tuple[TransferRecord, ...]], ...]

    @classmethod
    def of(cls, task: str, trace: control_pb2.Trace) -> "TaskTrace":
        """As a control service tells it.

        Raises:
            EnforcerError: something arrived on a channel that there is not.
        """
        ops: dict[str, dict[str, float]] = defaultdict(dict)
        for op in trace.ops:
            ops[op.function][op.node] = op.min_seconds
        channels = [Channel(c.source_device, c.destination_device) for c in trace.channels]
        steps: dict[int, list[TransferRecord]] = defaultdict(list)
        for a in trace.arrivals:
            if not 0 <= a.channel < len(channels):
                raise EnforcerError(
                    f"the trace of {task} speaks of channel {a.channel} of {len(channels)}: run the same tfwave on "
                    "all machines"
                )
            begin, end = a.requested_nanos / 1e9, a.arrived_nanos / 1e9
            steps[a.step].append(TransferRecord(a.edge, channels[a.channel], a.bytes, begin, end))
        return cls(task, ops, tuple((trace.functions.get(s, ""), tuple(steps[s])) for s in sorted(steps)))


@dataclass(frozen=True)
class CostedFunction:
    """A function, its transfers with their traced sizes, and what ops and transfers cost."""

    function: FunctionGraph
    transfers: tuple[Transfer, ...]
    network: Network


def function_costs(function: FunctionGraph, traces: Sequence[TaskTrace]) -> CostedFunction:
    """What traces tell of a function.

    All workers count as one: what they do is the same.

    1. Ops: the minimum over all runs; those of tasks without a trace are estimated.
    2. Transfers that wait for no other, as the first pulls of each variable: a link fitted to the arrivals on each
       channel, or, where no trace tells bytes, the minimum of their own times.
       What never came, on a channel on which others did, is not there: Grappler folded it away.
    3. All others were asked for long before they could be sent, so their times tell nothing: they take the link of
       their channel, or that of the opposite direction; an estimate, where there is neither.

    Raises:
        MissingCost: no step of the function was traced on a worker.
    """
    named = _Named(function.view, function.transfers)
    steps = [
        _at(function.task, step) for trace in traces for name, step in trace.steps if name == function.name
    ]
    found = [[(transfer, r) for r in step if (transfer := named.find(r)) is not None] for step in steps]
    ops = _op_samples(function, traces)
    if not any(task_of(device) == function.task for device, _ in ops) or not any(found):
        raise MissingCost(f"no step of {function.name} was traced: it must run more often while it is traced")
    sized = _as_seen(function.transfers, {transfer.key: r for step in found for transfer, r in step})
    early = [[record for transfer, record in step if transfer.key in function.free] for step in found]  # 2
    timed = measured_costs(function.view, sized, ops, _service_samples(named, early))
    traced = _without_folded(timed, {task_of(device) for device, _ in ops})
    links = channel_links(early)  # none, if no trace tells bytes
    links = {Channel(c.destination, c.source): link for c, link in links.items()} | links  # 3
    known = over_links(traced, sized, links) if links else traced
    network = traced_network(known, links, sized, early).estimated(sized)
    return CostedFunction(function, sized, network)


def _as_seen(
    transfers: Iterable[Transfer], seen: Mapping[TransferKey, TransferRecord]
) -> tuple[Transfer, ...]:
    """Those that are there, with their sizes, and under the names that TensorFlow sends them by."""
    traced = {key.channel for key in seen}
    return tuple(
        replace(t, bytes=seen[t.key].bytes, edge=seen[t.key].edge) if t.key in seen else t
        for t in transfers
        if t.key in seen or t.channel not in traced
    )


def _op_samples(
    function: FunctionGraph, traces: Iterable[TaskTrace]
) -> Mapping[tuple[str, str], Sequence[float]]:
    """The seconds of ops by device and node."""
    view = function.view
    devices = {
        (task_of(view.nodes[i].device), name): view.nodes[i].device for i, name in enumerate(view.names)
    }
    ops: dict[tuple[str, str], list[float]] = defaultdict(list)
    for trace in traces:
        task = _as_one(function.task, trace.task)
        for node, fastest in trace.op_seconds.get(function.name, {}).items():
            if (task, node) in devices:
                ops[devices[task, node], node].append(fastest)
    return ops


def _service_samples(
    named: "_Named", steps: Iterable[Iterable[TransferRecord]]
) -> dict[TransferKey, list[float]]:
    samples: dict[TransferKey, list[float]] = defaultdict(list)
    for step in steps:
        for record, seconds in service_seconds(step):
            transfer = named.find(record)
            if transfer is not None:
                samples[transfer.key].append(seconds)
    return samples


def _without_folded(timed: Costs, tasks: Collection[str]) -> Costs:
    """What never ran on tasks that were traced, Grappler had folded into another op: it costs nothing.

    Of tasks that were not traced nothing is known.
    """
    nodes = enumerate(timed.view.nodes)
    return timed.fill({index: 0.0 for index, node in nodes if task_of(node.device) in tasks})


def _at(worker: str, records: Iterable[TransferRecord]) -> list[TransferRecord]:
    ends = ((r, _as_one(worker, r.channel.source), _as_one(worker, r.channel.destination)) for r in records)
    return [replace(r, channel=Channel(source, destination)) for r, source, destination in ends]


def _as_one(worker: str, device: str) -> str:
    """The device of the task `worker` for that of any task of its job."""
    task = task_of(device)
    return worker + device.removeprefix(task) if _job(task) == _job(worker) else device


def _job(task: str) -> str:
    return task.rpartition("/task:")[0]


class _Named:
    """Transfers by their wire name.

    Where TensorFlow numbered the edge otherwise, by the source node, or by its output if several are sent; where
    Grappler took the source out, by a node before it.
    """

    def __init__(self, view: GraphView, transfers: Sequence[Transfer]) -> None:
        self._by_edge = {(t.channel, t.edge): t for t in transfers}
        self._by_source = _only_ones((t.channel, edge_source(t.edge), t) for t in transfers)
        self._by_output = _only_ones((t.channel, f"{t.key.node}:{t.key.port}", t) for t in transfers)
        self._by_origin = _only_ones((t.channel, node, t) for t in transfers for node in origins(view, t)[1:])

    def find(self, record: TransferRecord) -> Transfer | None:
        exact = self._by_edge.get((record.channel, record.edge))
        source = record.channel, edge_source(record.edge)
        return (
            exact or self._by_source.get(source) or self._by_output.get(source) or self._by_origin.get(source)
        )


def _only_ones(named: Iterable[tuple[Channel, str, Transfer]]) -> dict[tuple[Channel, str], Transfer]:
    """By channel and name; without names that several have."""
    found: dict[tuple[Channel, str], list[Transfer]] = defaultdict(list)
    for channel, name, transfer in named:
        found[channel, name].append(transfer)
    return {key: transfers[0] for key, transfers in found.items() if len(transfers) == 1}
