"""The nodes that average one gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.graph.functions.nodes import type_attr
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import DT_BOOL, DT_INT32, AttrValue
from tfwave.rewrite.waves.kept import Kept, constant, integers
from tfwave.rewrite.waves.names import SCOPE, wave_name
from tfwave.rewrite.waves.training import Gradient
from tfwave.rewrite.waves.updates import INTEGERS


def going_on(graph: GraphRewriter) -> Kept:
    """Says whether any wave came before."""
    return Kept(graph, f"{SCOPE}/going_on", DT_BOOL, "")


@dataclass(frozen=True)
class AverageNodes:
    """Adds them, on the device that computes the gradient."""

    graph: GraphRewriter
    gradient: Gradient

    @property
    def _scope(self) -> str:
        tensor = self.gradient.tensor
        return f"{SCOPE}/average/{tensor.node}_{tensor.port}"

    @property
    def _device(self) -> str:
        return self.graph.item.graph.node[self.gradient.node].device

    @property
    def kept(self) -> Kept:
        """Holds the gradient of the last wave of a call."""
        return Kept(self.graph, f"{self._scope}/kept", self.gradient.kind, self._device)

    def given(self, waves: int) -> list[str]:
        """The gradient of each wave; numbers of rows that are constant are one tensor for all."""
        tensor = self.gradient.tensor
        text = f"{tensor.node}:{tensor.port}" if tensor.port else tensor.node
        own = self.graph.has_node(wave_name(tensor.node, 1))
        return [wave_name(text, wave if own else 0) for wave in range(waves)]

    def add(self, name: str, op: str, inputs: Sequence[str], **attrs: AttrValue) -> str:
        """Add a node that works on tensors of the gradient's type, if `attrs` say no other."""
        typed = {"T": type_attr(self.gradient.kind), **attrs}
        return self.graph.add_node(f"{self._scope}/{name}", op, inputs, device=self._device, attrs=typed)

    def before(self, kept: str, own: str) -> str:
        """What is kept; a wave's own gradient where none came before."""
        return self.add("before", "SelectV2", [f"{going_on(self.graph).name}/read", kept, own])

    def sum_all(self, name: str, tensors: Sequence[str]) -> str:
        """Add up the gradients of all waves."""
        return self.add(name, "AddN", tensors, N=AttrValue(i=len(tensors)))

    def sum_pair(self, name: str, inputs: Sequence[str]) -> str:
        """Add two; what else is among the inputs is waited for."""
        return self.add(name, "AddV2", inputs)

    def divide(self, name: str, total: str, count: int) -> str:
        """Divide a sum."""
        return self.add(name, "RealDiv", [total, self.count(f"{name}/count", count)])

    def divide_first(self, name: str, total: str, count: int) -> str:
        """Divide the sum of the first wave of a call."""
        return self.divide(name, total, count)

    def count(self, name: str, value: int) -> str:
        """Add a number to divide by."""
        return constant(self.graph, f"{self._scope}/{name}", self.gradient.kind, value, self._device)


@dataclass(frozen=True)
class RowsNodes(AverageNodes):
    """For a gradient of single rows, or for the numbers of its rows, which are not divided.

    Their sum has the rows of all, one after another.
    """

    def before(self, kept: str, own: str) -> str:
        """What is kept; no row where no wave came before."""
        zero, one = self._integers("before/zero", [0]), self._integers("before/one", [1])
        index = type_attr(DT_INT32)
        none = self.add("before/none", "StridedSlice", [own, zero, zero, one], Index=index)
        flag = f"{going_on(self.graph).name}/read"
        first = self.add("before/first", "Switch", [none, flag])
        later = self.add("before/later", "Switch", [kept, flag])
        return self.add("before", "Merge", [first, f"{later}:1"], N=AttrValue(i=2))

    def sum_all(self, name: str, tensors: Sequence[str]) -> str:
        """Join the rows of all waves."""
        return self._join(name, tensors)

    def sum_pair(self, name: str, inputs: Sequence[str]) -> str:
        """Join those of two."""
        return self._join(name, inputs[:2], inputs[2:])

    def divide(self, name: str, total: str, count: int) -> str:
        """Divide all rows."""
        return total if self.gradient.kind in INTEGERS else super().divide(name, total, count)

    def divide_first(self, name: str, total: str, count: int) -> str:
        """Divide them if a wave came before."""
        if self.gradient.kind in INTEGERS:
            return total
        flag = f"{going_on(self.graph).name}/read"
        counts = [self.count(f"{name}/count", count), self.count(f"{name}/one", 1)]
        return self.add(name, "RealDiv", [total, self.add(f"{name}/now", "SelectV2", [flag, *counts])])

    def _join(self, name: str, tensors: Sequence[str], waits: Sequence[str] = ()) -> str:
        attrs = {"N": AttrValue(i=len(tensors)), "Tidx": type_attr(DT_INT32)}
        axis = constant(self.graph, f"{self._scope}/{name}/axis", DT_INT32, 0, self._device)
        return self.add(name, "ConcatV2", [*tensors, axis, *waits], **attrs)

    def _integers(self, name: str, values: Sequence[int]) -> str:
        return integers(self.graph, f"{self._scope}/{name}", values, self._device)
