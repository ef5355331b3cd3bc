"""The attributes of one call, bound to the placeholders in the function's body."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.ops import MOST_TENSORS, REF
from tfwave.proto.tensorflow_pb2 import AttrValue, NodeDef, OpDef


@dataclass(frozen=True)
class Binding:
    """The attributes of a call, and the defaults of the function's signature where the call has none."""

    values: Mapping[str, AttrValue]

    @classmethod
    def of(cls, signature: OpDef, attrs: Mapping[str, AttrValue]) -> "Binding":
        """Bind a signature.

        Raises:
            GraphError: an attribute with neither a value nor a default.
        """
        values = {attr.name: attr.default_value for attr in signature.attr if attr.HasField("default_value")}
        values |= attrs
        for attr in signature.attr:
            if attr.name not in values:
                raise GraphError(f"the call gives no value to the attribute '{attr.name}'")
        return cls(values)

    def types(self, arg: OpDef.ArgDef) -> list[int]:
        """The types of the tensors of one argument or return of the function."""
        if arg.type_list_attr:
            return [*self._value(arg.type_list_attr).list.type]
        kind = self._value(arg.type_attr).type if arg.type_attr else arg.type
        count = self._value(arg.number_attr).i if arg.number_attr else 1
        if not 0 <= count <= MOST_TENSORS:
            raise GraphError(f"the call cannot have the attribute '{arg.number_attr}' = {count}")
        return [kind + REF if arg.is_ref else kind] * count

    def bind(self, node: NodeDef) -> None:
        """Fill the placeholders in the attributes of a node.

        Raises:
            GraphError: a placeholder that the binding has no value for.
        """
        for name in sorted(node.attr):
            self._fill(node.attr[name])

    def _fill(self, value: AttrValue) -> None:
        kind = value.WhichOneof("value")
        if kind == "placeholder":
            value.CopyFrom(self._value(value.placeholder))
        functions = [value.func] if kind == "func" else value.list.func if kind == "list" else []
        for function in functions:
            for name in sorted(function.attr):
                self._fill(function.attr[name])

    def _value(self, name: str) -> AttrValue:
        value = self.values.get(name)
        if value is None:
            raise GraphError(f"the call gives no value to the attribute '{name}'")
        return value
