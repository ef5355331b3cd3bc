"""What the values of a step follow from: its data edges, without control edges."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tfwave.graph.reach import reached
from tfwave.rewrite.steps.step import Step, union

_SHAPE_OPS = frozenset({"Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"})
"""Ops whose result follows from the shape of what they take, not from its values."""


@dataclass(frozen=True)
class DataFlow:
    """The data edges of a step along which values go; what is fed, and what is a shape, follows from nothing.

    `also` says of nodes from which others, behind no data edge, their values follow.
    """

    step: Step
    also: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])

    @cached_property
    def fanins(self) -> Mapping[int, tuple[int, ...]]:
        """Of each node that runs: the nodes from whose tensors its value follows, back edges of loops included."""
        view, found = self.step.view, self.step.fanins
        return {
            node: ()
            if view.ops[node] in _SHAPE_OPS
            else fanins[: view.data_fanins[node] - (len(view.fanins[node]) - len(fanins))]
            + self.also.get(node, ())
            for node, fanins in found.items()
        }

    @cached_property
    def fanouts(self) -> Mapping[int, list[int]]:
        """Of each node: those whose values follow from it."""
        fanouts: dict[int, list[int]] = {node: [] for node in self.fanins}
        for node, sources in self.fanins.items():
            for source in sources:
                fanouts[source].append(node)
        return fanouts

    def upstream(self, nodes: Iterable[int]) -> frozenset[int]:
        """These nodes and all that their values follow from."""
        return reached(self.fanins.__getitem__, nodes)

    def downstream(self, nodes: Iterable[int]) -> frozenset[int]:
        """These nodes and all whose values follow from theirs."""
        return reached(self.fanouts.__getitem__, nodes)

    def carried(self, bits: Mapping[int, int]) -> Mapping[int, int]:
        """For each node its own bits and those of all that its value follows from."""
        carried = {node: bits.get(node, 0) for node in self.step.order}
        settled = False
        while not settled:
            settled = True
            for node in self.step.order:
                found = carried[node] | union(carried[fanin] for fanin in self.fanins[node])
                settled = settled and found == carried[node]
                carried[node] = found
        return carried
