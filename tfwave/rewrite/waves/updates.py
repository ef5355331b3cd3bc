"""Which nodes of a step change variables, and through which of their inputs a gradient comes in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.graph.access import HANDLE_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.names import TensorName, parse_input
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import (
    DT_BFLOAT16,
    DT_DOUBLE,
    DT_FLOAT,
    DT_HALF,
    DT_INT32,
    DT_INT64,
    DT_RESOURCE,
)
from tfwave.rewrite.resources import Resource, ResourceSurvey, Touch
from tfwave.rewrite.steps.step import Step

_FLOATS = frozenset({DT_BFLOAT16, DT_HALF, DT_FLOAT, DT_DOUBLE})
INTEGERS = frozenset({DT_INT32, DT_INT64})
"""The types (`DataType`) of what can number rows."""
_OPTIMIZERS = ("ResourceApply", "ResourceSparseApply")
_GRADIENTS = frozenset({"grad", "delta"})
_ROWS_OPS = ("ResourceSparseApply", "ResourceScatter", "UnsortedSegment")
_NUMBERS = frozenset({"indices", "segment_ids"})


@dataclass(frozen=True)
class Update:
    """A node that changes variables; `positions` are those of the inputs by which a gradient may come in."""

    node: int
    variables: tuple[Resource, ...]
    positions: tuple[int, ...]
    is_optimizer: bool
    """Does its op say which of its inputs is a gradient?"""


@dataclass(frozen=True)
class Taken:
    """A tensor that a node takes: at which position, and from which node."""

    node: int
    position: int
    tensor: TensorName
    source: int


@dataclass(frozen=True)
class StepTensors:
    """The tensors that the nodes of a step take and give."""

    item: GraphItem
    step: Step

    @cached_property
    def table(self) -> OpTable:
        """The ops of the graph."""
        return OpTable.of(self.item.graph)

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {name: i for i, name in enumerate(self.step.view.names)}

    @cached_property
    def _fed(self) -> frozenset[TensorName]:
        return frozenset(map(parse_input, self.item.feeds))

    def node_of(self, tensor: TensorName) -> int:
        """The node that gives a tensor."""
        return self._index[tensor.node]

    def taken(self, node: int, positions: Iterable[int] | None = None) -> Iterator[Taken]:
        """What a node takes, at these positions or at all, without what is fed."""
        return (t for t in self.inputs(node, positions) if t.tensor not in self._fed)

    def inputs(self, node: int, positions: Iterable[int] | None = None) -> Iterator[Taken]:
        """What a node takes, at these positions or at all."""
        view = self.step.view
        for position in range(view.data_fanins[node]) if positions is None else positions:
            tensor = parse_input(view.nodes[node].input[position])
            yield Taken(node, position, tensor, self.node_of(tensor))

    def fed(self, node: int, but: int | None = None) -> frozenset[TensorName]:
        """What a node takes of what is fed, handles aside, and what is at the position `but`."""
        view = self.step.view
        taken = enumerate(map(parse_input, view.nodes[node].input[: view.data_fanins[node]]))
        return frozenset(t for i, t in taken if i != but and t in self._fed and self.kind(t) != DT_RESOURCE)

    def numbers_at(self, node: int) -> int | None:
        """At which position a node takes the numbers of the rows that it adds up or updates, if it does."""
        definition = self.step.view.nodes[node]
        if definition.op in self.item.custom_ops or not definition.op.startswith(_ROWS_OPS):
            return None
        args = self.table.signature(definition).input_arg
        return next((i for i, arg in enumerate(args) if arg.name in _NUMBERS), None)

    def kind(self, tensor: TensorName) -> int:
        """The type (a `DataType`) of a tensor; 0 for what a custom op gives.

        Raises:
            GraphError: the node lacks an attribute of its op.
        """
        node = self.step.view.nodes[self.node_of(tensor)]
        kinds = [] if node.op in self.item.custom_ops else self.table.output_types(node)
        return kinds[tensor.port] if 0 <= tensor.port < len(kinds) else 0

    def is_float(self, tensor: TensorName) -> bool:
        """Is it known to be one of floats?"""
        return self.kind(tensor) in _FLOATS

    def is_integer(self, tensor: TensorName) -> bool:
        """Is it known to be one of integers that can number rows?"""
        return self.kind(tensor) in INTEGERS


@dataclass(frozen=True)
class StepVariables:
    """How a step uses variables: what reads and what updates them."""

    reads: Mapping[Resource, tuple[int, ...]]
    updates: tuple[Update, ...]
    touches: Sequence[Touch]
    """Of all resources, those that are no variables included."""

    @classmethod
    def of(cls, tensors: StepTensors) -> "StepVariables":
        """The variables of a step.

        Raises:
            GraphError: as `ResourceSurvey.touches`.
        """
        step = tensors.step
        touches = ResourceSurvey(tensors.item, step.view).touches(step.order)
        reads: dict[Resource, tuple[int, ...]] = {}
        writes: dict[int, tuple[Resource, ...]] = {}
        for touch in touches:
            if touch.resource[0] in HANDLE_OPS and touch.writes:
                writes[touch.node] = (*writes.get(touch.node, ()), touch.resource)
            elif touch.resource[0] in HANDLE_OPS:
                reads[touch.resource] = (*reads.get(touch.resource, ()), touch.node)
        updates = [Update(node, found, *_positions(tensors, node)) for node, found in writes.items()]
        return cls(reads, tuple(updates), touches)

    @cached_property
    def changed(self) -> frozenset[Resource]:
        """The variables that the step changes."""
        return frozenset(variable for update in self.updates for variable in update.variables)


def _positions(tensors: StepTensors, node: int) -> tuple[tuple[int, ...], bool]:
    """The inputs of an update by which a gradient may come in, and whether its op says so."""
    view = tensors.step.view
    definition = view.nodes[node]
    if definition.op in tensors.item.custom_ops:
        return tuple(range(view.data_fanins[node])), False
    if definition.op.startswith(_OPTIMIZERS):
        args = tensors.table.signature(definition).input_arg
        return tuple([i for i, arg in enumerate(args) if arg.name in _GRADIENTS]), True
    kinds = tensors.table.input_types(definition)
    return tuple([i for i, kind in enumerate(kinds) if kind != DT_RESOURCE]), False
