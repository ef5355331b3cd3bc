"""Random graphs in the shape that TensorFlow runs: partitions with `_Send`/`_Recv`, and costs for them."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef, NodeDef

WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
SERVERS = tuple(f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in range(3))


@dataclass
class Builder:
    """Adds well-formed nodes to one GraphDef per device."""

    partitions: dict[str, GraphDef] = field(default_factory=dict)
    edges: int = 0

    def op(self, device: str, name: str, inputs: Sequence[str], *, outputs: int = 1) -> str:
        """AddN for one output, IdentityN for several; NoOp where all inputs are control edges."""
        data = [i for i in inputs if not i.startswith("^")]
        if not data:
            return self._node(device, name, "NoOp", inputs).name
        if outputs > 1:
            data = (data * outputs)[: max(outputs, len(data))]
            node = self._node(device, name, "IdentityN", [*data, *_control(inputs)])
            node.attr["T"].list.type.extend([DT_FLOAT] * len(data))
            return name
        node = self._node(device, name, "AddN", inputs)
        node.attr["T"].type = DT_FLOAT
        node.attr["N"].i = len(data)
        return name

    def identity(self, device: str, name: str, tensor: str) -> str:
        self._node(device, name, "Identity", [tensor]).attr["T"].type = DT_FLOAT
        return name

    def const(self, device: str, name: str) -> str:
        node = self._node(device, name, "Const", [])
        node.attr["dtype"].type = DT_FLOAT
        node.attr["value"].tensor.dtype = DT_FLOAT
        node.attr["value"].tensor.float_val.append(1.0)
        return name

    def pair(
        self, tensor: str, source: str, destination: str, *, send: bool = True, waits: Sequence[str] = ()
    ) -> str:
        """Send a tensor to another device; the name of the `_Recv`, which may wait for nodes there."""
        self.edges += 1
        node = tensor.removeprefix("^").rpartition(":")[0] or tensor.removeprefix("^")
        wire = (source, destination, f"edge_{self.edges}_{node}")
        if send:
            self._wire(source, f"send{self.edges}", "_Send", [tensor], wire=wire)
        recv = self._wire(destination, f"recv{self.edges}", "_Recv", [], wire=wire)
        recv.input.extend(f"^{name}" for name in waits)
        return recv.name

    def control_pair(self, node: str, source: str, destination: str) -> str:
        """A control edge between devices, as TensorFlow cuts it; the Identity whose control edge it is."""
        dummy = self.const(source, f"dummy{self.edges}")
        self.partitions[source].node[-1].input.append(f"^{node}")
        recv = self.pair(dummy, source, destination)
        read = self._node(destination, f"read_{recv}", "Identity", [recv])
        read.attr["T"].type = DT_FLOAT
        return read.name

    def _node(self, device: str, name: str, op: str, inputs: Sequence[str]) -> NodeDef:
        graph = self.partitions.setdefault(device, GraphDef())
        return graph.node.add(name=name, op=op, device=device, input=inputs)

    def _wire(self, at: str, name: str, op: str, inputs: list[str], *, wire: tuple[str, str, str]) -> NodeDef:
        node = self._node(at, name, op, inputs)
        node.attr["T" if op == "_Send" else "tensor_type"].type = DT_FLOAT
        for key, value in zip(("send_device", "recv_device", "tensor_name"), wire, strict=True):
            node.attr[key].s = value.encode()
        return node


@dataclass(frozen=True)
class Job:
    """Partitions of one job with costs in seconds by node name."""

    partitions: tuple[GraphDef, ...]
    ops: dict[str, float]
    transfers: dict[str, float]

    @property
    def costs(self) -> Costs:
        """By the indices of `view`."""
        return by_name(self.view()[0], self.ops, self.transfers)

    def view(self) -> tuple[GraphView, tuple[Transfer, ...]]:
        """The joined view, and the transfers into the worker."""
        view = GraphView.of(*self.partitions)
        return view, find_transfers(view).into(WORKER).data

    def renumbered(self, rng: random.Random) -> "Job":
        """The same job with its nodes and partitions shuffled."""
        partitions = [_shuffled(p, rng) for p in self.partitions]
        rng.shuffle(partitions)
        return replace(self, partitions=tuple(partitions))

    def scaled(self, factor: float) -> "Job":
        return replace(
            self,
            ops={n: s * factor for n, s in self.ops.items()},
            transfers={n: s * factor for n, s in self.transfers.items()},
        )


def by_name(view: GraphView, ops: Mapping[str, float], transfers: Mapping[str, float]) -> Costs:
    """As from a file: `transfers` by the names of their `_Recv` nodes."""
    return Costs.named(view, ops, transfers, CostSource("file", "file"))


def random_job(rng: random.Random) -> Job:
    """A worker and up to three servers.

    Multi-output ports, control edges, control-only transfers, transfers that wait for other transfers
    (through a server or by a control edge on the worker), with or without the servers' partitions, nodes in
    any order.
    """
    build = Builder()
    joined = rng.random() < 0.6
    servers = SERVERS[: rng.randint(1, 3)]
    names = _names(rng, rng.randint(1, 9))
    pulled: list[str] = []
    for name in names:
        source = rng.choice(servers)
        tensor = name
        if joined:
            ports = rng.choice((1, 1, 2))
            build.op(source, name, [build.const(source, f"c_{name}")], outputs=ports)
            tensor = rng.choice((name, f"{name}:1")) if ports > 1 else name
        pulled.append(build.pair(tensor, source, WORKER, send=joined))
    available = list(pulled)
    for i in range(rng.randint(1, 16)):
        inputs = _inputs(rng, available)
        outputs = rng.choice((1, 1, 1, 2))
        build.op(WORKER, rng.choice(("layer/op", "b")) + str(i), inputs, outputs=outputs)
        made = build.partitions[WORKER].node[-1]
        available.append(f"^{made.name}" if made.op == "NoOp" else made.name)
        if made.op == "IdentityN":
            available.append(f"{made.name}:1")
        if made.op != "NoOp" and rng.random() < 0.2:
            available.append(
                _round_trip(rng, build, available[-1], rng.choice(servers), joined=joined, number=i)
            )
        elif joined and rng.random() < 0.05:
            available.append("^" + build.control_pair(names[0], _home(build, names[0]), WORKER))
    job = Job(tuple(build.partitions.values()), {}, {})
    return with_costs(job.renumbered(rng), rng)


def _round_trip(
    rng: random.Random, build: Builder, tensor: str, server: str, *, joined: bool, number: int
) -> str:
    """A transfer that cannot start before the worker made `tensor` (in one partition alone: may not)."""
    if not joined:
        waits = [tensor.partition(":")[0]] if rng.random() < 0.7 else []
        return build.pair(f"late{number}", server, WORKER, send=False, waits=waits)
    arrived = build.pair(tensor, WORKER, server)
    late = build.op(server, f"late{number}", [arrived])
    return build.pair(late, server, WORKER)


def with_costs(job: Job, rng: random.Random) -> Job:
    """Short decimals, so that sums tie as they do on paper; one of three kinds for the whole job."""
    draw = rng.choice(_KINDS)
    nodes = [node for graph in job.partitions for node in graph.node]
    return replace(
        job,
        ops={n.name: draw(rng) for n in nodes if n.op not in ("_Send", "_Recv", "NoOp")},
        transfers={n.name: draw(rng) for n in nodes if n.op == "_Recv"},
    )


_KINDS: tuple[Callable[[random.Random], float], ...] = (
    lambda rng: float(rng.randint(0, 3)),
    lambda rng: rng.randint(0, 30) / 10,
    lambda rng: rng.randint(1, 99999) / 1e7,
)


def _names(rng: random.Random, count: int) -> list[str]:
    style = rng.choice(("v{}", "layer{}/kernel", "w0{}"))
    return [style.format(i) for i in rng.sample(range(1, 3 * count + 2), count)]


def _inputs(rng: random.Random, available: Sequence[str]) -> list[str]:
    chosen = rng.sample(available, min(len(available), rng.choice((1, 2, 2, 3))))
    data = [name for name in chosen if not name.startswith("^") and rng.random() < 0.8]
    control = ["^" + name.lstrip("^").partition(":")[0] for name in chosen if name not in data]
    return [*data, *control]


def pulls_of(count: int) -> Builder:
    """So many workers, each of which pulls one tensor, ``recv1``..., over a channel of its own and uses it."""
    build = Builder()
    for number in range(count):
        worker = WORKER.replace("task:0", f"task:{number}")
        build.op(worker, f"use{number}", [build.pair(f"v{number}", SERVERS[0], worker, send=False)])
    return build


def _home(build: Builder, name: str) -> str:
    return next(d for d, graph in build.partitions.items() if any(n.name == name for n in graph.node))


def _control(inputs: Sequence[str]) -> list[str]:
    return [i for i in inputs if i.startswith("^")]


def _shuffled(graph: GraphDef, rng: random.Random) -> GraphDef:
    nodes = list(graph.node)
    rng.shuffle(nodes)
    copy = GraphDef()
    copy.node.extend(nodes)
    return copy
