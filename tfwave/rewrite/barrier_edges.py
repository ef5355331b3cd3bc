"""What hangs a barrier on nodes: a control edge, or where TensorFlow makes one kernel of several, an Identity."""

from typing import cast

from tfwave.graph.attrs import KEEP
from tfwave.graph.marks import added_by, is_added
from tfwave.graph.names import parse_input
from tfwave.graph.ops import REF, OpTable
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, AttrValue, DataType
from tfwave.rewrite.grouped import GroupedNodes


class BarrierEdges:
    """Lets nodes wait for barriers, and barriers for nodes.

    A control edge on a node of a kernel would keep TensorFlow from making the kernel, and so change the rounding.
    There an Identity waits in the place of the node, on the way of a tensor that it reads, or stands for its end,
    behind its first output. It is kept: Grappler takes out one that only waits, or only is waited for. Its name
    begins with that of its source: Grappler sorts the inputs of sums by name.
    """

    def __init__(self, graph: GraphRewriter, nodes: GroupedNodes) -> None:
        """Edit `graph`."""
        self._graph = graph
        self._nodes = nodes
        self._table = OpTable.of(graph.item.graph)
        self._index = {name: node for node, name in enumerate(graph.view.names)}

    def hold(self, node: int, barrier: str) -> None:
        """Let a node wait for a barrier."""
        name = self._graph.view.names[node]
        position = self._gated_input(node) if self._nodes.in_kernel(node) else None
        if position is None:
            self._graph.add_control_edge(barrier, name)
            return
        tensor = self._graph.node(name).input[position]
        if self._is_gated(tensor, barrier):
            return
        source = parse_input(tensor)
        gate = f"{source.node}/gate_{source.port}/{barrier}"
        self._pass_on(gate, tensor, self._graph.node(name).device, barrier)
        for reader, at in self._reads_in_kernel(node, tensor):
            self._graph.redirect(reader, at, gate)

    def end_of(self, node: int, barrier: str) -> str:
        """The name of what a barrier waits for, if it is to wait for a node."""
        definition = self._graph.node(self._graph.view.names[node])
        if not self._nodes.in_kernel(node):
            return definition.name
        end = f"{definition.name}/end/{barrier}"
        self._pass_on(end, definition.name, definition.device)
        return end

    def _reads_in_kernel(self, node: int, tensor: str) -> list[tuple[str, int]]:
        """The inputs by which a node, and others of its kernel, read a tensor: of two tensors it would be none."""
        view, source = self._graph.view, parse_input(tensor)
        readers = [
            view.names[reader]
            for reader in dict.fromkeys(view.fanouts[self._index[source.node]])
            if self._nodes.are_one(node, reader)
        ]
        inputs = [(reader, at) for reader in readers for at in range(view.data_fanins[self._index[reader]])]
        return [(name, at) for name, at in inputs if parse_input(self._graph.node(name).input[at]) == source]

    def _is_gated(self, tensor: str, barrier: str) -> bool:
        """Does an Identity that waits for the barrier stand on the way, or behind another pass's?"""
        node = self._graph.node(parse_input(tensor).node)
        while is_added(node) and node.op == "Identity":
            if f"^{barrier}" in node.input:
                return True
            node = self._graph.node(parse_input(node.input[0]).node)
        return False

    def _pass_on(self, name: str, tensor: str, device: str, *waits: str) -> None:
        if self._graph.has_node(name) and added_by(self._graph.node(name)) == self._graph.author:
            return
        attrs = {"T": AttrValue(type=cast("DataType", self._kind(tensor))), **KEEP}
        inputs = [tensor, *(f"^{other}" for other in waits)]
        self._graph.add_node(name, "Identity", inputs, device=device, attrs=attrs)

    def _gated_input(self, node: int) -> int | None:
        """The first that is a plain tensor and no constant, which TensorFlow would fold; None if none is."""
        view = self._graph.view
        for position in range(view.data_fanins[node]):
            kind = self._kind(view.nodes[node].input[position])
            constant = view.ops[view.fanins[node][position]] == "Const"
            if not constant and kind not in (DT_RESOURCE, DT_VARIANT) and kind < REF:
                return position
        return None

    def _kind(self, tensor: str) -> int:
        source = parse_input(tensor)
        return self._table.output_types(self._graph.node(source.node))[source.port]
