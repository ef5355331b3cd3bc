"""Lowering: function calls and functional control flow as plain nodes, as TensorFlow does before placement.

TensorFlow's pass goes through the nodes once, those that it adds included, and

1. inlines the calls of branches and loop bodies, and with `inline_calls` all other calls;
2. turns While, If and Case into the control flow of its executor, where they are marked for it.

It leaves alone what XLA is to compile, and functions that must not be inlined. Names, and so the edges between
devices, come out as in TensorFlow.
"""

from collections.abc import Container
from dataclasses import replace

from tfwave.errors import GraphError
from tfwave.graph.attrs import flag_attr, string_attr
from tfwave.graph.flow_ops import ARG_OPS, CALL_OPS, RETVAL_OPS
from tfwave.graph.functions.body import instantiate
from tfwave.graph.functions.expansion import MULTI_DEVICE
from tfwave.graph.functions.inline import Inlining
from tfwave.graph.functions.lower_if import CASE_OPS, IF_OPS, lower_case, lower_if
from tfwave.graph.functions.lower_while import WHILE_OPS, lower_while
from tfwave.graph.functions.nodes import Node, NodeGraph
from tfwave.graph.functions.size import refuse_too_large
from tfwave.graph.functions.unsupported import refuse_after_lowering, refuse_before_lowering, refuse_tpus
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import FunctionDef, GraphDef, NodeDef

_LOWERED = "_lower_using_switch_merge"
_XLA_MARKS = ("_tpu_replicate", "_xla_compile_id")
_XLA_FLAG = "_XlaMustCompile"
_LOWERINGS = {
    **dict.fromkeys(IF_OPS, lower_if),
    **dict.fromkeys(CASE_OPS, lower_case),
    **dict.fromkeys(WHILE_OPS, lower_while),
}


def lower(item: GraphItem, *, inline_calls: bool | None = None) -> GraphItem:
    """Lower a graph, or the body of a function: the latter has `_Arg` and `_Retval` nodes.

    Args:
        item: the graph; the devices of `_Arg` nodes, which TensorFlow fixes first, must be set.
        inline_calls: TensorFlow's option `do_function_inlining`. By default it is on for the body of a function,
            as where Python calls it, and off for a graph, as in a Session; it is off, too, for the body of a
            function that a Session's graph calls.

    Returns:
        The lowered graph, or `item` itself if there is nothing to lower. What was lowered leaves a node of its
        name: in a graph it can still be fetched, in a function only be waited for.

    Raises:
        GraphError: a malformed graph, a function that the library lacks, that calls itself, or that does not fit
            its call, an unknown op, or what `tfwave.graph.functions.unsupported` refuses; names the node and the
            function.
    """
    refuse_before_lowering(item.graph)
    fetchable = not any(node.op in ARG_OPS | RETVAL_OPS for node in item.graph.node)
    inline_calls = not fetchable if inline_calls is None else inline_calls
    functions = frozenset(function.signature.name for function in item.graph.library.function)
    if any(_is_lowered(node, functions, inline_calls) for node in item.graph.node):
        graph = _lowered(item.graph, functions, inline_calls, fetchable)
        refuse_tpus(graph)
        item = replace(item, graph=graph)
    refuse_after_lowering(item.graph)
    return item


def may_expand(node: NodeDef, functions: Container[str]) -> bool:
    """May TensorFlow put nodes of `functions` in the place of a node, as Grappler may do with calls, too?"""
    return _is_lowered(node, functions, inline_calls=True)


def _lowered(original: GraphDef, functions: Container[str], inline_calls: bool, fetchable: bool) -> GraphDef:
    lowered = [node for node in original.node if _is_lowered(node, functions, inline_calls)]
    refuse_too_large(lowered, original.library.function)
    graph = NodeGraph.of(original)
    for node in graph:
        if _is_lowered(node.definition, functions, inline_calls):
            _check_inputs(graph, node)
            lower_node = _LOWERINGS.get(node.op, _inline)
            lower_node(graph, node, fetchable=fetchable)
    return GraphDef(node=graph.definitions(), versions=original.versions, library=original.library)


def _is_lowered(node: NodeDef, functions: Container[str], inline_calls: bool) -> bool:
    if any(string_attr(node, mark) for mark in _XLA_MARKS) or flag_attr(node, _XLA_FLAG):
        return False
    if node.op in _LOWERINGS:
        return flag_attr(node, _LOWERED)
    return (node.op in CALL_OPS or node.op in functions) and (inline_calls or flag_attr(node, MULTI_DEVICE))


def _check_inputs(graph: NodeGraph, node: Node) -> None:
    expected = len(graph.input_types(node))
    if len(node.inputs) != expected:
        raise GraphError(f"node '{node.name}': {node.op} takes {expected} inputs, not {len(node.inputs)}")


def _inline(graph: NodeGraph, call: Node, *, fetchable: bool) -> None:
    """TensorFlow does not inline a function that says so, nor one that has other implementations to choose from."""
    function = _function_of(graph, call)
    body = instantiate(function, call.definition.attr, graph.table)
    multi_device = call.op in CALL_OPS or flag_attr(call.definition, MULTI_DEVICE)
    inlining = Inlining(graph, call, body, multi_device, fetchable)
    inlining.check()
    if "api_implements" in function.attr or _says_no(function):
        return
    inlining.run()


def _says_no(function: FunctionDef) -> bool:
    value = function.attr.get("_noinline")
    return value is not None and value.b


def _function_of(graph: NodeGraph, call: Node) -> FunctionDef:
    name = call.definition.attr["f"].func.name if call.op in CALL_OPS else call.op
    function = graph.functions.get(name)
    if function is None:
        raise GraphError(f"node '{call.name}': the function '{name}' is not in the graph's library")
    if name in call.functions:
        chain = " -> ".join((*call.functions[call.functions.index(name) :], name))
        raise GraphError(f"node '{call.name}': the function '{name}' calls itself ({chain}): not supported")
    return function
