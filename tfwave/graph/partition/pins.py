"""The ends of a function: where its arguments are, and where its results go."""

from collections.abc import Mapping
from dataclasses import replace

from tfwave.errors import GraphError
from tfwave.graph.attrs import CLASS_ATTR
from tfwave.graph.flow_ops import ARG_OPS, CALL_OPS, RETVAL_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.partition.devices import DeviceSet, parse_device
from tfwave.graph.partition.signatures import IDENTITY_OPS, as_type
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, AttrValue, GraphDef, NodeDef

_ARGUMENTS = frozenset({"Placeholder", "Const"})
"""What a traced function's inputs are: TensorFlow shows the small tensors that it captures as constants."""


def is_function(graph: GraphDef) -> bool:
    """Is it the body of a function: has it arguments or returns?"""
    return any(node.op in ARG_OPS or node.op in RETVAL_OPS for node in graph.node)


def as_job(item: GraphItem) -> GraphItem:
    """The graph as TensorFlow runs it: that of a traced function becomes its body.

    Raises:
        GraphError: as `as_function`; or a node of a custom op, of which nobody knows what it takes and gives.
    """
    for node in item.graph.node if item.custom_ops else ():
        if node.op in item.custom_ops:
            raise GraphError(
                f"node '{node.name}': nobody knows offline where an op of your own ('{node.op}') runs: plan and "
                "rewrite what is cut already, such as a worker's partition or a capture of the job"
            )
    return item if item.handles is None else as_function(item, item.handles)


def as_function(item: GraphItem, handles: Mapping[str, str] | None = None) -> GraphItem:
    """The graph of a traced function (``concrete.graph.as_graph_def()``) as the body that TensorFlow runs.

    Fed placeholders and constants become arguments, fetched tensors ``node:port`` returns; other fetches are only
    run.

    Args:
        item: its feeds are in the order of the function's inputs.
        handles: the device of an input, by its name as in the feeds: where the variable is.

    Raises:
        GraphError: a feed that is no placeholder or constant, or a feed or fetch that the graph does not have.
    """
    graph = GraphDef()
    graph.CopyFrom(item.graph)
    by_name = {node.name: node for node in graph.node}
    for index, text in enumerate(item.feeds):
        _make_argument(_named(text, by_name), index, (handles or {}).get(text, ""))
    table = OpTable.of(graph)
    tensors = [text for text in item.fetches if ":" in text]
    returns = [_return(text, index, by_name, table) for index, text in enumerate(tensors)]
    graph.node.extend(returns)
    runs = frozenset(text for text in item.fetches if ":" not in text)
    return GraphItem(graph, (), tuple(node.name for node in returns), item.preserve | runs)


def pinned(item: GraphItem, devices: DeviceSet) -> GraphItem:
    """Give devices to the arguments and returns of a function that have none.

    Arguments are where the caller is. A return follows what makes it, looking through Identities:
    Case 1: its producer names a colocation group: the return joins it.
    Case 2: its producer asks for a device that only one device matches: there.
    Case 3: else it is placed as any other node; so is a resource that a call makes, and a variant that is no
    argument.
    """
    graph = GraphDef()
    graph.CopyFrom(item.graph)
    by_name = {node.name: node for node in graph.node}
    for node in graph.node:
        if node.op in ARG_OPS and not node.device:
            node.device = str(devices.client)
    for node in graph.node:
        if node.op in RETVAL_OPS and not node.device:
            _pin_return(node, by_name, devices)
    return replace(item, graph=graph)


def _named(text: str, by_name: Mapping[str, NodeDef]) -> NodeDef:
    node = by_name.get(parse_input(text).node)
    if node is None:
        raise GraphError(f"'{text}' is fed or fetched, but the graph does not have it")
    return node


def _make_argument(node: NodeDef, index: int, device: str) -> None:
    if node.op not in _ARGUMENTS:
        raise GraphError(
            f"'{node.name}' is fed, but it is no Placeholder and no constant: only those can be arguments"
        )
    kind = node.attr["dtype"].type
    node.ClearField("attr")
    node.op, node.device = "_Arg", device
    node.attr["T"].type, node.attr["index"].i = kind, index


def _return(text: str, index: int, by_name: Mapping[str, NodeDef], table: OpTable) -> NodeDef:
    producer, port = _named(text, by_name), parse_input(text).port
    types = table.output_types(producer)
    if port >= len(types):
        raise GraphError(f"'{text}' is fetched, but '{producer.name}' has {len(types)} outputs")
    attrs = {"T": AttrValue(type=as_type(types[port])), "index": AttrValue(i=index)}
    return NodeDef(name=f"{producer.name}_{index}_RetVal", op="_Retval", input=[text], attr=attrs)


def _pin_return(node: NodeDef, by_name: Mapping[str, NodeDef], devices: DeviceSet) -> None:
    source = _producer(node, by_name)
    group = source.attr.get(CLASS_ATTR)
    kind = node.attr["T"].type
    if group is not None and group.list.s:
        node.attr[CLASS_ATTR].list.s.append(group.list.s[0])
        return
    if not source.device or (kind == DT_RESOURCE and source.op in CALL_OPS):
        return
    if kind == DT_VARIANT and source.op not in ARG_OPS:
        return
    matching = devices.matching(parse_device(source.device))
    if len(matching) == 1:
        node.device = str(matching[0])


def _producer(node: NodeDef, by_name: Mapping[str, NodeDef]) -> NodeDef:
    source = _first_input(node, by_name)
    while source.op in IDENTITY_OPS and not source.device and CLASS_ATTR not in source.attr:
        source = _first_input(source, by_name)
    return source


def _first_input(node: NodeDef, by_name: Mapping[str, NodeDef]) -> NodeDef:
    if not node.input or node.input[0].startswith("^"):
        raise GraphError(f"node '{node.name}': {node.op} lacks its input 0")
    return _named(node.input[0], by_name)
