"""Barriers between groups of nodes."""

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tfwave.errors import GraphError, PassError
from tfwave.graph.access import Resource
from tfwave.graph.marks import BARRIER_OP, added_by
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import AttrValue
from tfwave.rewrite.barrier_edges import BarrierEdges
from tfwave.rewrite.grouped import GroupedNodes
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
        """All nodes are there, and groups, branches and loops do not contradict each other."""
        there = set(view.names)
        for name in (name for group in self.groups for name in group):
            if name not in there:
                raise GraphError(f"counter_barrier: the graph has no node '{name}'")
        self._grouped(view)

    def run(self, graph: GraphRewriter) -> None:
        """Put one barrier between each two groups, and for a job one before the first."""
        nodes = self._grouped(graph.view)
        _check_meetings(graph, nodes)
        edges = BarrierEdges(graph, nodes)
        first = 0 if self.job else 1
        before: list[str] = []
        for group in range(first, len(self.groups)):
            barrier = self._barrier(group - first)
            leaves = [edges.end_of(node, barrier) for node in nodes.leaves(group - 1)] if group else []
            self._add(graph, barrier, group, leaves or before)
            for node in nodes.roots(group):
                edges.hold(node, barrier)
            before = [barrier]

    def _grouped(self, view: GraphView) -> GroupedNodes:
        """The barriers of a job come behind TensorFlow's optimizer, which has made its kernels."""
        if self.job:
            return GroupedNodes.of_regions(view, self.groups)
        if self._barrier(0) in view.names:
            return GroupedNodes.settled(view, self.groups)
        return GroupedNodes.of_kernels(view, self.groups)

    def _barrier(self, number: int) -> str:
        return f"tfwave/{self.name}/{self._digest}/{number}"

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


def _check_meetings(graph: GraphRewriter, nodes: GroupedNodes) -> None:
    meetings = find_meetings(graph.item, graph.view)
    pairs = ((one, other) for one in meetings for other in meetings if one.may_wait(other))
    for one, other in pairs:
        if nodes.orders(one.node, other.node):
            names = [graph.view.names[meeting.node] for meeting in (one, other)]
            raise PassError(
                f"counter_barrier: '{names[1]}' would wait for '{names[0]}', which may itself wait for it, as both "
                f"touch {_in_words(one.places & other.places)}: put them into one group"
            )


def _in_words(places: Collection[Resource]) -> str:
    kind, _, name = min(places)
    return f"the {kind} '{name}'" if kind else "what is staged"
