"""Doing a pass's edits again, on a live `tf.Graph`."""

import importlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack
from typing import Any

from tfwave.errors import EnforcerError, excerpt
from tfwave.graph.edits import (
    AttrSet,
    ControlEdgeAdded,
    DeviceChanged,
    Edit,
    InputRedirected,
    InputsReplaced,
    NodeAdded,
    NodeRemoved,
)
from tfwave.graph.item import GraphItem
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.passes.base import Transform
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

_log = logging.getLogger("tfwave")


def live_item(
    graph: Any,
    feeds: Sequence[Any] = (),
    fetches: Sequence[Any] = (),
    keep: Iterable[Any] = (),
    handles: Mapping[str, str] | None = None,
) -> GraphItem:
    """A live graph as a pass takes it; `feeds` and `fetches` are its tensors, `keep` operations to preserve."""
    return GraphItem(
        GraphDef.FromString(graph.as_graph_def().SerializeToString()),
        feeds=tuple(tensor.name for tensor in feeds),
        fetches=tuple(tensor.name for tensor in fetches),
        preserve=frozenset(operation.name for operation in keep),
        handles=handles,
    )


def traced_item(graph: Any) -> GraphItem:
    """A traced function's graph as a pass takes it, with the device of each variable that it captures."""
    captures = ((inner, outer) for outer, inner in graph.captures if inner.dtype.name == "resource")
    handles = {inner.name: str(outer.device) for inner, outer in captures if outer.device}
    return live_item(graph, graph.inputs, graph.outputs, graph.control_outputs, handles)


def rewrite_live(graph: Any, graph_pass: Transform, item: GraphItem, undo: ExitStack) -> tuple[Edit, ...]:
    """Run a pass on `item`, repeat its edits on the graph it was made of; `undo` learns how to take them back.

    Nodes cannot leave a live graph: after the undoing, those that were added are there but lead nowhere. What the
    pass remarks is logged.

    Raises:
        EnforcerError: the pass removes nodes, or feeds one a tensor of another shape or type.
        TfwaveError: what the pass raises.
    """
    result = graph_pass(item)
    for remark in result.remarks:
        _log.info("tfwave: %s: %s", excerpt(str(graph_pass)), remark)
    edits = result.edits
    for edit in edits:
        if isinstance(edit, NodeRemoved):
            raise _refusal(graph_pass, f"node '{edit.node.name}' cannot be removed")
    try:
        _add_nodes(graph, [edit for edit in edits if isinstance(edit, NodeAdded)])
        for edit in edits:
            if not isinstance(edit, NodeAdded | NodeRemoved):
                undo.callback(_apply(graph, edit))
    except _tensorflow().errors.InvalidArgumentError as err:
        raise _refusal(graph_pass, err.message) from err
    except ValueError as err:
        raise _refusal(graph_pass, str(err)) from err
    return edits


def _refusal(graph_pass: Transform, why: str) -> EnforcerError:
    return EnforcerError(
        f"the pass {graph_pass} does what TensorFlow refuses in a live graph ({why}): rewrite the graph offline, "
        "or run the pass inside Grappler"
    )


def _add_nodes(graph: Any, added: Sequence[NodeAdded]) -> None:
    """Before all other edits, at once: no other edit takes away what a new node reads."""
    if not added:
        return
    tensorflow = _tensorflow()
    nodes = GraphDef(node=[edit.node for edit in added])
    own = {edit.node.name for edit in added}
    waits = {node.name: _take_outer_waits(node, own) for node in nodes.node}
    names = dict.fromkeys(name for node in nodes.node for name in node.input)
    known = {name: _source(graph, name) for name in names if parse_input(name).node not in own}
    graph_def = tensorflow.compat.v1.GraphDef.FromString(nodes.SerializeToString())
    graph_def.versions.CopyFrom(graph.graph_def_versions)
    with graph.as_default(), tensorflow.device(None), tensorflow.control_dependencies(None):
        tensorflow.graph_util.import_graph_def(graph_def, input_map=known, name="")
    for name, sources in waits.items():
        graph.get_operation_by_name(name)._add_control_inputs([_source(graph, source) for source in sources])


def _take_outer_waits(node: NodeDef, own: Set[str]) -> list[str]:
    """Take its control inputs from nodes that are not among `own` out of a node: TensorFlow imports none such."""
    waits = [name for name in node.input if name.startswith("^") and name[1:] not in own]
    kept = [name for name in node.input if name not in waits]
    del node.input[:]
    node.input.extend(kept)
    return waits


def _apply(graph: Any, edit: Edit) -> Callable[[], None]:
    """Repeat one edit; returns what takes it back."""
    match edit:
        case ControlEdgeAdded(source, target):
            operation = graph.get_operation_by_name(target)
            before = list(operation.control_inputs)
            operation._add_control_input(graph.get_operation_by_name(source))
            return lambda: _set_control_inputs(operation, before)
        case InputRedirected(node, position, old, new):
            operation = graph.get_operation_by_name(node)
            operation._update_input(position, _source(graph, new))
            return lambda: operation._update_input(position, _source(graph, old))
        case InputsReplaced(node, old, new):
            operation = graph.get_operation_by_name(node)
            _set_inputs(graph, operation, new)
            return lambda: _set_inputs(graph, operation, old)
        case DeviceChanged(node, old, new):
            operation = graph.get_operation_by_name(node)
            operation._set_device(new)
            return lambda: operation._set_device(old)
        case AttrSet(node, name, value):
            operation = graph.get_operation_by_name(node)
            there = operation.node_def.attr.get(name)
            was = there.SerializeToString() if there is not None else None
            _set_attr(operation, name, value.SerializeToString() if value is not None else None)
            return lambda: _set_attr(operation, name, was)
        case NodeAdded() | NodeRemoved():
            raise ValueError(f"node '{edit.node.name}' cannot come or go with an edit")


def _source(graph: Any, name: str) -> Any:
    """The operation that ``^node`` names, or the tensor that ``node:port`` names."""
    node, port = parse_input(name)
    operation = graph.get_operation_by_name(node)
    return operation if port == CONTROL_PORT else operation.outputs[port]


def _set_inputs(graph: Any, operation: Any, names: Sequence[str]) -> None:
    sources = [_source(graph, name) for name in names]
    data = len(operation.inputs)
    if len(sources) < data or any(name.startswith("^") for name in names[:data]):
        raise ValueError(f"node '{operation.name}' cannot get another number of inputs")
    for position, tensor in enumerate(sources[:data]):
        if operation.inputs[position] is not tensor:
            operation._update_input(position, tensor)
    _set_control_inputs(operation, sources[data:])


def _set_control_inputs(operation: Any, sources: Sequence[Any]) -> None:
    operation._remove_all_control_inputs()
    operation._add_control_inputs(list(sources))


def _set_attr(operation: Any, name: str, value: bytes | None) -> None:
    if value is None:
        operation._clear_attr(name)
    else:
        operation._set_attr(name, _tensorflow().compat.v1.AttrValue.FromString(value))


def _tensorflow() -> Any:
    return importlib.import_module("tensorflow")
