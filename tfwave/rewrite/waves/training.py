"""A training step with its gradients: what goes from its backward pass to an optimizer.

Gradients are the tensors of floats that go from the backward pass into the optimizer's part or into the updates
(`tfwave.rewrite.waves.optimizer`), and with rows their numbers (`tfwave.rewrite.waves.rows`). The statistics of a
batch normalisation are none, nor are counts of a metric.
That no other update takes one is checked in the end (`tfwave.rewrite.waves.unseen`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfwave.errors import PassError
from tfwave.graph.access import works_on_reference
from tfwave.graph.item import GraphItem
from tfwave.graph.levels import by_name
from tfwave.graph.names import TensorName, natural_key
from tfwave.graph.reach import in_control_flow
from tfwave.graph.view import GraphView
from tfwave.rewrite.steps.step import Step
from tfwave.rewrite.waves.boundary import BoundaryFinder
from tfwave.rewrite.waves.flow import DataFlow
from tfwave.rewrite.waves.optimizer import OptimizerPart
from tfwave.rewrite.waves.parts import ROWS_OPS, StepParts
from tfwave.rewrite.waves.rows import SingleRows
from tfwave.rewrite.waves.unseen import UnseenGradients
from tfwave.rewrite.waves.updates import StepTensors, StepVariables, Taken, Update


@dataclass(frozen=True)
class Gradient:
    """A tensor that updates follow from, with all that takes it on the way to them, by name and position."""

    tensor: TensorName
    node: int
    kind: int
    """Its type, a `DataType`."""
    uses: tuple[tuple[int, int], ...]
    is_rows: bool
    """Is it single rows, or the numbers of such? Those of several waves come one after another."""


@dataclass(frozen=True)
class Training:
    """A training step taken apart.

    `end` are the nodes at which the forward pass ends, `backward` those of the backward pass, by number;
    `gradients` is sorted by name.
    """

    step: Step
    variables: StepVariables
    end: tuple[int, ...]
    backward: frozenset[int]
    gradients: tuple[Gradient, ...]

    @classmethod
    def of(cls, item: GraphItem, view: GraphView, boundary: Sequence[str] = ()) -> "Training":
        """Take a step apart; `boundary` names the end of its forward pass, where it is not to be found.

        Raises:
            PassError: the step works on references or changes no variable, the end of its forward pass is not
                found, there is no gradient or one that cannot be averaged, or an update takes one that was not
                seen; names the node.
            GraphError: an unknown op, or a handle that cannot be traced to what made it.
        """
        step = Step.of(item, view)
        tensors = StepTensors(item, step)
        _check_references(tensors)
        variables = StepVariables.of(tensors)
        if not variables.updates:
            raise PassError(
                f"what '{item.fetches[0]}' and the other fetches need changes no variable: fetch the train op, too"
            )
        flow = DataFlow(step)
        end = BoundaryFinder(tensors, variables, flow).find(boundary)
        optimizer = OptimizerPart(StepParts(tensors, variables, flow, end))
        return cls(step, variables, end, optimizer.backward, _gradients(optimizer))


def _check_references(tensors: StepTensors) -> None:
    """Refuse references, which cannot be told apart from their variables."""
    view = tensors.step.view
    for node in by_name(view, tensors.step.order):
        signature = tensors.table.known(view.ops[node])
        if signature is not None and works_on_reference(signature):
            raise PassError(
                f"node '{view.names[node]}' ({view.ops[node]}) works on a reference, and waves have resource "
                "variables of their own only: call tf.compat.v1.enable_resource_variables() before the graph is "
                "built"
            )


def _gradients(optimizer: OptimizerPart) -> tuple[Gradient, ...]:
    """The gradients of a step, by name; refuses what cannot be averaged."""
    parts, uses = optimizer.parts, dict[TensorName, list[Taken]]()
    for taken in optimizer.takes():
        if taken.source in optimizer.backward and parts.tensors.is_float(taken.tensor):
            uses.setdefault(taken.tensor, []).append(taken)
    _check_updates(optimizer)
    _check_gradients(parts, uses)
    single = SingleRows(optimizer, uses)
    rows = frozenset({*single.numbers, *single.numbers.values()})
    for taken in single.uses(rows.difference(single.numbers)):
        uses.setdefault(taken.tensor, []).append(taken)
    seen = [*single.uses(single.same), *(t for taken in uses.values() for t in taken)]
    UnseenGradients(optimizer, {(t.node, t.position) for t in seen}).check()
    found = [_gradient(parts, tensor, taken, tensor in rows) for tensor, taken in uses.items()]
    return tuple(sorted(found, key=lambda gradient: (natural_key(gradient.tensor.node), gradient.tensor)))


def _gradient(parts: StepParts, tensor: TensorName, taken: Iterable[Taken], is_rows: bool) -> Gradient:
    names, tensors = parts.flow.step.view.names, parts.tensors
    uses = sorted({(t.node, t.position) for t in taken}, key=lambda use: (names[use[0]], use[1]))
    return Gradient(tensor, tensors.node_of(tensor), tensors.kind(tensor), tuple(uses), is_rows)


def _check_updates(optimizer: OptimizerPart) -> None:
    """Refuse updates of slices, mixed ones, and those whose gradient lies before the forward pass ends."""
    parts, view = optimizer.parts, optimizer.parts.flow.step.view
    late = optimizer.backward | optimizer.nodes
    for update in sorted(parts.updates, key=lambda update: view.names[update.node]):
        sources = parts.sources(update)
        rows = view.ops[update.node].startswith(ROWS_OPS)
        if rows and parts.tensors.numbers_at(update.node) is None and not late.isdisjoint(sources):
            raise PassError(
                f"node '{view.names[update.node]}' ({view.ops[update.node]}) updates a slice of a variable, and "
                "waves average whole gradients and rows with numbers: assign to the whole variable"
            )
        if update.is_optimizer and not rows and not parts.forward.isdisjoint(sources):
            raise PassError(
                f"node '{view.names[update.node]}' takes its gradient from what is taken for the forward pass: "
                "name the loss with the option boundary"
            )
        _check_mixed(optimizer, update)


def _check_mixed(optimizer: OptimizerPart, update: Update) -> None:
    """Refuse an update if what it takes follows from a gradient, and nobody knows what of it is one."""
    view, tensors = optimizer.parts.flow.step.view, optimizer.parts.tensors
    name = f"node '{view.names[update.node]}' ({view.ops[update.node]})"
    assigns = view.ops[update.node] == "AssignVariableOp"
    known = {*update.positions, tensors.numbers_at(update.node)}
    for taken in tensors.taken(update.node):
        source = view.names[taken.source]
        beside = update.is_optimizer and taken.position not in known
        if beside and not optimizer.backward.isdisjoint(optimizer.parts.flow.upstream([taken.source])):
            raise PassError(
                f"{name} takes a gradient, and beside it '{source}', which follows from one, too, and would not be "
                "averaged: assign to the variable by ops of your own"
            )
        if assigns and tensors.is_float(taken.tensor) and optimizer.holds_weight(update, taken.source):
            raise PassError(
                f"{name} takes '{source}', made of a gradient and of what was read of the weight for the forward "
                "pass, and waves average gradients alone: read the weight again for its update"
            )


def _check_gradients(parts: StepParts, gradients: Iterable[TensorName]) -> None:
    """Refuse gradients in branches, and a step without any."""
    view = parts.flow.step.view
    inside = in_control_flow(view)
    found = sorted(gradients)
    if not found:
        raise PassError(
            f"no gradient goes from what follows '{view.names[parts.end[0]]}', where the forward pass ends, to "
            "an update of a variable: fetch all train ops, or name the loss with the option boundary"
        )
    for tensor in found:
        if parts.tensors.node_of(tensor) in inside:
            raise PassError(
                f"node '{tensor.node}' gives a gradient within a branch or a loop of TensorFlow 1: build the "
                "graph after tf.compat.v1.enable_control_flow_v2()"
            )
