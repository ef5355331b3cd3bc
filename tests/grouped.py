"""Jobs in node groups, and steps whose tensors are known one by one."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import networkx as nx

from tests.graphs import WORKER, by_name, random_job
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import JobStep
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.slots import room
from tfwave.plan.groups import GroupedJob, NodeGroup, Slot, Turn
from tfwave.proto.tensorflow_pb2 import GraphDef


def group(net: int, transient: int | None = None, seconds: float = 1.0, piece: int = 0) -> NodeGroup:
    return NodeGroup(("op",), 0, 0, net, max(net, 0) if transient is None else transient, piece, seconds)


def grouped(name: str, *nets: int, resident: int = 0) -> GroupedJob:
    """A job whose groups take a second each, and hold no more than their net."""
    return GroupedJob(name, tuple(group(net) for net in nets), resident)


def slots_of(text: str) -> tuple[Slot, ...]:
    """``a0 a1+b0 b1``: slots of groups of jobs with short names."""
    return tuple(tuple(Turn(t[0], int(t[1:])) for t in slot.split("+")) for slot in text.split())


def limit_for(peak: int, running: int = 1) -> int:
    """The least limit that leaves so many bytes to what runs in one slot."""
    return next(limit for limit in count(peak) if room(limit, running) >= peak)


def random_jobs(rng: random.Random, count: int) -> list[GroupedJob]:
    """Groups that rise and fall in any way, most of them first the one and then the other."""
    return [_random_job(rng, f"job{number}") for number in range(count)]


def _random_job(rng: random.Random, name: str) -> GroupedJob:
    ups = [rng.randint(0, 9) for _ in range(rng.randint(1, 6))]
    downs = [-rng.randint(0, 9) for _ in range(rng.randint(0, 6))]
    nets = [*ups, *downs]
    if rng.random() < 0.3:
        rng.shuffle(nets)
    groups = [
        group(net, max(net, 0) + rng.randint(0, 4), rng.randint(0, 5) / 4, rng.randint(0, 3)) for net in nets
    ]
    return GroupedJob(name, tuple(groups), rng.randint(0, 5))


def graph_of(**inputs: str) -> GraphDef:
    """NoOp by NoOp: the name of each and its inputs, with blanks between them."""
    graph = GraphDef()
    for name, text in inputs.items():
        graph.node.add(name=name, op="NoOp", input=text.split(), device=WORKER)
    return graph


def profile_of(*ops: tuple[str, int, int, int], resident: int = 0) -> MemoryProfile:
    """(node, takes, scratch, gives) of each op that ran."""
    return MemoryProfile(WORKER, [OpMemory(*op) for op in ops], resident)


@dataclass(frozen=True)
class KnownStep:
    """A graph with all that its ops hold: what a profile tells only in part."""

    graph: GraphDef
    bytes: dict[tuple[str, int], int]
    """Of each output (node, port) with a buffer of its own."""
    shares: dict[str, str]
    """Ops that hand on a buffer, with the input that it comes in; the others allocate all their outputs."""
    scratch: dict[str, int]

    @property
    def edges(self) -> nx.DiGraph:
        graph: nx.DiGraph = nx.DiGraph()
        graph.add_nodes_from(node.name for node in self.graph.node)
        for node in self.graph.node:
            graph.add_edges_from((text.lstrip("^").split(":")[0], node.name) for text in node.input)
        return graph

    def random_order(self, rng: random.Random) -> list[str]:
        """One in which the ops may run."""
        edges, order = self.edges, list[str]()
        while edges:
            order.append(rng.choice(sorted(name for name in edges if not edges.in_degree(name))))
            edges.remove_node(order[-1])
        return order

    def profiled(self, order: Sequence[str]) -> MemoryProfile:
        """What each op does if they run in this order."""
        last = {name: place for place, name in enumerate(order)}
        takes, gives = dict.fromkeys(order, 0), dict.fromkeys(order, 0)
        for (name, port), size in self.bytes.items():
            takes[name] += size
            gives[order[max(last[name] for name in self._users(name, port))]] += size
        ops = [OpMemory(name, takes[name], self.scratch[name], gives[name]) for name in order]
        return MemoryProfile(WORKER, ops, 0)

    def _users(self, name: str, port: int) -> set[str]:
        """Who makes or reads a buffer, through all that hand it on."""
        users, tensors = {name}, [f"{name}:{port}" if port else name]
        for tensor in tensors:
            for node in self.graph.node:
                if tensor in node.input:
                    users.add(node.name)
                    tensors += [node.name] if self.shares.get(node.name) == tensor else []
        return users


def known_step(rng: random.Random) -> KnownStep:
    graph = next(p for p in random_job(rng).partitions if p.node[0].device == WORKER)
    held: dict[tuple[str, int], int] = {}
    shares: dict[str, str] = {}
    for node in graph.node:
        data = [text for text in node.input if not text.startswith("^")]
        if data and node.op in ("AddN", "Identity") and rng.random() < 0.4:
            shares[node.name] = rng.choice(data)
        elif node.op not in ("NoOp", "_Send"):
            ports = len(data) if node.op == "IdentityN" else 1
            held |= {(node.name, port): rng.choice((1, 2, 5, 40)) for port in range(ports)}
    scratch = {node.name: rng.choice((0, 0, 3, 20)) for node in graph.node}
    return KnownStep(graph, held, shares, scratch)


def job_step(rng: random.Random, name: str, slowed_at_most: float | None = None) -> JobStep:
    """A random step with its profile and a cost for each op."""
    known = known_step(rng)
    profile = known.profiled(known.random_order(rng))
    view = GraphView.of(known.graph)
    costs = by_name(view, {node.name: rng.randint(1, 9) / 8 for node in known.graph.node}, {})
    return JobStep(name, view, profile, costs, slowed_at_most)
