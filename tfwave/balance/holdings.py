"""Which variables the servers of a graph hold, and which of them each transfer serves."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tfwave.graph.access import FED_OPS, VARIABLE_OPS
from tfwave.graph.attrs import colocated_with
from tfwave.graph.names import task_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.variable_bytes import resident_bytes
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, NodeDef

_READS = frozenset({"ReadVariableOp", "Identity"})
_SERVER = re.compile(r"/job:([^/]+)(?:/replica:\d+)?/task:(\d{1,9})")


@dataclass(frozen=True)
class Held:
    """A variable on a server; it shares the server of `leader`, if it has one.

    `resident_bytes` is 0 where the graph does not say.
    """

    name: str
    resident_bytes: int = 0
    leader: str | None = None


def server_of(device: str, job: str) -> int | None:
    """The task number of a device of the servers' job; None for other devices."""
    match = _SERVER.match(device)
    return int(match[2]) if match and match[1] == job else None


@dataclass(frozen=True)
class Holdings:
    """The variables on the servers of a view, joined from all partitions.

    `known` tells more than the graph: what the nodes are that hand over variables to a traced function, by name.
    If it is given, other such nodes are no variables that could be placed.
    """

    view: GraphView
    job: str = "ps"
    known: Mapping[str, Held] | None = None

    @cached_property
    def held(self) -> Mapping[int, Held]:
        """By node: the variables, with their leaders."""
        own = {node: held for node in range(len(self.view)) if (held := self._held(node)) is not None}
        names = {held.name for held in own.values()}
        leaders = {held.name: held.leader for held in own.values() if held.leader in names}
        for name, leader in self._colocated(own):
            if name != leader:
                leaders.setdefault(name, leader)
        return {node: replace(held, leader=_first(held.name, leaders)) for node, held in own.items()}

    def served(self, transfer: Transfer) -> tuple[str, ...]:
        """The variables that a transfer carries the values of, or that read what it carries; sorted.

        Case 1: it leaves a server: the variables that its value is computed from there.
        Case 2: it arrives at a server: those of the ops that take it, or what comes of it there, and a variable.
        """
        found: set[str] = set()
        if server_of(transfer.channel.source, self.job) is not None and transfer.recv in self.view.sends:
            found = self._above(self.view.sends[transfer.recv])
        if not found and server_of(transfer.channel.destination, self.job) is not None:
            found = self._below(transfer.recv)
        return tuple(sorted(found))

    def sized(self, transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
        """The same; where the bytes are not known and a whole variable is read, they are the variable's."""
        return tuple(t if t.bytes else replace(t, bytes=self._read_bytes(t)) for t in transfers)

    def _held(self, node: int) -> Held | None:
        proto, op = self.view.nodes[node], self.view.ops[node]
        if server_of(proto.device, self.job) is None:
            return None
        if self.known is not None and op in FED_OPS:
            return self.known.get(proto.name)
        if op in VARIABLE_OPS or (op == "_Arg" and _is_resource(proto)):
            return Held(proto.name, resident_bytes(proto))
        return None

    def _colocated(self, own: Mapping[int, Held]) -> Iterable[tuple[str, str]]:
        """(variable, the one that it stays with): as the graph says, and as ops that take both need it."""
        names = {held.name for held in own.values()}
        for node, held in own.items():
            for leader in colocated_with(self.view.nodes[node]):
                if leader in names:
                    yield held.name, leader
        for node in sorted({fanout for n in own for fanout in self.view.fanouts[n]}, key=self._name):
            taken = [own[f].name for f in self._data(node) if f in own]
            for name in taken[1:]:
                yield name, taken[0]

    def _above(self, send: int) -> set[str]:
        found: set[str] = set()
        stack, seen = [*self._data(send)], {send}
        while stack:
            node = stack.pop()
            if node in seen or self.view.ops[node] in RECV_OPS:
                continue
            seen.add(node)
            if node in self.held:
                found.add(self.held[node].name)
            else:
                stack += self._data(node)
        return found

    def _below(self, recv: int) -> set[str]:
        found: set[str] = set()
        stack, seen = [recv], {recv}
        while stack:
            node = stack.pop()
            for fanout in self.view.fanouts[node]:
                data = self._data(fanout)
                if fanout in seen or node not in data or not self._same_task(recv, fanout):
                    continue
                seen.add(fanout)
                taken = [self.held[f].name for f in data if f in self.held]
                found.update(taken[:1])
                if not taken:
                    stack.append(fanout)
        return found

    def _read_bytes(self, transfer: Transfer) -> int:
        node = self.view.sends.get(transfer.recv)
        while node is not None and node not in self.held:
            data = self._data(node)
            is_start = node == self.view.sends[transfer.recv]
            node = data[0] if data and (is_start or self.view.ops[node] in _READS) else None
        return 0 if node is None else self.held[node].resident_bytes

    def _data(self, node: int) -> Sequence[int]:
        return self.view.fanins[node][: self.view.data_fanins[node]]

    def _same_task(self, one: int, other: int) -> bool:
        return task_of(self.view.nodes[one].device) == task_of(self.view.nodes[other].device)

    def _name(self, node: int) -> tuple[str, str]:
        return self.view.names[node], self.view.nodes[node].device


def _is_resource(node: NodeDef) -> bool:
    kind = node.attr.get("T")
    return kind is not None and kind.type == DT_RESOURCE


def _first(name: str, leaders: Mapping[str, str | None]) -> str | None:
    """The leader of the leaders of a variable; None for one that leads."""
    trail = [name]
    while (leader := leaders.get(trail[-1])) is not None and leader not in trail:
        trail.append(leader)
    first = trail[-1] if leaders.get(trail[-1]) is None else min(trail)
    return None if first == name else first
