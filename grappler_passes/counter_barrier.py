"""Barriers between groups of nodes."""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError, PassError
from tfwave.graph.access import Resource
from tfwave.graph.flow_regions import flow_regions, is_entry
from tfwave.graph.marks import BARRIER_OP, added_by
from tfwave.graph.partition.colocate import PINNED_OPS
from tfwave.graph.reach import in_control_flow, reached
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import AttrValue
from tfwave.rewrite.meetings import find_meetings


@dataclass(frozen=True)
class CounterBarrier(GraphPass):
    """Let all nodes of a group finish before any node of the next group starts.

    `groups` are lists of node names: ``counter_barrier{groups=[["a","b"],["c"],["d"]]}``. Between two groups
    stands one NoOp: it waits for the leaves of the first (no other node of the group waits for
    them), and the roots of the second (they wait for no other node of the group) wait for it (Waterwave, section 4,
    figure 6).

    With `job`, the barriers also ask the ledger of the process that runs the graph to let that job's next group
    begin, and one of them stands before the first group, which may then be the only one.

    A branch or loop is in the group of any of its nodes, whole. What waits, and is waited for, are its entries
    (Switch, Enter) and its ends (Merge, Exit): a node in it that nothing outside leads to, and one that leads
    nowhere, keep no barrier.

    All groups should belong to one step: who runs a node of a later group, runs all earlier groups as well.

    Barriers are nothing but control edges: each node runs as often as before, on the same inputs. Where a graph
    leaves open in which order a variable is read and changed, they choose one of the orders that it allows. Refused
    are barriers by which nodes could wait for each other for ever: what takes from a queue, a staging area or an
    accumulator before what gives to it, or a lock or collective before its peer.

    Raises:
        PassError: fewer than two groups (with `job`: none), an empty one, or a node in two of them; or nodes that
            meet at a queue or the like, and would wait for each other.
    """

    groups: tuple[tuple[str, ...], ...]
    job: str = ""

    def __post_init__(self) -> None:
        """Refuse groups that no barrier can part."""
        if len(self.groups) < (1 if self.job else 2) or not all(self.groups):
            least = "a group" if self.job else "two groups"
            raise PassError(f"counter_barrier needs {least} or more, each with a node")
        seen: set[str] = set()
        for name in (name for group in self.groups for name in group):
            if name in seen:
                raise PassError(f"counter_barrier names the node '{name}' twice")
            seen.add(name)

    def requires(self, view: GraphView) -> None:
        """All nodes are there, and no branch or loop is in two groups."""
        there = set(view.names)
        for name in (name for group in self.groups for name in group):
            if name not in there:
                raise GraphError(f"counter_barrier: the graph has no node '{name}'")
        _Parts(view, self.groups)

    def run(self, graph: GraphRewriter) -> None:
        """Put one barrier between each two groups, and for a job one before the first."""
        parts = _Parts(graph.view, self.groups)
        _check_meetings(graph, parts)
        first = 0 if self.job else 1
        before: list[str] = []
        for group in range(first, len(self.groups)):
            barrier = f"tfwave/{self.name}/{self._digest}/{group - first}"
            leaves = parts.leaves(group - 1) if group else []
            self._add(graph, barrier, group, leaves or before)
            for node in parts.roots(group):
                graph.add_control_edge(barrier, node)
            before = [barrier]

    @property
    def _digest(self) -> str:
        """Tells the barriers of one pass from those of another."""
        text = json.dumps([self.job, *self.groups] if self.job else self.groups)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _add(self, graph: GraphRewriter, name: str, group: int, leaves: Iterable[str]) -> None:
        """Grappler may have changed the one that is there: placed it, and taken out edges that add nothing."""
        if graph.has_node(name) and added_by(graph.node(name)) == graph.author:
            return
        waits = [f"^{node}" for node in leaves]
        if not self.job:
            graph.add_node(name, "NoOp", waits)
            return
        attrs = {"job": AttrValue(s=self.job.encode()), "group": AttrValue(i=group)}
        device = graph.node(self.groups[group][0]).device
        graph.add_node(name, BARRIER_OP, waits, device=device, attrs=attrs)


def _check_meetings(graph: GraphRewriter, parts: "_Parts") -> None:
    meetings = find_meetings(graph.item, graph.view)
    pairs = ((one, other) for one in meetings for other in meetings if one.may_wait(other))
    for one, other in pairs:
        if parts.orders(one.node, other.node):
            names = [graph.view.names[meeting.node] for meeting in (one, other)]
            raise PassError(
                f"counter_barrier: '{names[1]}' would wait for '{names[0]}', which may itself wait for it, as both "
                f"touch {_in_words(one.places & other.places)}: put them into one group"
            )


def _in_words(places: Collection[Resource]) -> str:
    kind, _, name = min(places)
    return f"the {kind} '{name}'" if kind else "what is staged"


class _Parts:
    """The nodes of each group, with the branches and loops that are in it.

    Raises:
        GraphError: a branch or loop has nodes in two groups; names one of each.
    """

    def __init__(self, view: GraphView, groups: Sequence[Sequence[str]]) -> None:
        self._view = view
        self._inside = in_control_flow(view)
        regions = flow_regions(view)
        index = {name: i for i, name in enumerate(view.names)}
        self._owner: dict[int, int] = {}
        for number, group in enumerate(groups):
            for name in group:
                region = regions[index[name]]
                if self._owner.setdefault(region, number) != number:
                    first = next(n for n in groups[self._owner[region]] if regions[index[n]] == region)
                    raise GraphError(
                        f"counter_barrier: nodes '{first}' and '{name}' belong to one branch or loop, and are in "
                        "two groups: put them into one"
                    )
        # TensorFlow keeps no control edge of arguments and results: they are the signature of a partition
        self._group = [
            -1 if node.op in PINNED_OPS else self._owner.get(region, -1)
            for node, region in zip(view.nodes, regions, strict=True)
        ]
        self._members = [list[int]() for _ in groups]
        for node in sorted(range(len(view)), key=lambda n: view.names[n]):
            if self._group[node] >= 0:
                self._members[self._group[node]].append(node)

    def roots(self, group: int) -> list[str]:
        """What waits for no other node of the group."""
        return [
            self._view.names[node]
            for node in self._members[group]
            if self._is_free(group, self._view.fanins[node]) and self._may_wait(node)
        ]

    def leaves(self, group: int) -> list[str]:
        """What no other node of the group waits for."""
        return [
            self._view.names[node]
            for node in self._members[group]
            if self._is_free(group, self._view.fanouts[node]) and node not in self._inside
        ]

    def orders(self, first: int, second: int) -> bool:
        """Would barriers let `second` wait for `first`, which it does not wait for by itself?"""
        after = reached(self._view.fanouts.__getitem__, [first])
        if second in after:
            return False
        before = reached(self._view.fanins.__getitem__, [second])
        earliest = min((self._group[node] for node in after if self._group[node] >= 0), default=None)
        latest = max((self._group[node] for node in before), default=-1)
        return earliest is not None and earliest < latest

    def _is_free(self, group: int, neighbours: Collection[int]) -> bool:
        return all(self._group[other] != group for other in neighbours)

    def _may_wait(self, node: int) -> bool:
        """Is it outside of branches and loops, or an entry of one?"""
        return node not in self._inside or is_entry(self._view, node, self._inside)
