"""Small passes to try the machinery with."""

from dataclasses import dataclass

from tfwave.graph.names import parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import AttrValue

PREFIX = "test_gate/"


@dataclass(frozen=True)
class Gates(GraphPass):
    """An Identity behind each MatMul, for which the next MatMul waits, in topological order."""

    note: str = ""
    device: str = ""

    def run(self, graph: GraphRewriter) -> None:
        view = graph.view
        last = ""
        for index in view.topological_order:
            node = view.nodes[index]
            if node.op != "MatMul":
                continue
            if last:
                graph.add_control_edge(last, node.name)
            last = self._gate(graph, index)

    def _gate(self, graph: GraphRewriter, index: int) -> str:
        node = graph.view.nodes[index]
        device = self.device or node.device
        gate = graph.add_node(
            PREFIX + node.name, "Identity", [node.name], device=device, attrs={"T": node.attr["T"]}
        )
        for fanout in graph.view.fanouts[index]:
            reader = graph.view.nodes[fanout]
            for position, text in enumerate(reader.input):
                if reader.name != gate and parse_input(text) == (node.name, 0):
                    graph.redirect(reader.name, position, gate)
        if self.note:
            graph.note(node.name, "note", AttrValue(s=self.note.encode()))
        return gate


@dataclass(frozen=True)
class MoveTanh(GraphPass):
    """Moves each Tanh to a device."""

    device: str

    def run(self, graph: GraphRewriter) -> None:
        for node in graph.view.nodes:
            if node.op == "Tanh":
                graph.move(node.name, self.device)


@dataclass(frozen=True)
class DropTanh(GraphPass):
    """Takes the first Tanh out, its readers get its input."""

    def run(self, graph: GraphRewriter) -> None:
        index = graph.view.ops.index("Tanh")
        node = graph.view.nodes[index]
        for fanout in graph.view.fanouts[index]:
            reader = graph.view.nodes[fanout]
            for position, text in enumerate(reader.input):
                if parse_input(text) == (node.name, 0):
                    graph.redirect(reader.name, position, node.input[0])
        graph.remove_node(node.name)


@dataclass(frozen=True)
class SwapInputs(GraphPass):
    """Rewrites the inputs of one binary node at once: swapped, and behind two new NoOps in a row."""

    node: str = "mul"

    def run(self, graph: GraphRewriter) -> None:
        start = f"test_start/{self.node}"
        if not graph.has_node(start):
            left, right = graph.node(self.node).input
            first = graph.add_node(f"{start}/first", "NoOp")
            graph.add_node(start, "NoOp", [f"^{first}"])
            graph.replace_inputs(self.node, [right, left, f"^{start}"])


@dataclass(frozen=True)
class Failing(GraphPass):
    """Names a node that is not there."""

    def run(self, graph: GraphRewriter) -> None:
        graph.node("no_such_node")


@dataclass(frozen=True)
class Interrupted(GraphPass):
    """Is interrupted by the user."""

    def run(self, graph: GraphRewriter) -> None:
        raise KeyboardInterrupt


@dataclass(frozen=True)
class Nothing(GraphPass):
    """Edits nothing."""

    def run(self, graph: GraphRewriter) -> None:
        """Nothing to do."""
