"""What outlives a step, and which nodes touch it: variables, tables, queues, iterators, and the process itself.

A resource is known by its name, not by its handle: two handles of one variable are one resource.

1. A handle that keeps its name from step to step (VarHandleOp, HashTableV2, ...) stands for a resource.
2. A handle that is made anew in each step (TensorArrayV3, StackV2, Anonymous...) stands for nothing that stays.
3. A stateful op without any handle (PyFunc, Print, ...) touches the process, `PROCESS`, all others alike.
4. A call touches what it is given, and what its functions touch by themselves.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.attrs import string_attr
from tfwave.graph.flow_ops import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_OPS, SWITCH_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.names import TensorName, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, NodeDef, OpDef

Resource = tuple[str, str, str]
"""(the op that makes its handle, container, name)."""

PROCESS: Resource = ("", "", "")

READING_OPS = frozenset(
    {
        *(
            "ReadVariableOp",
            "_ReadVariablesOp",
            "ReadVariableXlaSplitND",
            "VarIsInitializedOp",
            "VariableShape",
        ),
        *(
            "ResourceGather",
            "ResourceGatherNd",
            "LookupTableFindV2",
            "LookupTableSizeV2",
            "LookupTableExportV2",
        ),
        *("QueueSizeV2", "QueueIsClosedV2", "ResourceAccumulatorNumAccumulated", "IteratorGetDevice"),
    }
)
"""All other ops that take a handle are taken to change what is behind it."""
STATELESS_OPS = frozenset(
    {
        *("Assert", "CheckNumerics", "CheckNumericsV2", "GuaranteeConst", "DeepCopy", "Empty", "DeviceIndex"),
        *("NonDeterministicInts", "StatelessRandomGetAlg", "IsTensorFloat32Enabled", "GraphDefVersion"),
        *("TensorDataset", "TensorSliceDataset", "RangeDataset", "DtypeWithDefaultOp"),
    }
)
"""Ops that are registered as stateful and leave nothing behind."""
_ITERATORS: Resource = ("Iterator", "", "")
"""All iterators as one, in a graph that finds some by a string: it could be any."""
_FRESH_OPS = frozenset({"StackV2", "TensorArrayV3", "TensorArrayGradV3", "TensorArrayGradWithShape"})
_PASSING_OPS = frozenset({"Identity", *ENTER_OPS, *EXIT_OPS, *NEXT_OPS, *SWITCH_OPS})
_MANY_PASSING_OPS = frozenset({"IdentityN", *MERGE_OPS})
_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
"""The name of a variable that is made anew at each run of its VarHandleOp."""


@dataclass(frozen=True)
class Touch:
    """A node that reads a resource or, as far as is known, changes it."""

    resource: Resource
    node: int
    writes: bool


def makes_handle(node: NodeDef, table: OpTable) -> bool:
    """Does a node give the handle of something that outlives a step? Case 1 of the module.

    Raises:
        GraphError: an unknown op.
    """
    signature = table.signature(node)
    if node.op in ("Placeholder", "_Arg"):
        return table.output_types(node) == [DT_RESOURCE]
    named = any(attr.name == "shared_name" for attr in signature.attr)
    return named and _gives_handle(signature) and string_attr(node, "shared_name") != _ANONYMOUS


def is_random(signature: OpDef) -> bool:
    """Does the kernel of an op draw numbers by itself, from seeds that are its attributes?"""
    names = {attr.name for attr in signature.attr}
    return {"seed", "seed2"} <= names and not _gives_handle(signature)


class ResourceSurvey:
    """Finds the resources that the nodes of one graph touch."""

    def __init__(self, item: GraphItem, view: GraphView) -> None:
        """Survey a graph, whose custom ops are taken to change all that they are given, and the process."""
        self._custom = item.custom_ops
        self._view = view
        self._index = {name: i for i, name in enumerate(view.names)}
        self._table = OpTable.of(item.graph)
        self._functions = {f.signature.name: f for f in item.graph.library.function}
        self._joins_iterators = any("FromStringHandle" in op for op in view.ops)

    def touches(self, nodes: Iterable[int]) -> list[Touch]:
        """What these nodes touch; each node and resource once.

        Raises:
            GraphError: a handle that cannot be traced to what made it; names the node.
        """
        return [touch for node in nodes for touch in self._node_touches(node)]

    def leaves(self, node: NodeDef) -> list[NodeDef]:
        """The nodes of all functions that a node calls, and of those that they call."""
        names = deque(self._called(node))
        found: dict[str, Sequence[NodeDef]] = {}
        while names:
            name = names.popleft()
            if name not in found:
                found[name] = self._functions[name].node_def
                names += [called for leaf in found[name] for called in self._called(leaf)]
        return [leaf for leaves in found.values() for leaf in leaves]

    def _called(self, node: NodeDef) -> list[str]:
        values = [node.attr[name] for name in sorted(node.attr)]
        called = [func.name for value in values for func in (value.func, *value.list.func)]
        return list(dict.fromkeys(name for name in (node.op, *called) if name in self._functions))

    def _node_touches(self, node: int) -> Iterator[Touch]:
        definition = self._view.nodes[node]
        if definition.op in _PASSING_OPS or definition.op in _MANY_PASSING_OPS:
            return
        leaves = self.leaves(definition) or [definition]
        writes = not all(map(self._leaves_as_it_is, leaves))
        inside = [self._name(leaf) for leaf in leaves if leaf is not definition and self._is_handle(leaf)]
        for resource in sorted({*self._given(node), *inside}):
            yield Touch(resource, node, writes)
        if any(map(self._touches_process, leaves)):
            yield Touch(PROCESS, node, writes=True)

    def _leaves_as_it_is(self, node: NodeDef) -> bool:
        """Does it, calls aside, change none of the resources that it takes?"""
        if node.op in self._custom:
            return False
        takes = any(arg.type == DT_RESOURCE for arg in self._table.signature(node).input_arg)
        return not takes or node.op in READING_OPS

    def _touches_process(self, node: NodeDef) -> bool:
        if node.op in self._custom:
            return True
        signature = self._table.signature(node)
        if not signature.is_stateful or node.op in STATELESS_OPS or self._table.calls_functions(node):
            return False
        ends = (*signature.input_arg, *signature.output_arg)
        return not is_random(signature) and all(arg.type != DT_RESOURCE for arg in ends)

    def _is_handle(self, node: NodeDef) -> bool:
        return node.op not in self._custom and makes_handle(node, self._table)

    def _name(self, node: NodeDef) -> Resource:
        if self._joins_iterators and "Iterator" in node.op:
            return _ITERATORS
        name = string_attr(node, "shared_name")
        return (
            node.op,
            string_attr(node, "container"),
            name if node.op == "VarHandleOp" else name or node.name,
        )

    def _given(self, node: int) -> Iterator[Resource]:
        """The resources whose handles a node takes."""
        definition = self._view.nodes[node]
        inputs = [parse_input(text) for text in definition.input[: self._view.data_fanins[node]]]
        known = definition.op not in self._custom
        kinds = self._table.input_types(definition) if known else [self._kind(i) for i in inputs]
        for tensor, kind in zip(inputs, kinds, strict=True):
            if kind == DT_RESOURCE:
                yield from self._origins(tensor, definition)

    def _kind(self, tensor: TensorName) -> int:
        source = self._view.nodes[self._index[tensor.node]]
        return 0 if source.op in self._custom else self._table.output_types(source)[tensor.port]

    def _origins(self, tensor: TensorName, reader: NodeDef) -> Iterator[Resource]:
        """Follow a handle back through the nodes that pass it on."""
        tensors, seen = deque([tensor]), {tensor}
        while tensors:
            found = tensors.popleft()
            source = self._view.nodes[self._index[found.node]]
            if source.op in _PASSING_OPS or source.op in _MANY_PASSING_OPS:
                passed = dict.fromkeys(t for t in self._passed(source, found.port) if t not in seen)
                tensors += passed
                seen |= passed.keys()
            elif self._is_handle(source) or "IteratorFromStringHandle" in source.op:
                yield self._name(source)
            elif not _is_fresh(source):
                raise GraphError(
                    f"node '{reader.name}' takes a handle from '{source.name}' ({source.op}), which does not say "
                    "whose it is: pass the handle itself"
                )

    def _passed(self, node: NodeDef, port: int) -> Sequence[TensorName]:
        inputs = [parse_input(text) for text in node.input if not text.startswith("^")]
        if node.op in MERGE_OPS:
            return inputs
        return [inputs[port if node.op == "IdentityN" else 0]]


def _gives_handle(signature: OpDef) -> bool:
    return any(arg.type == DT_RESOURCE for arg in signature.output_arg)


def _is_fresh(node: NodeDef) -> bool:
    """Case 2 of the module."""
    anonymous = string_attr(node, "shared_name") == _ANONYMOUS
    return anonymous or node.op in _FRESH_OPS or node.op.startswith("Anonymous")
