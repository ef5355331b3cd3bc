"""Let tensors go apart that an IdentityN passes on together."""

from dataclasses import dataclass

from tfwave.graph.attrs import CLASS_ATTR, KEEP
from tfwave.graph.names import parse_input
from tfwave.graph.reach import in_control_flow
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, AttrValue, NodeDef

_TIE = "IdentityN"


@dataclass(frozen=True)
class Untie(GraphPass):
    """Let each tensor that an IdentityN passes on go on as soon as it is there.

    An IdentityN waits for all that it takes. Under a strategy Keras 3's optimizers pass all gradients of a step
    through one, as `tf.custom_gradient` does with what it takes: so none is pushed, and no variable is updated,
    before the last one is computed.

    What takes a tensor of an IdentityN takes an Identity's instead, one for each tensor. These wait for the nodes
    that the IdentityN is told to wait for, are where it is, and TensorFlow's optimizer (Grappler) leaves them as
    they are: all is computed by the kernels that computed it before. The IdentityN stays for whom it is fetched,
    and for what waits for it by a control edge.

    Left alone are those in a branch or a loop, and handles and variants.
    """

    def run(self, graph: GraphRewriter) -> None:
        """Have readers take data from Identities."""
        ties = _ties(graph)
        if not ties:
            return
        view = graph.view
        for reader in view.topological_order:  # of two ties in a row the first one first
            node = view.nodes[reader]
            for position, text in enumerate(node.input[: view.data_fanins[reader]]):
                name, port = parse_input(text)
                if name in ties and _is_plain(ties[name], port):
                    graph.redirect(node.name, position, _apart(graph, graph.node(name), port))


def _ties(graph: GraphRewriter) -> dict[str, NodeDef]:
    """The nodes that pass on several tensors in each step, by name."""
    view = graph.view
    found = [node for node, op in enumerate(view.ops) if op == _TIE and view.data_fanins[node] > 1]
    left = in_control_flow(view) if found else frozenset[int]()
    fed = {parse_input(name).node for name in graph.item.feeds}
    return {
        view.names[node]: view.nodes[node]
        for node in found
        if node not in left and view.names[node] not in fed
    }


def _is_plain(tie: NodeDef, port: int) -> bool:
    return tie.attr["T"].list.type[port] not in (DT_RESOURCE, DT_VARIANT)


def _apart(graph: GraphRewriter, tie: NodeDef, port: int) -> str:
    """The Identity of one tensor, named as the tie: TensorFlow's optimizer sorts the terms of sums by names."""
    attrs = {"T": AttrValue(type=tie.attr["T"].list.type[port]), **KEEP}
    if CLASS_ATTR in tie.attr:
        attrs[CLASS_ATTR] = tie.attr[CLASS_ATTR]
    inputs = [tie.input[port], *(text for text in tie.input if text.startswith("^"))]
    return graph.add_node(f"{tie.name}/untie_{port}", "Identity", inputs, device=tie.device, attrs=attrs)
