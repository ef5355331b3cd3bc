"""Variables that tfwave itself keeps from call to call."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.graph.functions.nodes import type_attr
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import DT_BOOL, DT_FLOAT, DT_INT32, DT_RESOURCE, AttrValue


@dataclass(frozen=True)
class Kept:
    """A variable of one type (a `DataType`) on one device, for tensors of any shape."""

    graph: GraphRewriter
    name: str
    kind: int
    device: str

    def make(self, *, fed: bool) -> None:
        """Add its handle, which is a feed where `fed` is set."""
        if fed:
            self._add(self.name, "Placeholder", (), dtype=type_attr(DT_RESOURCE))
            return
        shape = AttrValue()
        shape.shape.unknown_rank = True
        shared = AttrValue(s=self.name.encode())
        self._add(self.name, "VarHandleOp", (), dtype=type_attr(self.kind), shape=shape, shared_name=shared)

    def read(self) -> str:
        """Add what reads it, once a call."""
        return self._add(f"{self.name}/read", "ReadVariableOp", (self.name,), dtype=type_attr(self.kind))

    def write(self, name: str, value: str, *waits: str) -> str:
        """Add what lets it hold another tensor; gives the control input that waits for it."""
        inputs = (self.name, value, *waits)
        added = self._add(f"{self.name}/{name}", "AssignVariableOp", inputs, dtype=type_attr(self.kind))
        return f"^{added}"

    def constant(self, name: str, value: int) -> str:
        """Add a constant of its type and on its device, a scalar."""
        return constant(self.graph, f"{self.name}/{name}", self.kind, value, self.device)

    def _add(self, name: str, op: str, inputs: tuple[str, ...], **attrs: AttrValue) -> str:
        return self.graph.add_node(name, op, inputs, device=self.device, attrs=attrs)


def integers(graph: GraphRewriter, name: str, values: Sequence[int], device: str) -> str:
    """Add a constant vector of 32-bit integers."""
    held = AttrValue()
    held.tensor.dtype = DT_INT32
    held.tensor.tensor_shape.dim.add(size=len(values))
    held.tensor.int_val.extend(values)
    return graph.add_node(name, "Const", device=device, attrs={"dtype": type_attr(DT_INT32), "value": held})


def constant(graph: GraphRewriter, name: str, kind: int, value: int, device: str) -> str:
    """Add a scalar constant: a truth value, or a small whole number as a float."""
    held = AttrValue()
    held.tensor.dtype = DT_BOOL if kind == DT_BOOL else DT_FLOAT
    held.tensor.tensor_shape.SetInParent()
    if kind == DT_BOOL:
        held.tensor.bool_val.append(bool(value))
    else:
        held.tensor.float_val.append(value)
    attrs = {"dtype": type_attr(held.tensor.dtype), "value": held}
    if kind == held.tensor.dtype:
        return graph.add_node(name, "Const", device=device, attrs=attrs)
    plain = graph.add_node(f"{name}/float", "Const", device=device, attrs=attrs)
    kinds = {"SrcT": type_attr(DT_FLOAT), "DstT": type_attr(kind)}
    return graph.add_node(name, "Cast", [plain], device=device, attrs=kinds)
