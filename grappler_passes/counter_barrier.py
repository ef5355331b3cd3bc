"""Barriers between groups of nodes."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tfwave.errors import GraphError, PassError
from tfwave.graph.marks import added_by
from tfwave.graph.reach import in_control_flow
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass


@dataclass(frozen=True)
class CounterBarrier(GraphPass):
    """Let all nodes of a group finish before any node of the next group starts.

    `groups` are lists of node names: ``counter_barrier{groups=[["a","b"],["c"],["d"]]}``. Between two groups
    stands one NoOp: it waits for the leaves of the first (no other node of the group waits for
    them), and the roots of the second (they wait for no other node of the group) wait for it (Waterwave, section 4,
    figure 6).

    All groups should belong to one step: who runs a node of a later group, runs all earlier groups as well.

    Raises:
        PassError: fewer than two groups, an empty one, or a node in two of them.
    """

    groups: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Refuse groups that no barrier can part."""
        if len(self.groups) < 2 or not all(self.groups):
            raise PassError("counter_barrier needs two groups or more, each with a node")
        seen: set[str] = set()
        for name in (name for group in self.groups for name in group):
            if name in seen:
                raise PassError(f"counter_barrier names the node '{name}' twice")
            seen.add(name)

    def requires(self, view: GraphView) -> None:
        """All nodes are there, and none is in a branch or a loop, or ends one."""
        index = {name: i for i, name in enumerate(view.names)}
        inside = in_control_flow(view)
        for name in (name for group in self.groups for name in group):
            if name not in index:
                raise GraphError(f"counter_barrier: the graph has no node '{name}'")
            if not inside.isdisjoint((index[name], *view.fanins[index[name]])):
                raise GraphError(f"counter_barrier: node '{name}' belongs to a branch or a loop")

    def run(self, graph: GraphRewriter) -> None:
        """Put one NoOp between each two groups."""
        index = {name: i for i, name in enumerate(graph.view.names)}
        digest = hashlib.sha256(json.dumps(self.groups).encode()).hexdigest()[:8]
        for number, (before, after) in enumerate(pairwise(self.groups)):
            leaves = _ends(before, index, graph.view.fanouts)
            roots = _ends(after, index, graph.view.fanins)
            name = f"tfwave/{self.name}/{digest}/{number}"
            if not _is_ours(graph, name):
                graph.add_node(name, "NoOp", [f"^{node}" for node in leaves])
            for node in roots:
                graph.add_control_edge(name, node)


def _is_ours(graph: GraphRewriter, name: str) -> bool:
    """Is the barrier there? Grappler may have changed it since: placed it, and taken out edges that add nothing."""
    return graph.has_node(name) and added_by(graph.node(name)) == graph.author


def _ends(
    group: Sequence[str], index: Mapping[str, int], neighbours: Sequence[Sequence[int]]
) -> Iterator[str]:
    """The nodes of a group without a neighbour in it."""
    members = {index[name] for name in group}
    return (name for name in group if members.isdisjoint(neighbours[index[name]]))
