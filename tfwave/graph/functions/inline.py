"""One call of a function, replaced by the function's body.

What TensorFlow puts around the nodes of the body:

1. A NoOp that stands for the control inputs of the call, where it has any. It comes before the arguments, and
   before those nodes of the body that would otherwise run even if the call does not.
2. An Identity per argument.
3. An Identity per return; what read the call reads these.
4. A NoOp that comes after what the call must have done; what waited for the call waits for it.
5. A node with the name of the call, so that it can still be fetched or run.

A multi-device call (PartitionedCall, branches, loop bodies) leaves to each node of the body its own device and
waits for the control returns; the legacy kind puts all on the device of the call and waits for the returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import GraphError
from tfwave.graph.attrs import CLASS_ATTR, CLASS_PREFIX, rename_groups
from tfwave.graph.flow_ops import ARG_OPS, ENTER_OPS, RETVAL_OPS
from tfwave.graph.functions.body import FunctionBody
from tfwave.graph.functions.devices import filled_in
from tfwave.graph.functions.nodes import Node, NodeGraph, Tensor, copied, strings_attr, type_attr, types_attr
from tfwave.graph.names import parse_input
from tfwave.proto.tensorflow_pb2 import NodeDef


@dataclass(frozen=True)
class Inlining:
    """How one call is replaced by a body."""

    graph: NodeGraph
    call: Node
    body: FunctionBody
    multi_device: bool
    fetchable: bool
    """Whether the outputs of the call must stay fetchable by its name."""

    def check(self) -> None:
        """Does the function fit the call?

        Raises:
            GraphError: they differ in the types or the number of inputs or outputs.
        """
        for what, given, declared in (
            ("inputs", self.graph.input_types(self.call), self.body.argument_types),
            ("outputs", self.graph.output_types(self.call), self.body.return_types),
        ):
            if given != declared:
                raise GraphError(
                    f"node '{self.call.name}': its {what} (types {given}) do not fit the function "
                    f"'{self.body.name}' (types {declared})"
                )

    def run(self) -> None:
        """Replace the call, which must have been checked."""
        before = self._add_no_op("input_control_node", self.call.controls) if self.call.controls else None
        nodes = self._add_arguments(before)
        self._add_body(nodes, before)
        returns = [self._add_return(node, nodes) for node in self.body.returns]
        after = self._add_no_op("output_control_node", self._last(nodes, returns, before))
        outputs = [Tensor(node, 0) for node in returns]
        self.graph.replace(self.call, outputs, after)
        self._add_substitute(outputs, after)

    def _add_arguments(self, before: Node | None) -> dict[str, Node]:
        """Case 2: the Identities, by the names of the `_Arg` nodes that they stand for."""
        return {
            argument.name: self._add_identity("input", tensor, tensor.node.device, [before] if before else [])
            for argument, tensor in zip(self.body.arguments, self.call.inputs, strict=True)
        }

    def _add_body(self, nodes: dict[str, Node], before: Node | None) -> None:
        arguments = {name: node.name for name, node in nodes.items()}
        added = [node for node in self.body.nodes if node.op not in ARG_OPS | RETVAL_OPS]
        for definition in added:
            nodes[definition.name] = self._add(self._renamed(definition, arguments))
        for definition in added:
            node = nodes[definition.name]
            self.graph.connect(node, definition.input, nodes)
            if before and self._needs_frame(node):
                self.graph.add_control(before, node)

    def _needs_frame(self, node: Node) -> bool:
        """Case 1: nodes without inputs, and calls without control inputs, whose own body may hold such nodes."""
        return not node.controls and (not node.inputs or self.graph.is_call(node.op))

    def _renamed(self, definition: NodeDef, arguments: Mapping[str, str]) -> NodeDef:
        """Put the name of the call before the names of nodes, of loop frames and of colocation groups."""
        node = copied(definition)
        prefix = f"{self.call.name}/"
        node.name = prefix + node.name
        node.device = self._device(node)
        if node.op in ENTER_OPS:
            node.attr["frame_name"].s = prefix.encode() + node.attr["frame_name"].s
        rename_groups(node, lambda name: arguments.get(name) or self._own(name))
        return node

    def _own(self, name: str) -> str:
        return f"{self.call.name}/{name}" if name in self._names else name

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(node.name for node in self.body.nodes)

    def _device(self, node: NodeDef) -> str:
        return filled_in(node.device, self.call.device) if self.multi_device else self.call.device

    def _add_return(self, definition: NodeDef, nodes: Mapping[str, Node]) -> Node:
        """Case 3: TensorFlow leaves the device of a multi-device call's returns to the placer."""
        source, port = parse_input(definition.input[0])
        return self._add_identity("output", Tensor(nodes[source], port), "")

    def _last(
        self, nodes: Mapping[str, Node], returns: Sequence[Node], before: Node | None
    ) -> Sequence[Node]:
        """Case 4: what the call must have done, or at least that it was called."""
        done = [nodes[name] for name in sorted(self.body.control_returns)] if self.multi_device else returns
        return done or ([before] if before else [])

    def _add_identity(self, role: str, tensor: Tensor, device: str, controls: Sequence[Node] = ()) -> Node:
        attrs = {"T": type_attr(self.graph.type_of(tensor))}
        if self.multi_device:
            attrs[CLASS_ATTR] = strings_attr(CLASS_PREFIX + tensor.node.name)
        device = device if self.multi_device else self.call.device
        return self._add(
            NodeDef(name=self._new_name(role), op="Identity", device=device, attr=attrs), [tensor], controls
        )

    def _add_no_op(self, role: str, controls: Sequence[Node] | Mapping[Node, None]) -> Node:
        return self._add(NodeDef(name=self._new_name(role), op="NoOp", device=self.call.device), (), controls)

    def _add_substitute(self, outputs: Sequence[Tensor], after: Node) -> None:
        """Case 5."""
        definition = NodeDef(name=self.call.name, op="NoOp", device=self.call.device)
        if self.fetchable and outputs:
            definition.op = "IdentityN"
            definition.attr["T"].CopyFrom(types_attr(self.body.return_types))
            self._add(definition, outputs, [after])
        else:
            self._add(definition, (), [after])

    def _new_name(self, role: str) -> str:
        return self.graph.new_name(f"Func/{self.call.name}/{role}")

    def _add(
        self,
        definition: NodeDef,
        inputs: Sequence[Tensor] = (),
        controls: Sequence[Node] | Mapping[Node, None] = (),
    ) -> Node:
        functions = (*self.call.functions, self.body.name)
        return self.graph.add(definition, inputs, controls, functions)
