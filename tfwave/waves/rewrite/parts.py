"""A training step in its parts: forward pass, backward pass, what an optimizer computes, and the updates.

The parts follow from data edges alone, no name tells them:

1. The forward pass is what its end (`tfwave.waves.rewrite.boundary`) follows from.
2. Gradients come into optimizer ops (ResourceApply...). In a step without any they come into all updates of
   variables that the forward pass reads. Either way also into updates of variables that such updates follow from,
   behind the forward pass: slots that are assigned to.
3. The optimizer's part is what follows from variables that the forward pass does not read (slots, learning rate),
   up to these updates. An op that takes nothing but gradients belongs to it, too, if all that it gives goes there:
   the square of a gradient is not averaged, it is the square of an average.
4. The backward pass is what else these updates follow from, and follows from the forward pass.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tfwave.graph.resources import Resource
from tfwave.waves.rewrite.flow import DataFlow
from tfwave.waves.rewrite.updates import StepTensors, StepVariables, Taken, Update

ROWS_OPS = ("ResourceSparse", "ResourceScatter", "ResourceStridedSlice")
"""What updates single rows of a variable."""


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
    def _read_forward(self) -> frozenset[Resource]:
        reads = self.variables.reads
        return frozenset(v for v, nodes in reads.items() if not self.forward.isdisjoint(nodes))

    @cached_property
    def updates(self) -> tuple[Update, ...]:
        """Case 2."""
        updates = self.variables.updates
        of_weights = self._of(self._read_forward)
        rows = [u for u in of_weights if self.flow.step.view.ops[u.node].startswith(ROWS_OPS)]
        optimizers = [u for u in updates if u.is_optimizer]
        found = [*optimizers, *(u for u in rows if u not in optimizers)] if optimizers else of_weights
        while True:
            before = self._before(found)
            slots = [v for v, nodes in self.variables.reads.items() if not before.isdisjoint(nodes)]
            more = [update for update in self._of(slots) if update not in found]
            if not more:
                return tuple(found)
            found += more

    def _of(self, variables: Iterable[Resource]) -> list[Update]:
        wanted = set(variables)
        return [update for update in self.variables.updates if not wanted.isdisjoint(update.variables)]

    def _before(self, updates: Iterable[Update]) -> frozenset[int]:
        """What the values that updates take follow from, behind the forward pass."""
        taken = [t.source for u in updates for t in self.tensors.taken(u.node, u.positions)]
        return self.flow.upstream(taken) - self.forward

    @cached_property
    def _after(self) -> frozenset[int]:
        """What the updates follow from, behind the forward pass."""
        return self._before(self.updates)

    @cached_property
    def _ends(self) -> frozenset[int]:
        return frozenset(update.node for update in self.updates)

    @cached_property
    def _follows(self) -> frozenset[int]:
        """What follows from the forward pass, and the updates from it."""
        return self.flow.downstream(self.forward) & self._after

    @cached_property
    def _apart(self) -> frozenset[int]:
        """What follows from variables that are no weights and not read by the forward pass, up to the updates."""
        weights = {v for update in self.variables.updates if update.is_optimizer for v in update.variables}
        reads = self.variables.reads
        nodes = {n for v, found in reads.items() if v not in self._read_forward | weights for n in found}
        return self.flow.downstream(nodes - self.forward) & self._after

    @cached_property
    def optimizer(self) -> frozenset[int]:
        """Case 3."""
        given = {taken.source for taken in self.takes(self._apart)} & self._follows - self._apart
        derived = [found for node in given if (found := self._derived(node, given))]
        while True:
            found = self._apart.union(*derived)
            kept = [nodes for nodes in derived if self._users(nodes) <= found | self._ends]
            if len(kept) == len(derived):
                return found
            derived = kept

    def takes(self, optimizer: Iterable[int]) -> Iterator[Taken]:
        """What these nodes and the updates take."""
        for node in optimizer:
            yield from self.tensors.taken(node)
        for update in self.updates:
            yield from self.tensors.taken(update.node, update.positions)

    def _derived(self, node: int, given: set[int]) -> set[int]:
        """A node and those behind it, up to others of `given`; none if it follows from anything but those."""
        found: set[int] = set()
        stack = [node]
        while stack:
            one = stack.pop()
            found.add(one)
            fanins = self.flow.fanins[one]
            if not self.forward.isdisjoint(fanins) or self._takes_fed(one):
                return set()
            stack += [f for f in fanins if f in self._follows and f not in given and f not in found]
        return found

    def _takes_fed(self, node: int) -> bool:
        return len(list(self.tensors.taken(node))) < self.flow.step.view.data_fanins[node]

    def _users(self, nodes: Iterable[int]) -> set[int]:
        """What takes from these nodes on the way to the updates, those included."""
        on_the_way = self._after | self._ends
        return {user for node in nodes for user in self.flow.fanouts[node] if user in on_the_way}

    @cached_property
    def backward(self) -> frozenset[int]:
        """Case 4."""
        return self._follows - self.optimizer
