"""Barriers between groups of nodes."""

import hashlib
import json
from dataclasses import dataclass
from itertools import pairwise

from tfwave.errors import GraphError, PassError
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass


@dataclass(frozen=True)
class CounterBarrier(GraphPass):
    """Let all nodes of a group finish before any node of the next group starts.

    `groups` are lists of node names: ``counter_barrier{groups=[["a","b"],["c"],["d"]]}``. Between two groups
    stands one NoOp: it waits for each node of the first, and each node of the second waits for it (Waterwave,
    section 4, figure 6: a barrier between consecutive pairs of node groups).

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
        """All nodes are there."""
        there = set(view.names)
        for name in (name for group in self.groups for name in group):
            if name not in there:
                raise GraphError(f"counter_barrier: the graph has no node '{name}'")

    def run(self, graph: GraphRewriter) -> None:
        """Put one NoOp between each two groups."""
        digest = hashlib.sha256(json.dumps(self.groups).encode()).hexdigest()[:8]
        for number, (before, after) in enumerate(pairwise(self.groups)):
            name = f"tfwave/{self.name}/{digest}/{number}"
            barrier = graph.add_node(name, "NoOp", [f"^{node}" for node in before])
            for node in after:
                graph.add_control_edge(barrier, node)
