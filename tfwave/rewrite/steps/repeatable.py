"""Which nodes can be copied, so that several steps run in one call and give what they give one by one."""

from collections.abc import Container, Iterable

from tfwave.errors import GraphError
from tfwave.graph.access import IN_PLACE_OPS, KEEPING_OPS, KEYED_OPS, makes_handle, works_on_reference
from tfwave.graph.item import GraphItem
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.rewrite.resources import ResourceSurvey
from tfwave.rewrite.steps.draws import has_fixed_seeds


def check_repeatable(item: GraphItem, view: GraphView, nodes: Iterable[int], draws: Container[str]) -> None:
    """Can these nodes, and all that they call, run several times in one call?

    `draws` are the random ops that draw ahead.

    Raises:
        GraphError: no; names the node and the way out:
            1. a reference (VariableV2, Assign, ...): it can be changed under its reader;
            2. another random op with fixed seeds: each copy would draw the same numbers;
            3. a collective op: each run needs a key of its own;
            4. a handle that is made after other nodes: it would be made once, not once in each step;
            5. another op whose kernel remembers where it is (RecordInput): each copy would begin anew;
            6. an op that changes what it takes where it lies (InplaceAdd): it may be a variable, or shared by all.
    """
    table, survey = OpTable.of(item.graph), ResourceSurvey(item, view)
    for node in sorted(nodes, key=lambda n: view.names[n]):
        definition = view.nodes[node]
        if definition.op in item.custom_ops or definition.name in draws:
            continue
        _check(definition, definition.name, table)
        if makes_handle(definition, table):
            _check_handle(view, node)
        for leaf in survey.leaves(definition):
            if leaf.op not in item.custom_ops:
                _check(leaf, f"{definition.name}' calls '{leaf.name}", table)


def _check(node: NodeDef, name: str, table: OpTable) -> None:
    if works_on_reference(table.signature(node)):
        raise GraphError(
            f"node '{name}' ({node.op}) works on a reference, and steps overlap on resources only: call "
            "tf.compat.v1.enable_resource_variables() before the graph is built"
        )
    if has_fixed_seeds(node, table):
        raise GraphError(
            f"node '{name}' ({node.op}) keeps its random state to itself, and can draw for all steps ahead only if "
            "what it reads follows from constants: give it a fixed shape, outside of functions and branches, or "
            "use tf.random.Generator or tf.random.stateless_*, or set no seed"
        )
    if node.op in KEEPING_OPS:
        raise GraphError(
            f"node '{name}' ({node.op}) remembers by itself where it is, and each copy of it would begin anew: "
            "read with tf.data instead"
        )
    if node.op in IN_PLACE_OPS:
        raise GraphError(
            f"node '{name}' ({node.op}) changes what it takes where it lies, which may be a variable, or shared by "
            "all steps: use tf.tensor_scatter_nd_update instead"
        )
    if node.op.startswith(KEYED_OPS):
        raise GraphError(
            f"node '{name}' ({node.op}) meets its peers by a key, which copies of it would share: let each worker "
            "update variables on a server instead"
        )


def _check_handle(view: GraphView, node: int) -> None:
    if any(view.ops[fanin] != "Const" or view.fanins[fanin] for fanin in view.fanins[node]):
        raise GraphError(
            f"node '{view.names[node]}' ({view.ops[node]}) makes a handle after other nodes, once for all steps: "
            "create it outside of tf.control_dependencies"
        )
