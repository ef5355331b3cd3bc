"""Do the nodes of a graph fit the signatures of their ops?"""

from collections.abc import Container, Iterable
from functools import cache

from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.marks import BARRIER_OP, STEP_MARKER_OP
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import AttrValue, NodeDef


def check_signatures(item: GraphItem, view: GraphView) -> None:
    """Check the ops, functions, inputs and output ports that a graph and its library name.

    Raises:
        GraphError: an unknown op, a function that the library lacks, too many or too few inputs, or an input that
            reads an output which its source does not have; names the node.
    """
    table = OpTable.of(item.graph)
    library = item.graph.library.function
    functions = {function.signature.name for function in library}
    for nodes in (view.nodes, *[function.node_def for function in library]):
        _check_ops(nodes, item, table, functions)
    _check_inputs(view, item, table)
    _check_ports(view, item, table)


def _check_ops(nodes: Iterable[NodeDef], item: GraphItem, table: OpTable, functions: Container[str]) -> None:
    callers: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.op not in callers:
            callers[node.op] = () if is_custom(node.op, item) else table.function_attrs(node)
        for attr in callers[node.op]:
            _check_calls(node, node.attr.get(attr), functions)


def is_custom(op: str, item: GraphItem) -> bool:
    """Is an op of no known signature: named by the user, or one by which tfwave marks steps and groups?"""
    return op in item.custom_ops or op == BARRIER_OP or op.startswith(STEP_MARKER_OP)


def _check_calls(node: NodeDef, value: AttrValue | None, functions: Container[str]) -> None:
    if value is None:
        return
    for called in (value.func, *value.list.func):
        if called.name and called.name not in functions:
            raise GraphError(
                f"node '{node.name}': it calls the function '{called.name}', which the graph's library lacks"
            )


def _check_inputs(view: GraphView, item: GraphItem, table: OpTable) -> None:
    """A node has as many data inputs as its op takes; most ops always take the same number."""
    fixed = {op: None if is_custom(op, item) else table.input_count(op) for op in sorted(set(view.ops))}
    for i, op in enumerate(view.ops):
        count = fixed[op]
        if count == view.data_fanins[i] or is_custom(op, item):
            continue
        wanted = len(table.input_types(view.nodes[i])) if count is None else count
        if wanted != view.data_fanins[i]:
            raise GraphError(
                f"node '{view.names[i]}': {op} takes {wanted} data inputs, it has {view.data_fanins[i]}"
            )


def _check_ports(view: GraphView, item: GraphItem, table: OpTable) -> None:
    """Only inputs beyond the first output need a closer look, and those of ops without any output."""
    silent = {op for op in set(view.ops) if not is_custom(op, item) and _is_silent(op, table)}

    @cache
    def output_count(source: int) -> int:
        return len(table.output_types(view.nodes[source]))

    for i, node in enumerate(view.nodes):
        for position, source in enumerate(view.fanins[i][: view.data_fanins[i]]):
            text = node.input[position]
            if ":" not in text and view.ops[source] not in silent:
                continue
            port = parse_input(text).port
            if not is_custom(view.ops[source], item) and port >= output_count(source):
                raise GraphError(
                    f"node '{node.name}': input '{text}' names output {port} of a node that has "
                    f"{output_count(source)} ({view.ops[source]})"
                )


def _is_silent(op: str, table: OpTable) -> bool:
    return not table.signature(NodeDef(op=op)).output_arg
