"""What split_variables writes into small graphs, and what it leaves alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from grappler_passes.split_variables import SplitVariables
from tests.graphs import SERVERS, WORKER
from tests.rewrites import check_rewrite
from tfwave.errors import GraphError, PassError
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import (
    DT_FLOAT,
    DT_INT32,
    AttrValue,
    FunctionDef,
    GraphDef,
    NodeDef,
    TensorShapeProto,
)
from tfwave.rewrite.blocks.cuttable import WholeVariable, plan_split

SERVER = SERVERS[0]
FLOAT = AttrValue(type=DT_FLOAT)
SHAPE = (16, 32)
MAX_BYTES = 512
BLOCKS = 4


def shape_attr(shape: Sequence[int]) -> AttrValue:
    return AttrValue(shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape]))


class Job:
    """A graph under construction: variables on the server, placeholders on the worker."""

    def __init__(self) -> None:
        self.graph = GraphDef()
        self.graph.versions.producer = 2000

    def node(self, name: str, op: str, *inputs: str, device: str = SERVER, **attrs: AttrValue) -> str:
        self.graph.node.add(name=name, op=op, input=inputs, device=device, attr=attrs)
        return name

    def variable(self, name: str, shape: Sequence[int] = SHAPE, **attrs: AttrValue) -> str:
        named = {"shared_name": AttrValue(s=name.encode())} | attrs
        return self.node(name, "VarHandleOp", dtype=FLOAT, shape=shape_attr(shape), **named)

    def read(self, name: str, variable: str, *waits: str) -> str:
        return self.node(name, "ReadVariableOp", variable, *waits, dtype=FLOAT)

    def placeholder(self, name: str, shape: Sequence[int] = SHAPE, device: str = WORKER) -> str:
        return self.node(name, "Placeholder", device=device, dtype=FLOAT, shape=shape_attr(shape))

    def math(self, name: str, op: str, *inputs: str, device: str = SERVER) -> str:
        return self.node(name, op, *inputs, device=device, T=FLOAT)

    def subtract(self, name: str, variable: str, value: str, *waits: str) -> str:
        return self.node(name, "AssignSubVariableOp", variable, value, *waits, dtype=FLOAT)

    def momentum(self, name: str, variable: str, slot: str, gradient: str) -> str:
        inputs = (variable, slot, "rate", gradient, "rate")
        return self.node(name, "ResourceApplyMomentum", *inputs, T=FLOAT)

    def item(self, *fetches: str, feeds: Sequence[str] = (), preserve: Sequence[str] = ()) -> GraphItem:
        return GraphItem(self.graph, tuple(feeds), fetches, frozenset(preserve))


def split(item: GraphItem) -> dict[str, NodeDef]:
    result = check_rewrite(SplitVariables(MAX_BYTES), item)
    return {node.name: node for node in result.item.graph.node}


def step() -> Job:
    """``w`` is read on the worker, and gradient descent is worked out on the server."""
    job = Job()
    job.variable("w", shared_name=AttrValue(s=b"shared"))
    job.read("read", "w")
    job.math("loss", "Square", "read", device=WORKER)
    job.placeholder("gradient")
    job.placeholder("rate", ())
    job.math("scaled", "Mul", "rate", "gradient")
    job.subtract("update", "w", "scaled")
    return job


def parts(name: str) -> list[str]:
    return [f"{name}/block_{block}" for block in range(BLOCKS)]


def split_parts(name: str) -> list[str]:
    base = f"{name}/split_0_into_{BLOCKS}"
    return [base, *(f"{base}:{port}" for port in range(1, BLOCKS))]


def test_handles_are_of_blocks() -> None:
    nodes = split(step().item("loss:0", "update"))
    for block, name in enumerate(parts("w")):
        assert nodes[name].device == SERVER
        assert nodes[name].attr["shared_name"].s == f"shared/block_{block}".encode()
        assert [dim.size for dim in nodes[name].attr["shape"].shape.dim] == [4, 32]
    assert nodes["w"].op == "VarHandleOp"


def test_a_reader_elsewhere_joins_blocks() -> None:
    job = step()
    job.math("again", "Neg", "read", device=WORKER)
    job.math("third", "Neg", "read", device=SERVERS[1])
    nodes = split(job.item("loss:0", "again:0", "third:0", "update"))
    for reader, join, device in (
        ("loss", "read/join_0_1", WORKER),
        ("again", "read/join_0_1", WORKER),
        ("third", "read/join_0_0", SERVERS[1]),
    ):
        assert list(nodes[reader].input) == [join]
        assert (nodes[join].op, nodes[join].device) == ("ConcatV2", device)
        assert list(nodes[join].input[:-1]) == parts("read")
    assert sum(node.op == "ConcatV2" for node in nodes.values()) == 4


def test_a_read_gives_the_whole_value_under_its_name() -> None:
    job = step()
    job.math("beside", "L2Loss", "read")
    nodes = split(job.item("read:0", "beside:0", "update"))
    assert (nodes["read"].op, nodes["read"].device) == ("ConcatV2", SERVER)
    assert list(nodes["read"].input[:-1]) == parts("read")
    assert list(nodes["beside"].input) == ["read"]


def test_an_update_is_worked_out_block_by_block() -> None:
    nodes = split(step().item("loss:0", "update"))
    for block in range(BLOCKS):
        scaled, update = nodes[f"scaled/block_{block}"], nodes[f"update/block_{block}"]
        assert list(scaled.input) == ["rate", split_parts("gradient")[block]]
        assert list(update.input) == [f"w/block_{block}", scaled.name]
        assert (scaled.device, update.device) == (SERVER, SERVER)
    assert nodes["gradient/split_0_into_4"].device == WORKER
    assert list(nodes["gradient/split_0_into_4/sizes"].attr["value"].tensor.int_val) == [4] * BLOCKS
    assert (nodes["update"].op, list(nodes["update"].input)) == ("NoOp", [f"^{p}" for p in parts("update")])


def test_a_gradient_that_is_also_wanted_whole_crosses_once() -> None:
    job = step()
    job.math("norm", "L2Loss", "gradient")
    job.math("elsewhere", "L2Loss", "gradient", device=SERVERS[1])
    nodes = split(job.item("norm:0", "elsewhere:0", "update"))
    for number, (reader, device) in enumerate((("norm", SERVER), ("elsewhere", SERVERS[1]))):
        join = f"gradient/join_0_{number}"
        assert list(nodes[reader].input) == [join]
        assert list(nodes[join].input[:-1]) == split_parts("gradient")
        assert nodes[join].device == device


def test_control_edges_join_block_to_block() -> None:
    job = step()
    job.math("other", "Neg", "rate")
    job.read("later", "w", "^update", "^other")
    job.math("use", "Neg", "later", device=WORKER)
    job.subtract("last", "w", "gradient", "^later")
    nodes = split(job.item("use:0", "last"))
    for block in range(BLOCKS):
        assert list(nodes[f"later/block_{block}"].input[1:]) == [f"^update/block_{block}", "^other"]
        assert nodes[f"last/block_{block}"].input[-1] == f"^later/block_{block}"


def test_a_chain_of_casts_crosses_in_blocks() -> None:
    job = step()
    job.math("same", "Identity", "read")
    job.math("product", "Mul", "same", "rate")
    job.math("use", "Neg", "product", device=WORKER)
    nodes = split(job.item("use:0", "update"))
    assert list(nodes["use"].input) == ["product/join_0_0"]
    assert list(nodes["product/join_0_0"].input[:-1]) == parts("product")
    assert list(nodes["product/block_1"].input) == ["same/block_1", "rate"]


def test_slots_are_cut_with_their_variable() -> None:
    job = Job()
    job.variable("w")
    job.variable("slot")
    job.placeholder("gradient")
    job.placeholder("rate", ())
    job.momentum("update", "w", "slot", "gradient")
    nodes = split(job.item("update"))
    assert list(nodes["update/block_3"].input) == [
        *("w/block_3", "slot/block_3", "rate", "gradient/split_0_into_4:3", "rate")
    ]


def test_a_question_asks_all_blocks() -> None:
    job = step()
    job.node("asked", "VarIsInitializedOp", "w")
    nodes = split(job.item("asked:0", "loss:0"))
    assert nodes["asked"].op == "All"
    assert list(nodes["asked/each"].input) == parts("asked")


def test_a_tensor_is_split_where_it_cannot_be_worked_out_by_blocks() -> None:
    """A vector that is repeated for each row, an unknown shape, and a tensor that is fed."""
    for second, feeds in (((32,), ()), ((-1, 32), ()), ((), ("value:0",))):
        job = step()
        job.placeholder("second", second)
        job.math("value", "Mul", "gradient", "second")
        job.subtract("further", "w", "value")
        nodes = split(job.item("loss:0", "update", "further", feeds=feeds))
        assert list(nodes["further/block_1"].input) == ["w/block_1", "value/split_0_into_4:1"]
        assert nodes["value/split_0_into_4"].device == SERVER


def test_initial_values_are_made_whole() -> None:
    job = step()
    job.placeholder("start", device=SERVER)
    job.math("initial", "Neg", "start")
    job.node("assign", "AssignVariableOp", "w", "initial", dtype=FLOAT)
    nodes = split(job.item("loss:0", "assign"))
    assert list(nodes["assign/block_0"].input) == ["w/block_0", "initial/split_0_into_4"]
    assert "initial/block_0" not in nodes


def test_rows_that_are_too_large_are_folded() -> None:
    job = Job()
    job.variable("w", (3, 3, 2, 32))
    job.read("read", "w")
    job.math("use", "Neg", "read", device=WORKER)
    job.placeholder("gradient", (3, 3, 2, 32))
    job.subtract("update", "w", "gradient")
    nodes = split(job.item("use:0", "update"))
    assert [dim.size for dim in nodes["w/block_0"].attr["shape"].shape.dim] == [2, 2, 32]
    assert list(nodes["gradient/split_0_into_5/folded"].input) == [
        *("gradient", "gradient/split_0_into_5/folded/shape")
    ]
    for whole in ("read", "read/join_0_0"):
        assert list(nodes[whole].input) == [f"{whole}/concat", f"{whole}/shape"]
        assert list(nodes[f"{whole}/shape"].attr["value"].tensor.int_val) == [3, 3, 2, 32]


def gathered(job: Job) -> None:
    job.node("rows", "ResourceGather", "w", "ids", dtype=FLOAT, Tindices=AttrValue(type=DT_INT32))
    job.node("ids", "Placeholder", dtype=AttrValue(type=DT_INT32))


def shared(job: Job) -> None:
    job.variable("other", shared_name=AttrValue(s=b"shared"))


def made_in_function(job: Job) -> None:
    handle = NodeDef(name="h", op="VarHandleOp", attr={"shared_name": AttrValue(s=b"shared")})
    job.graph.library.function.append(FunctionDef(node_def=[handle]))


def waited_for(job: Job) -> None:
    job.node("after", "NoOp", "^w")


def with_a_smaller_slot(job: Job) -> None:
    job.variable("slot", (16, 1))
    job.momentum("apply", "w", "slot", "gradient")


def with_a_gathered_slot(job: Job) -> None:
    with_a_smaller_slot(job)
    gathered(job)
    nodes = {node.name: node for node in job.graph.node}
    nodes["slot"].attr["shape"].CopyFrom(shape_attr(SHAPE))
    nodes["rows"].input[0] = "slot"


def huge(job: Job) -> None:
    job.graph.node[0].attr["shape"].CopyFrom(shape_attr((2**40, 2**21)))


def anonymous(job: Job) -> None:
    job.graph.node[0].attr["shared_name"].s = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"


def home(job: Job) -> None:
    shared(job)
    job.graph.node[-1].attr["container"].s = b"localhost"


def unnamed(job: Job) -> None:
    job.graph.node[0].attr["shared_name"].s = b""


def found_among_others(job: Job) -> None:
    names = {"containers": [b"", b""], "shared_names": [b"other", b"shared"]}
    attrs = {key: AttrValue(list=AttrValue.ListValue(s=value)) for key, value in names.items()}
    job.node("others", "_VarHandlesOp", N=AttrValue(i=2), **attrs)


def with_a_block_that_is_there(job: Job) -> None:
    job.variable("other", shared_name=AttrValue(s=b"shared/block_3"))


def changed_in_place(job: Job) -> None:
    job.node("add", "InplaceAdd", "read", "i", "gradient", T=FLOAT)
    job.node("i", "Placeholder", dtype=AttrValue(type=DT_INT32))


def changed_in_a_function(job: Job) -> None:
    job.graph.library.function.append(FunctionDef(node_def=[NodeDef(name="add", op="InplaceAdd")]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (home, "several handles share it"),
        (unnamed, "it has no name"),
        (found_among_others, "its handle is made elsewhere too"),
        (
            with_a_block_that_is_there,
            "a block of it would have the name 'shared/block_3', which another variable has",
        ),
        (changed_in_place, "'add' is an InplaceAdd, which may change it where it lies"),
        (changed_in_a_function, "'add' is an InplaceAdd, which may change it where it lies"),
        (gathered, "'rows' is a ResourceGather, which needs it whole"),
        (shared, "several handles share it"),
        (made_in_function, "its handle is made elsewhere too"),
        (waited_for, "'after' waits for its handle"),
        (with_a_smaller_slot, "'apply' updates it with 'slot', which stays whole or has another shape"),
        (with_a_gathered_slot, "'apply' updates it with 'slot', which stays whole or has another shape"),
        (huge, "it would be more than 4096 blocks"),
        (anonymous, "its handle is made elsewhere too"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_variable_stays_whole(change: Any, reason: str) -> None:
    job = step()
    change(job)
    item = job.item()
    plan = plan_split(item, MAX_BYTES)
    assert not plan.layouts
    assert {whole.name: whole.reason for whole in plan.whole}["w"] == reason
    result = check_rewrite(SplitVariables(MAX_BYTES), item)
    assert not result.changed
    assert any(remark.endswith(reason) for remark in result.remarks)


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ({"preserve": ["w"]}, "its handle is to be kept"),
        ({"feeds": ["read:0"]}, "'read', which reads it, is fed"),
    ],
)
def test_ends_of_a_call_stay_whole(ends: dict[str, Any], reason: str) -> None:
    result = check_rewrite(SplitVariables(MAX_BYTES), step().item("loss:0", "update", **ends))
    assert result.remarks == (f"1 large variables stay whole, such as w (2 KiB): {reason}",)


def test_reference_variables_are_told_of_once() -> None:
    job = step()
    for name in ("first", "second"):
        job.node(name, "VariableV2", dtype=FLOAT, shape=shape_attr(SHAPE))
    result = check_rewrite(SplitVariables(MAX_BYTES), job.item("loss:0", "update"))
    assert result.remarks == (
        "2 large variables stay whole, such as first (2 KiB): "
        "a reference variable, build it with use_resource=True",
    )


def test_what_is_small_or_unused_or_of_unknown_size_is_no_matter() -> None:
    job = Job()
    job.read("one", job.variable("small", (4, 32)))
    job.read("two", job.variable("unknown", (-1, 1024)))
    job.variable("unused")
    job.node("ids", "VarHandleOp", dtype=AttrValue(type=DT_INT32), shape=shape_attr(SHAPE))
    result = check_rewrite(SplitVariables(MAX_BYTES), job.item())
    assert (result.changed, result.remarks) == (False, ())


def test_a_plan_counts_blocks_and_changes_nothing() -> None:
    item = step().item("loss:0", "update")
    before = item.graph.SerializeToString(deterministic=True)
    assert [plan_split(item, size).blocks for size in (512, 1024, 2047, 2048)] == [4, 2, 2, 0]
    assert plan_split(item, 512).layouts["w"].rows == (4, 4, 4, 4)
    kept = step().item("loss:0", preserve=["w"])
    assert plan_split(kept, 512).whole == (WholeVariable("w", 2048, "its handle is to be kept"),)
    assert item.graph.SerializeToString(deterministic=True) == before


def test_a_cut_graph_is_refused() -> None:
    job = step()
    wire = {key: AttrValue(s=key.encode()) for key in ("send_device", "recv_device", "tensor_name")}
    job.node("got", "_Recv", tensor_type=FLOAT, send_device_incarnation=AttrValue(i=1), **wire)
    with pytest.raises(GraphError, match=r"node 'got' .* run split_variables before 'cut'"):
        SplitVariables()(job.item())


def test_a_name_that_is_taken_is_said() -> None:
    job = step()
    job.node("w/block_1", "NoOp")
    with pytest.raises(GraphError, match="'w/block_1' cannot be added"):
        SplitVariables(MAX_BYTES)(job.item())


def test_blocks_that_hold_no_unit_are_refused() -> None:
    with pytest.raises(PassError, match="max_bytes is 511, it must be 512 or more"):
        SplitVariables(511)
