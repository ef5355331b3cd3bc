"""Barriers between groups of nodes."""

import hashlib
import json
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError, PassError
from tfwave.graph.access import Resource
from tfwave.graph.marks import BARRIER_OP, added_by
from tfwave.graph.reach import upstream_of
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.step import needed_of
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass
from tfwave.plan.groups import Groups
from tfwave.plan.merged import check_merged, slots_of
from tfwave.plan.plan import Plan
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

    Without `groups`, those of a plan of ``tfwave colocate`` are taken: each of its slots is a group. The graph is
    then what ``tfwave merge`` makes of the jobs that were planned. A node that waits for one of a later group goes
    there: TensorFlow's optimizer, by whose graph the plan was made, takes edges out. Constants, handles, what is
    fed and what initialisers need wait for nothing, so that an initialiser runs no step.

    With `job`, the barriers also ask the ledger of the process that runs the graph to let that job's next group
    begin, and one of them stands before the first group, which may then be the only one.

    A branch or loop is in the group of any of its nodes, whole. What waits, and is waited for, are its entries
    (Switch, Enter) and its ends (Merge, Exit): a node in it that nothing outside leads to, and one that leads
    nowhere, keep no barrier.

    What TensorFlow's optimizer may compute in one kernel stays so, as its rounding is another one: a convolution or
    product with its bias, sum, normalisation and activation, or a chain of sums. Such nodes are in the latest group
    of any of them, with what waits for them, and Identities before the first and behind the last take the place of
    control edges. That is so where each of them alone reads the one before. What the optimizer makes of larger
    patterns, such as a layer normalisation of single ops, a barrier in their midst can keep it from, and they may
    round otherwise. A `job` has no such limit: its barriers come behind the optimizer.

    All groups should belong to one step: who runs a node of a later group, runs all earlier groups as well. So of
    merged jobs run the steps of all in one call.

    Barriers change no node's work: each runs as often as before, on the same inputs. Where a graph
    leaves open in which order a variable is read and changed, they choose one of the orders that it allows. Refused
    are barriers by which nodes could wait for each other for ever: what takes from a queue, a staging area or an
    accumulator before what gives to it, or a lock or collective before its peer.

    Raises:
        PassError: fewer than two groups (with `job`: none) and no plan that has jobs in one memory, an empty group,
            or a node in two of them; or nodes that meet at a queue or the like, and would wait for each other.
        PlanError: the graph is not that of the planned jobs, merged.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    job: str = ""
    plan: Plan | None = None

    def __post_init__(self) -> None:
        """Refuse groups that no barrier can part."""
        if self._slots is not None:
            return
        if len(self.groups) < (1 if self.job else 2) or not all(self.groups):
            least = "a group" if self.job else "two groups"
            way_out = "" if self.groups else ", or a plan of `tfwave colocate BUNDLE... -o FILE`"
            raise PassError(f"counter_barrier needs {least} or more, each with a node{way_out}")
        seen: set[str] = set()
        for name in (name for group in self.groups for name in group):
            if name in seen:
                raise PassError(f"counter_barrier names the node '{name}' twice")
            seen.add(name)

    @property
    def _slots(self) -> Groups | None:
        """Where these are the groups."""
        return None if self.groups or self.job or self.plan is None else self.plan.groups

    def requires(self, view: GraphView) -> None:
        """All nodes are there, and groups, branches and loops do not contradict each other."""
        if self._slots is not None:
            check_merged(self._slots, view)
            return
        there = set(view.names)
        for name in (name for group in self.groups for name in group):
            if name not in there:
                raise GraphError(f"counter_barrier: the graph has no node '{name}'")
        self._grouped(view, self.groups, range(len(view)))

    def run(self, graph: GraphRewriter) -> None:
        """Put one barrier between each two groups, and for a job one before the first."""
        groups = self.groups if self._slots is None else slots_of(self._slots, graph.view)
        nodes = self._grouped(graph.view, groups, _needed(graph, groups))
        _check_meetings(graph, nodes)
        edges = BarrierEdges(graph, nodes)
        first = 0 if self.job else 1
        before: list[str] = []
        for group in range(first, len(groups)):
            barrier = self._barrier(groups, group - first)
            leaves = [edges.end_of(node, barrier) for node in nodes.leaves(group - 1)] if group else []
            self._add(graph, barrier, group, leaves or before)
            for node in nodes.roots(group):
                edges.hold(node, barrier)
            before = [barrier]
        if not before:
            graph.remark("the plan has all that runs in one slot, so that there is nothing to part")

    def _grouped(
        self, view: GraphView, groups: Sequence[Sequence[str]], needed: Container[int]
    ) -> GroupedNodes:
        """The barriers of a job come behind TensorFlow's optimizer, which has made its kernels."""
        if self.job:
            return GroupedNodes.of_regions(view, groups)
        if self._slots is not None or self._barrier(groups, 0) in view.names:
            return GroupedNodes.settled(view, groups, needed)
        return GroupedNodes.of_kernels(view, groups, needed)

    def _barrier(self, groups: Sequence[Sequence[str]], number: int) -> str:
        """Its name tells the barriers of one pass from those of another."""
        text = json.dumps([self.job, *groups] if self.job else groups)
        return f"tfwave/{self.name}/{hashlib.sha256(text.encode()).hexdigest()[:8]}/{number}"

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


def _needed(graph: GraphRewriter, groups: Sequence[Sequence[str]]) -> frozenset[int]:
    """The nodes that the step runs: who runs one of the last group, runs all groups before."""
    view = graph.view
    before = {name for group in groups[:-1] for name in group}
    of_groups = [node for node, name in enumerate(view.names) if name in before]
    return needed_of(graph.item, view) | upstream_of(view, of_groups)


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
