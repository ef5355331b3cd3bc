"""Gather rows where their table is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.reach import reached
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import RECV_OPS, SEND_OPS, GraphView
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import DT_INT32, AttrValue, TensorProto, TensorShapeProto
from tfwave.rewrite.gathers import TableRead, TableReads


@dataclass(frozen=True)
class GatherOnServer(GraphPass):
    """Have the server of a table gather the rows of a batch, each once, in place of sending the whole table.

    A Keras 3 `Embedding`, and `tf.gather` of a variable's value, read the whole variable (ReadVariableOp) and
    gather from the copy (GatherV2). Where only gathers along the first axis take data from such a read,

    1. the ids are made unique where the gather is, a ResourceGather takes those rows where the variable is, and
       the GatherV2, which keeps its name, takes from these rows;
    2. what waited for the read waits for the rows, and so do all later writers of the table in the step: each
       gather gets the rows as they were when the read would have been made;
    3. reads of such a table that nothing takes data from are waited for no more.

    Losses and tables are the same bit for bit. An id out of range fails the step, and the error names the
    ResourceGather. A table that something else takes whole, that is fetched, or whose read is in a branch or a
    loop, is sent as before; a remark says why. So is, without one, what functions gather that the graph calls.
    The round trip of the ids costs a latency: leave tiny tables alone.

    Refused is a table that the step changes whole, as Adam and momentum do, which work on all of it, whoever
    gathers. SGD changes the rows of the batch only; Adagrad does so, too, but that of Keras 3 reads all of its
    accumulators, which stay as they are. Where clients update without waiting for each other, two gathers of one
    read may see different updates; and TensorFlow adds the gradients of a repeated id in any order, with this pass
    and without, unless its kernels are deterministic (TF_DETERMINISTIC_OPS=1 in the server).

    Raises:
        PassError: a table is changed whole, or without waiting for the read, or ids are made by what waits for it.
        GraphError: the graph is cut already.
    """

    def requires(self, view: GraphView) -> None:
        """The graph is not cut yet."""
        ends = RECV_OPS | SEND_OPS
        end = next((name for name, op in zip(view.names, view.ops, strict=True) if op in ends), None)
        if end is not None:
            raise GraphError(
                f"node '{end}' is an end of a transfer: the graph is cut already; run gather_on_server before 'cut'"
            )

    def run(self, graph: GraphRewriter) -> None:
        """Replace what can be, and say what stays."""
        found, whole = TableReads(graph.item, graph.view).find()
        for table in found:
            _replace(graph, table)
        for read in whole:
            graph.remark(f"the table that '{read.read}' reads is sent whole: {read.why}")


def _replace(graph: GraphRewriter, table: TableRead) -> None:
    view = graph.view
    passed = [view.names[node] for node in sorted(table.passed)]
    gone = {f"^{name}" for name in passed}
    inputs = [text for name in passed for text in graph.node(name).input if text.startswith("^")]
    waits = [text for text in dict.fromkeys(inputs) if text not in gone]
    rows = {gather: _gather(graph, table, gather, waits) for gather in table.gathers}
    for node in table.held:
        kept = [text for text in graph.node(view.names[node]).input if text not in gone]
        more = [text for text in (*(f"^{name}" for name in rows.values()), *waits) if text not in kept]
        graph.replace_inputs(view.names[node], [*kept, *more])
    for gather, name in rows.items():
        after = reached(view.fanouts.__getitem__, [gather])
        for writer in table.later:
            if writer not in after:
                graph.add_control_edge(name, view.names[writer])


def _gather(graph: GraphRewriter, table: TableRead, gather: int, waits: Sequence[str]) -> str:
    """Let a gather take its rows from the server; the name of what gathers there."""
    node, read = graph.view.nodes[gather], graph.view.nodes[table.read]
    ids, index, dtype = node.input[1], node.attr["Tindices"], node.attr["Tparams"]
    name = f"tfwave/gather_on_server/{node.name}"

    def add(part: str, op: str, inputs: Sequence[str], **attrs: AttrValue) -> str:
        return graph.add_node(f"{name}/{part}", op, inputs, device=node.device, attrs=attrs)

    number = AttrValue(type=DT_INT32)
    line = add("line", "Const", [], dtype=number, value=AttrValue(tensor=_LINE))
    flat = add("flat", "Reshape", [ids, line], T=index, Tshape=number)
    unique = add("unique", "Unique", [flat], T=index, out_idx=index)
    shape = add("shape", "Shape", [ids], T=index, out_type=number)
    places = add("places", "Reshape", [f"{unique}:1", shape], T=index, Tshape=number)
    attrs: Mapping[str, AttrValue] = {"dtype": dtype, "Tindices": index, "batch_dims": AttrValue(i=0)}
    rows = graph.add_node(
        f"{name}/rows", "ResourceGather", [read.input[0], unique, *waits], device=read.device, attrs=attrs
    )
    graph.redirect(node.name, 0, rows)
    graph.redirect(node.name, 1, places)
    return rows


_LINE = TensorProto(
    dtype=DT_INT32, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), int_val=[-1]
)
