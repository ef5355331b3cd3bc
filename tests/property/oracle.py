"""The paper's algorithms word by word, slow and exact; shares no code with what it checks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, lcm

import networkx as nx

from tests.graphs import WORKER, Job

Exact = Fraction | float


@dataclass(frozen=True)
class Oracle:
    """One job as a networkx graph with exact costs; transfers go by the name of their `_Recv`."""

    job: Job
    recvs: frozenset[str]

    @cached_property
    def graph(self) -> nx.DiGraph:
        graph: nx.DiGraph = nx.DiGraph()
        wires: dict[str, dict[str, str]] = {"_Send": {}, "_Recv": {}}
        for partition in self.job.partitions:
            for node in partition.node:
                graph.add_node(node.name, op=node.op, device=node.device)
                for text in node.input:
                    graph.add_edge(text.lstrip("^").split(":")[0], node.name)
                if node.op in wires:
                    wires[node.op][_wire(node)] = node.name
        for wire, recv in wires["_Recv"].items():
            if wire in wires["_Send"]:
                graph.add_edge(wires["_Send"][wire], recv)
        return graph

    @cached_property
    def seconds(self) -> dict[str, Fraction]:
        times = {name: Fraction(str(s)) for name, s in self.job.ops.items()}
        return times | {r: Fraction(str(self.job.transfers[r])) for r in self.recvs}

    @cached_property
    def ticks(self) -> tuple[dict[str, int], int]:
        return whole_parts(self.seconds)

    @cached_property
    def ops(self) -> list[str]:
        data = self.graph.nodes(data=True)
        return [n for n, d in data if d["op"] != "_Recv" and d["device"] in ("", WORKER)]

    @cached_property
    def dep(self) -> dict[str, set[str]]:
        return {n: nx.ancestors(self.graph, n) & self.recvs for n in self.graph}

    @cached_property
    def level(self) -> dict[str, int]:
        level: dict[str, int] = {}
        for node in nx.topological_sort(self.graph):
            level[node] = max((level[p] + 1 for p in self.graph.predecessors(node)), default=0)
        return level

    def tie_key(self, recv: str) -> tuple[object, ...]:
        after = self.level[recv] + 1
        first = min((self.level[c] for c in self.graph.successors(recv)), default=after)
        source, port, channel = self._key(recv)
        natural = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|\D+", source)]
        return first, natural, port, channel, source

    def _key(self, recv: str) -> tuple[str, int, tuple[str, str]]:
        node = next(n for p in self.job.partitions for n in p.node if n.name == recv)
        edge = node.attr["tensor_name"].s.decode()
        port = 0
        for p in self.job.partitions:
            for send in p.node:
                if send.op == "_Send" and _wire(send) == _wire(node) and ":" in send.input[0]:
                    port = int(send.input[0].split(":")[1])
        channel = (node.attr["send_device"].s.decode(), node.attr["recv_device"].s.decode())
        return re.sub(r"^edge_\d+_", "", edge), port, channel

    def properties(self, outstanding: set[str], time: dict[str, Fraction]) -> dict[str, tuple[Exact, ...]]:
        """Algorithm 1: (P, M, M+) of each outstanding transfer."""
        total = {op: sum((time[r] for r in self.dep[op] & outstanding), Fraction(0)) for op in self.ops}
        p: dict[str, Exact] = dict.fromkeys(outstanding, Fraction(0))
        plus: dict[str, Exact] = dict.fromkeys(outstanding, inf)
        for op in self.ops:
            needs = self.dep[op] & outstanding
            if len(needs) == 1:
                p[next(iter(needs))] += time.get(op, Fraction(0))
            if len(needs) > 1:
                for r in needs:
                    plus[r] = min(plus[r], total[op])
        return {r: (p[r], time[r], plus[r]) for r in outstanding}

    def candidates(self, outstanding: set[str]) -> list[str]:
        free = [r for r in outstanding if not self.dep[r] & outstanding]
        return sorted(free, key=self.tie_key)

    def tic(self) -> list[tuple[str, Exact]]:
        """Algorithm 2."""
        unit = {n: Fraction(n in self.recvs) for n in self.graph}
        fixed = self.properties(set(self.recvs), unit)
        return [(r, fixed[r][2]) for r in self._scan(lambda _: fixed, lambda a, b: a[2] < b[2])]

    def tac(self, *, printed: bool = False) -> list[str]:
        """Algorithm 3 with the comparator of Eq. 6, or as the algorithm prints it."""
        before = _printed if printed else _equation_6
        return self._scan(lambda left: self.properties(left, self.seconds), before)

    def _scan(self, properties, before) -> list[str]:
        outstanding = set(self.recvs)
        order: list[str] = []
        while outstanding:
            known = properties(outstanding)
            best, *others = self.candidates(outstanding)
            for other in others:
                if before(known[other], known[best]):
                    best = other
            order.append(best)
            outstanding.remove(best)
        return order

    def fifo(self) -> list[str]:
        return sorted(self.recvs, key=self.tie_key)

    def respects_blockers(self, order: Sequence[str]) -> bool:
        return all(self.dep[r] <= set(order[:i]) for i, r in enumerate(order))

    def makespan(self, order: Sequence[str]) -> Fraction:
        """Step through time: one compute, each channel in its order, all ends before the next choice."""
        ticks, parts = self.ticks
        done: set[str] = set()
        running: dict[str, int] = {}
        channel = {r: self._key(r)[2] for r in order}
        queues = {c: [r for r in order if channel[r] == c] for c in channel.values()}
        compute, now = set(self.ops), 0
        while True:
            changed = True
            while changed:
                ended = {n for n, end in running.items() if end <= now}
                done |= ended
                running = {n: end for n, end in running.items() if n not in ended}
                free = {n for n in self.graph if n not in done and n not in running and self._met(n, done)}
                instant = free - compute - self.recvs
                done |= instant
                busy = {channel[r] for r in running if r in channel}
                sent = [q[0] for c, q in queues.items() if q and q[0] in free and c not in busy]
                for r in sent:
                    queues[channel[r]].pop(0)
                    running[r] = now + ticks[r]
                changed = bool(ended or instant or sent)
            ready = sorted(free & compute, key=lambda n: (self.level[n], _natural(n), n))
            if ready and not running.keys() & compute:
                running[ready[0]] = now + ticks.get(ready[0], 0)
            if not running:
                return Fraction(now, parts)
            now = min(running.values())

    def _met(self, node: str, done: set[str]) -> bool:
        return all(p in done for p in self.graph.predecessors(node))


def whole_parts(seconds: Mapping[str, Fraction]) -> tuple[dict[str, int], int]:
    """The same in whole parts of a second, which add up quickly, and how many these are."""
    parts = lcm(*(s.denominator for s in seconds.values()))
    return {name: int(s * parts) for name, s in seconds.items()}, parts


def oracle_of(job: Job) -> Oracle:
    """The oracle for the data transfers into the worker."""
    return Oracle(job, frozenset(t.node for t in job.view()[1]))


def _equation_6(a: tuple[Exact, ...], b: tuple[Exact, ...]) -> bool:
    left, right = min(b[0], a[1]), min(a[0], b[1])
    return left < right or (left == right and a[2] < b[2])


def _printed(a: tuple[Exact, ...], b: tuple[Exact, ...]) -> bool:
    left, right = min(a[0], b[1]), min(b[0], a[1])
    return left < right or (left == right and a[2] < b[2])


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|\D+", name)]


def _wire(node) -> str:
    return ";".join(node.attr[k].s.decode() for k in ("send_device", "recv_device", "tensor_name"))
