"""Where a training step turns: the end of its forward pass, found by what follows from what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import PassError
from tfwave.graph.attrs import flag_attr
from tfwave.graph.levels import by_name
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.graph.reach import in_control_flow, upstream_of
from tfwave.rewrite.steps.step import union
from tfwave.rewrite.waves.flow import DataFlow
from tfwave.rewrite.waves.updates import StepTensors, StepVariables


@dataclass(frozen=True)
class BoundaryFinder:
    """Finds the end of the forward pass of one step."""

    tensors: StepTensors
    variables: StepVariables
    flow: DataFlow

    def find(self, named: Sequence[str]) -> tuple[int, ...]:
        """The nodes at which the forward pass ends, sorted by name.

        1. Those that are named.
        2. The losses: of the fetched tensors of floats those that follow from the most weights. Weights are what
           optimizer ops (ResourceApply...) update; without such ops, all variables that the step changes. Not
           tensors from which a gradient follows, nor those that follow from one: a norm of gradients is no loss.
           In place of one that waits for an update: what it follows from.
        3. For weights from which no such fetch follows: the first nodes that follow from as many weights as any.
           What comes after the last layer, such as the loss, then counts as the backward pass.

        Raises:
            PassError: there are none, or one is in a branch or a loop of TensorFlow 1's control flow.
        """
        found = [self._named(name) for name in named] or self._losses_and_turns()
        for node in () if found else self._compiled:
            raise PassError(
                f"node '{self._names[node]}' calls what XLA compiles as a whole, updates included, and no wave can "
                "begin within it: let XLA compile the forward pass alone"
            )
        if not found:
            raise PassError(
                "no end of the forward pass is found: fetch the loss, or name it, as in "
                f'{{boundary=["{self._example()}"]}}'
            )
        for node in found:
            if node in self._inside:
                raise PassError(
                    f"node '{self._names[node]}', the end of the forward pass, is in a branch or a loop of "
                    "TensorFlow 1: name one after it with the option boundary"
                )
        return by_name(self.flow.step.view, set(found))

    @property
    def _names(self) -> tuple[str, ...]:
        return self.flow.step.view.names

    def _example(self) -> str:
        """What could be named, for a message."""
        return next((parse_input(text).node for text in self.tensors.item.fetches), "loss")

    @property
    def _compiled(self) -> list[int]:
        """The updates that are calls of compiled functions."""
        nodes = self.flow.step.view.nodes
        return [u.node for u in self.variables.updates if flag_attr(nodes[u.node], "_XlaMustCompile")]

    @cached_property
    def _inside(self) -> frozenset[int]:
        return in_control_flow(self.flow.step.view)

    def _named(self, name: str) -> int:
        wanted = parse_input(name).node
        for node in self.flow.step.order:
            if self._names[node] == wanted:
                return node
        raise PassError(f"the step has no node '{wanted}', which the option boundary names")

    @cached_property
    def _gradients(self) -> frozenset[int]:
        """The nodes that give gradients to optimizer ops."""
        optimizers = [update for update in self.variables.updates if update.is_optimizer]
        taken = [t for update in optimizers for t in self.tensors.taken(update.node, update.positions)]
        return frozenset(t.source for t in taken)

    @cached_property
    def _weights(self) -> Mapping[int, int]:
        """The bit of each weight, on what reads it; those from which no gradient follows have none."""
        updates = self.variables.updates
        if self._gradients:
            updates = tuple([update for update in updates if update.is_optimizer])
            before = self.flow.upstream(self._gradients)
        else:
            before = frozenset(self.flow.step.order)
        changed = sorted({variable for update in updates for variable in update.variables})
        bits: dict[int, int] = {}
        for number, variable in enumerate(changed):
            for node in self.variables.reads.get(variable, ()):
                if node in before:
                    bits[node] = bits.get(node, 0) | 1 << number
        return bits

    @cached_property
    def _carried(self) -> Mapping[int, int]:
        return self.flow.carried(self._weights)

    def _losses_and_turns(self) -> list[int]:
        losses = self._losses()
        covered = union(self._carried[node] for node in losses)
        return [*losses, *(node for node in self._turns() if self._carried[node] | covered != covered)]

    def _losses(self) -> list[int]:
        """Case 2."""
        names = [parse_input(text) for text in self.tensors.item.fetches]
        floats = {
            self.tensors.node_of(n) for n in names if n.port != CONTROL_PORT and self.tensors.is_float(n)
        }
        reads = {node for nodes in self.variables.reads.values() for node in nodes}
        never = self.flow.downstream(self._gradients) | self.flow.upstream(self._gradients) | reads
        found = {early for node in floats - never for early in self._early(node)} - never
        most = max((self._carried[node].bit_count() for node in found), default=0)
        return [node for node in found if self._carried[node].bit_count() == most > 0]

    def _early(self, node: int) -> set[int]:
        """A node; or what its value follows from, if it waits for an update, as what a function gives does."""
        late = {update.node for update in self.variables.updates}
        stack, found, seen = [node], set[int](), {node}
        while stack:
            one = stack.pop()
            if late.isdisjoint(upstream_of(self.flow.step.view, [one])):
                found.add(one)
            else:
                more = set(self.flow.fanins[one]) - seen
                seen |= more
                stack += more
        return found

    def _turns(self) -> list[int]:
        """Case 3: of each set of weights that is part of no larger one."""
        before = self.flow.upstream(self._gradients) - self._inside
        sets = {self._carried[node] for node in before}
        largest = {
            one for one in sets if one and not any(one != other and one | other == other for other in sets)
        }
        complete = [node for node in before if self._carried[node] in largest]
        after = self.flow.downstream(complete)
        return [node for node in complete if after.isdisjoint(self.flow.fanins[node])]
