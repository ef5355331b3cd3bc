"""Updates whose gradient was not seen: no update of a variable gets past the averages in silence."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import PassError
from tfwave.graph.names import CONTROL_PORT, natural_key, parse_input
from tfwave.graph.reach import reached
from tfwave.rewrite.resources import Resource, ResourceSurvey
from tfwave.rewrite.waves.optimizer import OptimizerPart
from tfwave.rewrite.waves.parts import ROWS_OPS
from tfwave.rewrite.waves.updates import Update

_ASSIGN_OP = "AssignVariableOp"
_APPLYING_OPS = ("ResourceApply", *ROWS_OPS)
_BRANCHES = frozenset({"If", "Case"})
"""In what an optimizer updates that does not do so in each step."""
_TABLE = "HashTable"
_OF_BACKWARD = (
    "update by whole gradients, and fetch what is only to be recorded; if that is the loss, fetch it or name it "
    "with the option boundary"
)
_OF_FORWARD = "make it part of the gradient, or name the loss with the option boundary"
_OF_BRANCHES = (
    "in branches, as of accumulated gradients, of scaled losses and between replicas, waves average whole "
    "gradients alone; make those of single rows dense, with tf.convert_to_tensor"
)


@dataclass(frozen=True)
class UnseenGradients:
    """Looks for gradients that come to updates past the averages.

    `averaged` are the places, by node and position, at which an average is taken in place of a gradient.
    """

    optimizer: OptimizerPart
    averaged: Collection[tuple[int, int]]

    def check(self) -> None:
        """Does each update of the step write what the averages, or no gradient at all, make of its variable?

        What an update takes is followed back along data edges, whatever its op is, up to the forward pass, and not
        through an average. What is then reached is left. An update is one of these, or it is refused:

        1. Averaged: nothing is left that the batch of a wave decides, neither of the backward pass nor of the
           forward pass: averages, variables, constants. So are counters, schedules, decays and constraints.
        2. A state of the forward pass, such as that of a recurrent layer: it assigns, as it is, what all losses
           follow from that follow from its variable. Or it is a call of the forward pass without an optimizer, or
           follows from the moments of an op of batch normalisation.
        3. A record, such as a metric or a moving average: neither the forward pass nor an update of what is trained
           follows from its variable, and nothing is left of the backward pass. Nor is it a weight of a loss that
           was overlooked: its update follows from nothing that is made of it and leads to what is fetched, too.

        Tables, which waves share, are records.

        Raises:
            PassError: an update is none of these; names it, its variable, and what is left.
        """
        names, parts = self._names, self.optimizer.parts
        for update in sorted(parts.writes, key=lambda update: names[update.node]):
            self._check_backward(update.node, update.variables[0])
            if self._is_state(update):
                continue
            if update in parts.updates:
                self._check_trained(update)
            else:
                self._check_record(update)
        for touch in sorted(parts.variables.touches, key=lambda touch: names[touch.node]):
            if touch.writes and _TABLE in touch.resource[0]:
                self._check_backward(touch.node, touch.resource)

    def _check_backward(self, node: int, variable: Resource) -> None:
        left = self._left(node) & self.optimizer.backward
        if left:
            raise PassError(
                f"{self._name(node, variable)} takes '{self._first(left)}', of the backward pass, which is not "
                f"averaged there: {self._way_out(node, _OF_BACKWARD)}"
            )

    def _check_trained(self, update: Update) -> None:
        left = self._left(update.node) & self.optimizer.parts.of_batch
        if left:
            raise PassError(
                f"{self._name(update.node, update.variables[0])} takes '{self._first(left)}', of the forward pass, "
                f"which is not averaged there: {self._way_out(update.node, _OF_FORWARD)}"
            )

    def _way_out(self, node: int, plain: str) -> str:
        return _OF_BRANCHES if self._ops[node] in _BRANCHES else plain

    def _check_record(self, update: Update) -> None:
        flow, reads = self.optimizer.parts.flow, self.optimizer.parts.variables.reads
        before = flow.upstream([update.node])
        for variable in update.variables:
            made = flow.downstream(reads.get(variable, ())).difference(reads.get(variable, ()))
            told = self._told & flow.downstream(made & before) - before
            if told:
                raise PassError(
                    f"{self._name(update.node, variable)} is not averaged, and '{self._first(told)}', which is "
                    "fetched, follows from the same: if that is a loss, name it with the option boundary, too"
                )

    def _name(self, node: int, variable: Resource) -> str:
        return f"node '{self._names[node]}' ({self._ops[node]}) updates '{variable[2]}' and"

    @cached_property
    def _told(self) -> frozenset[int]:
        """The nodes that give what is fetched, of floats."""
        tensors = self.optimizer.parts.tensors
        names = [parse_input(text) for text in tensors.item.fetches]
        return frozenset(tensors.node_of(n) for n in names if n.port != CONTROL_PORT and tensors.is_float(n))

    @property
    def _names(self) -> tuple[str, ...]:
        return self.optimizer.parts.flow.step.view.names

    @property
    def _ops(self) -> tuple[str, ...]:
        return self.optimizer.parts.flow.step.view.ops

    def _first(self, nodes: Collection[int]) -> str:
        return min((self._names[node] for node in nodes), key=natural_key)

    def _left(self, update: int) -> frozenset[int]:
        """What an update follows from past the averages: itself, and what reaches it behind the forward pass."""
        parts = self.optimizer.parts

        def taken(node: int) -> Iterable[int]:
            if node in parts.forward or not parts.flow.fanins[node]:
                return ()
            return [t.source for t in parts.tensors.taken(node) if (node, t.position) not in self.averaged]

        return reached(taken, [update])

    def _is_state(self, update: Update) -> bool:
        """Case 2."""
        parts = self.optimizer.parts
        if update in parts.statistics:
            return True
        if update.node in parts.forward:
            return not any(op.startswith(_APPLYING_OPS) for op in self._inner_ops(update.node))
        if self._ops[update.node] != _ASSIGN_OP:
            return False
        reads = {node for v in update.variables for node in parts.variables.reads.get(v, ())}
        losses = [found for end in parts.end if reads & (found := parts.flow.upstream([end]))]
        return bool(losses) and all(parts.sources(update) <= found for found in losses)

    def _inner_ops(self, node: int) -> list[str]:
        """What a call runs."""
        view = self.optimizer.parts.flow.step.view
        survey = ResourceSurvey(self.optimizer.parts.tensors.item, view)
        return [leaf.op for leaf in survey.leaves(view.nodes[node])]
