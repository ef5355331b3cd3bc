"""Which nodes of a training step descend from the loss's gradient, and which read and update variables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tfwave.errors import PassError
from tfwave.graph.access import Resource
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.rewrite.steps.step import Step, union
from tfwave.rewrite.waves.boundary import BoundaryFinder
from tfwave.rewrite.waves.flow import DataFlow
from tfwave.rewrite.waves.updates import StepTensors, StepVariables, Update


@dataclass(frozen=True)
class StepFlow:
    """Nodes by number.

    Attributes:
        backward: the backward pass and the updates.
        either: what is made of the forward pass alone, and only for the backward pass.
        reads: of the nodes that read variables: which.
        changes: of those that update them: which.
    """

    backward: frozenset[int]
    either: frozenset[int]
    reads: Mapping[int, frozenset[Resource]]
    changes: Mapping[int, frozenset[Resource]]

    @classmethod
    def of(cls, item: GraphItem, view: GraphView) -> "StepFlow":
        """Follow the data of a step. No name tells what is backward.

        1. The forward pass is what its end follows from; weights are the variables that it reads. Of a step that
           gives metrics alone, as Keras's does, the end is what they add up.
        2. The gradient begins where the updates of as many weights as any follow from one node behind the forward
           pass: at what stands for the gradient of the loss. Backward is that, and all that follows from it. Each
           of several losses, as of a step in waves, is looked at by itself, with the weights that it follows from.
        3. What is made of the forward pass alone, such as the mask of a Relu, may run in either: it covers fewer
           weights, or all that takes it follows from a seed, which is made of no value of the forward pass.

        Raises:
            PassError: the step changes no weight, or the end of its forward pass is not found.
            GraphError: a handle that cannot be traced to what made it.
        """
        tensors = StepTensors(item, Step.of(item, view))
        variables = StepVariables.of(tensors)
        reads: dict[int, frozenset[Resource]] = {}
        for variable, nodes in variables.reads.items():
            reads.update({node: reads.get(node, frozenset()) | {variable} for node in nodes})
        changes = {update.node: frozenset(update.variables) for update in variables.updates}
        plain = DataFlow(tensors.step)
        passes = [plain.upstream([end]) for end in _ends(tensors, variables, plain)]
        backward = _backward(tensors, variables, passes)
        either = plain.upstream(backward) - backward
        return cls(backward, either.difference(*passes), reads, changes)


def _ends(tensors: StepTensors, variables: StepVariables, plain: DataFlow) -> tuple[int, ...]:
    """Where the forward pass ends: by what is fetched, or else also by what was added to variables that are."""
    try:
        return BoundaryFinder(tensors, variables, plain).find(())
    except PassError as error:
        added = DataFlow(tensors.step, _through_variables(tensors.step, variables, frozenset()))
        with suppress(PassError):
            return BoundaryFinder(tensors, variables, added).find(())
        raise error


def _backward(
    tensors: StepTensors, variables: StepVariables, passes: Sequence[frozenset[int]]
) -> frozenset[int]:
    forward = frozenset[int]().union(*passes)
    flow = DataFlow(tensors.step, _through_variables(tensors.step, variables, forward))
    read = [name for name, nodes in variables.reads.items() if not forward.isdisjoint(nodes)]
    weights = {name: 1 << number for number, name in enumerate(read)}
    updates = [update for update in variables.updates if not weights.keys().isdisjoint(update.variables)]
    if not updates:
        raise PassError("what it fetches updates no variable that its forward pass reads")
    covered = _covered(flow, _gradients(tensors, updates, weights), forward)
    own = {_bits(weights, variables, nodes) for nodes in passes}
    begins = sorted({node for bits in own for node in _begins(covered, bits)})
    given = flow.downstream(forward)
    seeded = flow.downstream([node for node in begins if node not in given])
    more = [node for node in begins if not seeded.issuperset(covered.keys() & flow.fanouts[node])]
    return (seeded | flow.downstream(more) | {update.node for update in updates}) - forward


def _through_variables(
    step: Step, variables: StepVariables, forward: frozenset[int]
) -> dict[int, tuple[int, ...]]:
    """The updates behind which a variable is read again, by the node that reads it, as slots of Keras 3 are."""
    bits = {update.node: 1 << number for number, update in enumerate(variables.updates)}
    before: dict[int, int] = {}
    for node in step.order:
        before[node] = bits.get(node, 0) | union(before.get(fanin, 0) for fanin in step.fanins[node])
    found: dict[int, tuple[int, ...]] = {}
    for update in variables.updates:
        for reader in {node for name in update.variables for node in variables.reads.get(name, ())}:
            if reader not in forward and reader != update.node and before.get(reader, 0) & bits[update.node]:
                found[reader] = (*found.get(reader, ()), update.node)
    return found


def _gradients(
    tensors: StepTensors, updates: Iterable[Update], weights: Mapping[Resource, int]
) -> dict[int, int]:
    """The bits of the weights of which an update takes something from a node: its gradient, or what decays it."""
    taken: dict[int, int] = {}
    for update in updates:
        own = union(weights.get(name, 0) for name in update.variables)
        for one in tensors.taken(update.node, update.positions):
            taken[one.source] = taken.get(one.source, 0) | own
    return taken


def _covered(flow: DataFlow, taken: Mapping[int, int], forward: frozenset[int]) -> dict[int, int]:
    """Of each node behind the forward pass: the weights of which an update follows from it, if any."""
    covered: dict[int, int] = dict(taken)
    for node in reversed(flow.step.order):
        for source in flow.fanins[node] if node in covered else ():
            covered[source] = covered.get(source, 0) | covered[node]
    return {node: bits for node, bits in covered.items() if node not in forward}


def _bits(weights: Mapping[Resource, int], variables: StepVariables, nodes: frozenset[int]) -> int:
    """The weights that one loss follows from."""
    return union(bit for name, bit in weights.items() if not nodes.isdisjoint(variables.reads[name]))


def _begins(covered: Mapping[int, int], own: int) -> Iterator[int]:
    """The nodes from which updates of as many of some weights follow as from any."""
    sets = {bits & own for bits in covered.values()} - {0}
    return (node for node, bits in covered.items() if bits & own in sets and _is_whole(bits & own, sets))


def _is_whole(bits: int, others: Iterable[int]) -> bool:
    """Is this set part of no larger one?"""
    return not any(bits != other and bits | other == other for other in others)
