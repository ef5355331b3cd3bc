"""Gather rows where their table is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tfwave.errors import GraphError
from tfwave.graph.reach import reached
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView, transfer_ends
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
    3. reads of such a table that nothing takes data from are waited for no more;
    4. of a table in parts whose reads are concatenated along the first axis (a `ShardedVariable` as a tensor), each
       part gathers the rows that are its own, and they are put together where the gather is.

    Losses and tables are the same bit for bit. An id out of range fails the step, and the error names the
    ResourceGather. A table that something else takes whole, that is fetched, or whose read is in a branch or a
    loop, is sent as before, and so are parts whose shapes the graph does not say; a remark says why. So is, without
    one, what functions gather that the graph calls, and parts that something else takes, too. The round trip of the
    ids costs a latency: leave tiny tables alone.

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
        ends = transfer_ends(view)
        if ends:
            raise GraphError(
                f"node '{ends[0]}' is an end of a transfer: the graph is cut already; "
                "run gather_on_server before 'cut'"
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
        gathered = [f"^{name}" for names in rows.values() for name in names]
        more = [text for text in (*gathered, *waits) if text not in kept]
        graph.replace_inputs(view.names[node], [*kept, *more])
    for gather, names in rows.items():
        after = reached(view.fanouts.__getitem__, [gather])
        for name, later in zip(names, table.later, strict=True):
            for writer in later:
                if writer not in after:
                    graph.add_control_edge(name, view.names[writer])


def _gather(graph: GraphRewriter, table: TableRead, gather: int, waits: Sequence[str]) -> list[str]:
    """Let a gather take its rows from the server; the names of what gathers there, by part."""
    node = graph.view.nodes[gather]
    ids, index, dtype = node.input[1], node.attr["Tindices"], node.attr["Tparams"]
    add = _Adder(graph, f"tfwave/gather_on_server/{node.name}", node.device)
    flat = add("flat", "Reshape", [ids, add.const("line", _INT32, [-1])], T=index, Tshape=_INT32)
    unique = add("unique", "Unique", [flat], T=index, out_idx=index)
    shape = add("shape", "Shape", [ids], T=index, out_type=_INT32)
    places = add("places", "Reshape", [f"{unique}:1", shape], T=index, Tshape=_INT32)
    order, by_part = _dealt(add, unique, index, table.heights) if table.heights else ("", [unique])
    attrs: Mapping[str, AttrValue] = {"dtype": dtype, "Tindices": index, "batch_dims": AttrValue(i=0)}
    names = list[str]()
    for k, (read, wanted) in enumerate(zip(table.reads, by_part, strict=True)):
        of, name = graph.view.nodes[read], f"{add.name}/rows{f'_{k}' if table.heights else ''}"
        inputs = [of.input[0], wanted, *waits]
        names.append(graph.add_node(name, "ResourceGather", inputs, device=of.device, attrs=attrs))
    rows = names[0]
    if table.heights:
        count = len(names)
        orders = [f"{order}:{k}" for k in range(count)]
        rows = add("rows", "DynamicStitch", [*orders, *names], N=AttrValue(i=count), T=dtype)
    graph.redirect(node.name, 0, rows)
    graph.redirect(node.name, 1, places)
    return names


def _dealt(add: "_Adder", unique: str, index: AttrValue, heights: Sequence[int]) -> tuple[str, Sequence[str]]:
    """Deal ids out to the parts of a table: what gives their places by part, and for each part its own rows.

    An id below 0 is the first part's, one that is too large the last one's: both refuse it.
    """
    ends = [*accumulate(heights)]
    parts = AttrValue(i=len(heights))
    listed = add("listed", "Reshape", [unique, add.const("row", _INT32, [1, -1])], T=index, Tshape=_INT32)
    bounds = add.const("ends", index, ends[:-1], [1, len(ends) - 1])
    found = add("found", "UpperBound", [bounds, listed], T=index, out_type=_INT32)
    part = add("part", "Reshape", [found, f"{add.name}/line"], T=_INT32, Tshape=_INT32)
    starts, axis = add.const("starts", index, [0, *ends[:-1]]), add.const("axis", _INT32, [0], [])
    start = add(
        "start",
        "GatherV2",
        [starts, part, axis],
        Tparams=index,
        Tindices=_INT32,
        Taxis=_INT32,
        batch_dims=AttrValue(i=0),
    )
    local = add("local", "Sub", [unique, start], T=index)
    wanted = add("wanted", "DynamicPartition", [local, part], num_partitions=parts, T=index)
    count = add("count", "Size", [unique], T=index, out_type=_INT32)
    line = add("all", "Range", [axis, count, add.const("step", _INT32, [1], [])], Tidx=_INT32)
    order = add("order", "DynamicPartition", [line, part], num_partitions=parts, T=_INT32)
    return order, [f"{wanted}:{k}" for k in range(len(heights))]


class _Adder:
    """Adds nodes of one name and device."""

    def __init__(self, graph: GraphRewriter, name: str, device: str) -> None:
        self._graph, self.name, self._device = graph, name, device

    def __call__(self, part: str, op: str, inputs: Sequence[str], **attrs: AttrValue) -> str:
        return self._graph.add_node(f"{self.name}/{part}", op, inputs, device=self._device, attrs=attrs)

    def const(
        self, part: str, dtype: AttrValue, values: Sequence[int], shape: Sequence[int] | None = None
    ) -> str:
        """Integers, as a vector or in a shape."""
        sizes = [len(values)] if shape is None else shape
        tensor = TensorProto(
            dtype=dtype.type,
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes]),
        )
        (tensor.int_val if dtype.type == DT_INT32 else tensor.int64_val).extend(values)
        return self(part, "Const", [], dtype=dtype, value=AttrValue(tensor=tensor))


_INT32 = AttrValue(type=DT_INT32)
