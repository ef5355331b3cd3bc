"""A training step in its parts: forward pass, what updates follow from, and the updates.

The parts follow from data edges alone, no name tells them:

1. The forward pass is what its end (`tfwave.rewrite.waves.boundary`) follows from.
2. Gradients come into the updates of what is trained, whatever op they are: of variables that the forward pass
   reads, of those that optimizer ops (ResourceApply...) change, and of those that such updates follow from, behind
   the forward pass: slots that are assigned to. Nobody can tell the gradient of a weight from a statistic that the
   forward pass reads, if it is computed behind the forward pass, but for that of an op of batch normalisation.
3. Between them lie the backward pass and what an optimizer computes (`tfwave.rewrite.waves.optimizer`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tfwave.graph.access import HANDLE_OPS, KEYED_OPS
from tfwave.graph.names import TensorName
from tfwave.graph.reach import reached
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE
from tfwave.rewrite.resources import Resource
from tfwave.rewrite.waves.flow import DataFlow
from tfwave.rewrite.waves.updates import StepTensors, StepVariables, Update

ROWS_OPS = ("ResourceSparse", "ResourceScatter", "ResourceStridedSlice")
"""What updates single rows of a variable; all but the last are told which by numbers."""
_NORMALISING_OPS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx"})
"""What gives, besides what it normalises, the mean and the variance of a batch."""
READ_OP = "ReadVariableOp"
"""What gives the value of a variable, and nothing else."""


@dataclass(frozen=True)
class StepParts:
    """The parts of one step; `end` are the nodes at which its forward pass ends."""

    tensors: StepTensors
    variables: StepVariables
    flow: DataFlow
    end: tuple[int, ...]

    @cached_property
    def forward(self) -> frozenset[int]:
        """Case 1."""
        return self.flow.upstream(self.end)

    @cached_property
    def weights(self) -> frozenset[Resource]:
        """The variables that the forward pass reads or, in a call, changes; those that do not change included."""
        read = {v for v, nodes in self.variables.reads.items() if not self.forward.isdisjoint(nodes)}
        return frozenset(read).union(*(u.variables for u in self.writes if u.node in self.forward))

    @cached_property
    def writes(self) -> tuple[Update, ...]:
        """All updates of variables, without collectives."""
        ops = self.flow.step.view.ops
        return tuple([u for u in self.variables.updates if not ops[u.node].startswith(KEYED_OPS)])

    @cached_property
    def updates(self) -> tuple[Update, ...]:
        """Case 2."""
        of_weights = [u for u in self._of(self.weights) if u not in self.statistics]
        found = [*of_weights, *(u for u in self.writes if u.is_optimizer and u not in of_weights)]
        while True:
            before = self._before(found)
            slots = [v for v, nodes in self.variables.reads.items() if not before.isdisjoint(nodes)]
            more = [update for update in self._of(slots) if update not in found]
            if not more:
                return tuple(found)
            found += more

    @cached_property
    def statistics(self) -> frozenset[Update]:
        """The updates that follow from moments of ops of batch normalisation, and from nothing else of a batch."""
        return frozenset(u for u in self._of(self.weights) if not u.is_optimizer and self._of_moments(u))

    def _of_moments(self, update: Update) -> bool:
        found = reached(self._behind, [update.node])
        taken = [t for node in found for t in self.tensors.taken(node) if t.source in self._computed]
        ops = self.flow.step.view.ops
        moments = [t for t in taken if ops[t.source] in _NORMALISING_OPS and t.tensor.port > 0]
        return bool(moments) and moments == taken and not any(map(self.tensors.fed, found))

    def _behind(self, node: int) -> set[int]:
        """What a node takes behind the forward pass."""
        return set(self.flow.fanins[node]) - self.forward

    def _of(self, variables: Iterable[Resource]) -> list[Update]:
        wanted = set(variables)
        return [update for update in self.writes if not wanted.isdisjoint(update.variables)]

    def _before(self, updates: Iterable[Update]) -> frozenset[int]:
        """What the values that updates take follow from, behind the forward pass."""
        taken = [source for update in updates for source in self.sources(update)]
        return self.flow.upstream(taken) - self.forward

    def sources(self, update: Update) -> frozenset[int]:
        """The nodes from which a gradient may come into an update."""
        return frozenset(taken.source for taken in self.tensors.taken(update.node, update.positions))

    @cached_property
    def after(self) -> frozenset[int]:
        """What the updates follow from, behind the forward pass."""
        return self._before(self.updates)

    @cached_property
    def _values(self) -> frozenset[int]:
        """The forward pass without handles: what reads a weight again does not follow from it."""
        names, kind = self.flow.step.view.names, self.tensors.kind
        return frozenset(n for n in self.forward if kind(TensorName(names[n], 0)) != DT_RESOURCE)

    @cached_property
    def follows(self) -> frozenset[int]:
        """What follows from the forward pass, and the updates from it."""
        return self.flow.downstream(self._values) & self.after

    def on_the_way(self, node: int) -> frozenset[int]:
        """What a node takes of what follows from the forward pass, but for numbers of rows."""
        return self.follows.intersection(self._carried(node))

    def _carried(self, node: int) -> Collection[int]:
        """What values come to a node from; no gradient comes by the numbers of rows."""
        numbers = self.tensors.numbers_at(node)
        if numbers is None:
            return self.flow.fanins[node]
        return [taken.source for taken in self.tensors.taken(node) if taken.position != numbers]

    @cached_property
    def weight_of(self) -> Mapping[int, Resource]:
        """By the nodes that read them and do nothing else, in the forward pass or behind it."""
        reads, ops = self.variables.reads, self.flow.step.view.ops
        return {node: v for v in self.weights for node in reads.get(v, ()) if ops[node] == READ_OP}

    @cached_property
    def _computed(self) -> frozenset[int]:
        """What of the forward pass is neither a constant nor a weight."""
        ops = self.flow.step.view.ops
        return frozenset(n for n in self._values if n not in self.weight_of and ops[n] != "Const")

    @cached_property
    def data(self) -> frozenset[TensorName]:
        """What the forward pass is fed."""
        return frozenset(fed for node in self.forward for fed in self.tensors.fed(node))

    def begins(self, node: int, own: Resource | None = None) -> bool:
        """Does a node take what the forward pass computes or is fed, or a weight other than its `own`?

        A gradient may begin there. What an optimizer makes of one takes nothing of all that.
        """
        for fanin in self._carried(node):
            if fanin in self._computed or self.weight_of.get(fanin, own) != own:
                return True
        return not self.data.isdisjoint(self.tensors.fed(node, self.tensors.numbers_at(node)))

    def takes_data(self, node: int) -> bool:
        """Does a node take what the forward pass is fed?"""
        return not self.data.isdisjoint(self.tensors.fed(node))

    @cached_property
    def of_batch(self) -> frozenset[int]:
        """What follows from what the forward pass is fed or draws, in the forward pass, or takes such a feed."""
        begins = {node for node in self.forward if self._draws(node)}
        fed = {node for node in self.flow.step.order if self.takes_data(node)}
        return (self.flow.downstream(begins | fed) & self.forward) | fed

    def _draws(self, node: int) -> bool:
        """Is what a node gives decided by neither what it takes nor variables?"""
        definition = self.flow.step.view.nodes[node]
        if definition.op in self.tensors.item.custom_ops:
            return True
        stateful = self.tensors.table.signature(definition).is_stateful
        return stateful and definition.op not in HANDLE_OPS and definition.op != READ_OP
