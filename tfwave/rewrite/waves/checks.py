"""Which steps can run in several waves."""

from collections.abc import Collection

from tfwave.errors import PassError
from tfwave.graph.access import KEYED_OPS, resource_of
from tfwave.graph.item import GraphItem
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.rewrite.resources import Resource, ResourceSurvey
from tfwave.rewrite.steps.draws import has_fixed_seeds
from tfwave.rewrite.waves.copies import KEY_INPUT
from tfwave.rewrite.waves.training import Training


def check_step(item: GraphItem, training: Training) -> None:
    """Can the nodes of a step, and all that they call, run in each wave with variables of its own?

    Raises:
        PassError: no; names the node and the way out:
            1. a function with a random op of fixed seeds or a collective: waves share functions;
            2. a function that finds a variable of the step by its name;
            3. a collective that has no instance key;
            4. an accumulator, which sums up over steps outside of variables.
        GraphError: an unknown op.
    """
    view, table, changed = training.step.view, OpTable.of(item.graph), training.variables.changed
    survey = ResourceSurvey(item, view)
    for node in sorted(training.step.order, key=lambda n: view.names[n]):
        definition = view.nodes[node]
        if definition.op not in item.custom_ops:
            _check(definition, table)
        for leaf in survey.leaves(definition):
            if leaf.op not in item.custom_ops:
                _check_leaf(leaf, definition.name, table, changed)
    for touch in training.variables.touches:
        if touch.writes and "Accumulator" in touch.resource[0]:
            raise PassError(
                f"node '{view.names[touch.node]}' touches an accumulator, which waves would share: average "
                "gradients in the graph instead"
            )


def _check(node: NodeDef, table: OpTable) -> None:
    signature = table.signature(node)
    keys = (*signature.attr, *signature.input_arg)
    if node.op.startswith(KEYED_OPS) and not any(key.name == KEY_INPUT for key in keys):
        raise PassError(
            f"node '{node.name}' ({node.op}) meets its peers by what is not an instance key, and copies of it "
            "would meet each other: use collectives with instance keys (CollectiveReduceV2)"
        )


def _check_leaf(leaf: NodeDef, caller: str, table: OpTable, changed: Collection[Resource]) -> None:
    name = f"node '{caller}' calls '{leaf.name}' ({leaf.op}), "
    if has_fixed_seeds(leaf, table):
        raise PassError(
            f"{name}which keeps its random state to itself, so that waves would share it: call it outside of "
            "functions, or use tf.random.Generator or tf.random.stateless_*, or set no seed"
        )
    if leaf.op.startswith(KEYED_OPS):
        raise PassError(f"{name}whose key the waves would share: call collectives outside of functions")
    if resource_of(leaf) in changed:
        raise PassError(f"{name}a variable that each wave has for itself: pass its handle to the function")
