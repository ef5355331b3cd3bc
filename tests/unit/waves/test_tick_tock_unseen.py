"""No update of a variable takes a gradient past the averages of waves: it is averaged, or refused by name."""

import pytest

from grappler_passes.tick_tock import TickTock
from tests.rewrites import check_rewrite
from tests.steps import FLOAT, Builder
from tests.unit.graph.test_functions import func
from tests.unit.waves.test_tick_tock import INT, KINDS, applied, averaged, initialised, inputs, nodes, trained
from tests.unit.waves.test_tick_tock_optimizers import assign, binary, open_step
from tfwave.errors import PassError
from tfwave.passes.base import PassResult
from tfwave.proto.tensorflow_pb2 import DT_INT32, DT_RESOURCE, AttrValue, FunctionDef, NodeDef

HANDLE = AttrValue(list=AttrValue.ListValue(type=[DT_RESOURCE]))


def rewritten(build: Builder, *fetches: str, boundary: tuple[str, ...] = ("loss",)) -> PassResult:
    """With every variable initialised; the train op and the loss are fetched."""
    item = build.item("loss:0", "train", *fetches, feeds=["x:0"])
    return check_rewrite(TickTock(2, "batch", boundary=boundary), item)


def with_variable(build: Builder, name: str) -> str:
    build.handle(name)
    build.node(f"{name}/Assign", "AssignVariableOp", name, build.const(f"{name}/first"), dtype=FLOAT)
    return build.read(f"{name}/read", name)


def with_weight(build: Builder) -> str:
    """A further weight that the loss reads, and what of it enters the first layer's gradient's like."""
    read = with_variable(build, "w")
    loss = next(node for node in build.graph.node if node.name == "loss")
    loss.input.append(read)
    loss.attr["N"].i += 1
    return binary(build, "gradient", "Mul", "loss", "x")


def test_an_update_by_hand_beside_an_optimizer_is_averaged() -> None:
    build = applied()
    build.update("by hand", "w", with_weight(build))
    result = rewritten(build, "by hand")
    assert averaged(result) == {"gradient0_0", "gradient1_0", "gradient_0"}
    assert inputs(result, "tick_tock/1/by hand")[1] == "tick_tock/average/gradient_0/mean"


def test_slots_that_are_assigned_beside_an_optimizer_take_the_average() -> None:
    build = applied()
    gradient, slot = with_weight(build), with_variable(build, "slot")
    moved = binary(build, "moved", "AddV2", slot, gradient)
    assign(build, "slot/update", "slot", moved)
    build.update("by hand", "w", moved, "^slot/update")
    result = rewritten(build, "by hand")
    assert averaged(result) == {"gradient0_0", "gradient1_0", "gradient_0"}
    assert inputs(result, "tick_tock/1/moved") == [
        "tick_tock/1/slot/read",
        "tick_tock/average/gradient_0/mean",
    ]


def scattered(build: Builder, rows: str, gradient: str, *fetches: str) -> PassResult:
    """Rows are added to a slot, by which the weight is updated, as Adam of TensorFlow 1 does."""
    with_variable(build, "slot")
    kinds = {"dtype": FLOAT, "Tindices": INT}
    build.node("scatter", "ResourceScatterAdd", "slot", rows, gradient, **kinds)
    build.read("slot/after", "slot", "^scatter")
    build.update("by hand", "w", "slot/after")
    return rewritten(build, "by hand", *fetches)


def numbers(build: Builder, name: str) -> str:
    return build.node(name, "Cast", "x", SrcT=FLOAT, DstT=INT)


def test_rows_of_waves_come_one_after_another() -> None:
    build = applied()
    result = scattered(build, numbers(build, "rows"), with_weight(build))
    assert averaged(result) == {"gradient0_0", "gradient1_0", "gradient_0", "rows_0"}
    given = ["tick_tock/average/rows_0/sum", "tick_tock/average/gradient_0/mean"]
    assert inputs(result, "tick_tock/1/scatter")[1:] == inputs(result, "scatter")[1:] == given
    assert inputs(result, given[0])[:2] == ["rows", "tick_tock/1/rows"]
    assert inputs(result, given[1])[0] == "tick_tock/average/gradient_0/sum"
    assert inputs(result, "tick_tock/average/gradient_0/sum")[:2] == ["gradient", "tick_tock/1/gradient"]
    assert nodes(result)["tick_tock/average/gradient_0/sum"].op == "ConcatV2"


def test_rows_of_the_same_numbers_in_all_waves_are_averaged_as_a_whole() -> None:
    build = applied()
    value = AttrValue()
    value.tensor.dtype = DT_INT32
    value.tensor.int_val.append(0)
    build.node("rows", "Const", dtype=INT, value=value)
    result = scattered(build, "rows", with_weight(build))
    assert nodes(result)["tick_tock/average/gradient_0/sum"].op == "AddN"
    assert inputs(result, "tick_tock/1/scatter")[1:] == ["rows", "tick_tock/average/gradient_0/mean"]


def test_rows_of_several_numbers_are_refused() -> None:
    build = applied()
    gradient = with_weight(build)
    with_variable(build, "other")
    kinds = {"dtype": FLOAT, "Tindices": INT}
    build.node("again", "ResourceScatterAdd", "other", numbers(build, "others"), gradient, **kinds)
    build.read("other/after", "other", "^again")
    build.update("again by hand", "w", "other/after")
    with pytest.raises(PassError, match=r"'scatter' \(ResourceScatterAdd\) .* both 'others' and 'rows'"):
        scattered(build, numbers(build, "rows"), gradient, "again by hand")


@pytest.mark.parametrize("read", ["read0", "again"])
def test_the_decay_of_a_weight_beside_an_op_of_an_optimizer_is_not_averaged(read: str) -> None:
    build = applied(1)
    build.read("again", "w0", "^update0")
    build.update("decay", "w0", binary(build, "part", "Mul", read, "rate"))
    result = rewritten(build, "decay")
    assert averaged(result) == {"gradient0_0"}
    assert inputs(result, "tick_tock/1/decay")[:2] == ["tick_tock/1/w0", "tick_tock/1/part"]


@pytest.mark.parametrize("build", [trained(), applied()])
def test_a_record_of_a_gradient_is_refused(build: Builder) -> None:
    """It might be a sum that another step applies."""
    with_variable(build, "total")
    build.update("add", "total", binary(build, "square", "Square", "gradient0"))
    with pytest.raises(
        PassError, match=r"'add' \(AssignSubVariableOp\) updates 'total' and takes 'gradient0'"
    ):
        rewritten(build, "add")


def test_a_table_of_gradients_is_refused() -> None:
    build = applied()
    kinds = {"key_dtype": FLOAT, "value_dtype": FLOAT}
    build.node("table", "MutableHashTableV2", **kinds)
    build.node("insert", "LookupTableInsertV2", "table", "x", "gradient0", Tin=FLOAT, Tout=FLOAT)
    with pytest.raises(PassError, match=r"'insert' \(LookupTableInsertV2\) updates .* takes 'gradient0'"):
        rewritten(build, "insert")


def test_a_rate_that_follows_from_the_batch_is_refused() -> None:
    build = applied(1)
    next(node for node in build.graph.node if node.name == "update0").input[1] = "layer0"
    with pytest.raises(PassError, match=r"'update0' .* updates 'w0' and takes 'layer0', of the forward pass"):
        rewritten(build)


def test_a_rate_that_the_forward_pass_computes_of_variables_is_none_of_a_batch() -> None:
    build = applied(1)
    step = with_variable(build, "step")
    binary(build, "rate of step", "Square", step)
    loss = next(node for node in build.graph.node if node.name == "layer0")
    loss.input.append("rate of step")
    loss.attr["N"].i += 1
    next(node for node in build.graph.node if node.name == "update0").input[1] = "rate of step"
    build.update("count", "step", "rate")
    assert averaged(rewritten(build, "count")) == {"gradient0_0"}


def test_a_state_that_the_forward_pass_gives_is_kept_as_it_is() -> None:
    """A recurrent layer begins where it was."""
    build = applied()
    build.graph.node[0].op = "Placeholder"
    state = with_variable(build, "state")
    layer = next(node for node in build.graph.node if node.name == "layer0")
    layer.input.append(state)
    layer.attr["N"].i += 1
    assign(build, "keep", "state", "layer0")
    result = rewritten(build, "keep")
    assert averaged(result) == {"gradient0_0", "gradient1_0"}
    assert inputs(result, "tick_tock/1/keep") == ["tick_tock/1/state", "tick_tock/1/layer0"]


def test_what_is_added_of_the_forward_pass_is_no_state() -> None:
    """It may be the gradient of a loss that is linear in the weight."""
    build = applied()
    with_weight(build)
    build.update("by hand", "w", "layer0")
    with pytest.raises(PassError, match=r"'by hand' .* updates 'w' and takes 'layer0', of the forward pass"):
        rewritten(build, "by hand")


def test_what_only_one_of_the_losses_follows_from_is_no_state_of_a_weight_of_both() -> None:
    build = applied()
    read = with_variable(build, "w")
    for name in ("layer0", "loss"):
        node = next(node for node in build.graph.node if node.name == name)
        node.input.append(read)
        node.attr["N"].i += 1
    binary(build, "other", "Mul", "layer1", read)
    assign(build, "by hand", "w", "other")
    with pytest.raises(PassError, match=r"'by hand' .* updates 'w' and takes"):
        rewritten(build, "other", "by hand", boundary=("loss", "other"))


def apart(build: Builder) -> Builder:
    """With a model beside, whose weight is updated by hand."""
    read = with_variable(build, "w")
    binary(build, "error", "Mul", "x", read)
    binary(build, "other loss", "Square", "error")
    build.update("by hand", "w", binary(build, "gradient", "Mul", "error", "x"))
    return build


def test_a_loss_that_is_not_found_is_named() -> None:
    with pytest.raises(
        PassError, match=r"'by hand' .* updates 'w' and is not averaged, and 'other loss', which is"
    ):
        rewritten(apart(applied()), "other loss", "by hand")
    result = rewritten(apart(applied()), "other loss", "by hand", boundary=("loss", "other loss"))
    assert averaged(result) == {"gradient0_0", "gradient1_0", "gradient_0"}


def calling(*body: NodeDef) -> Builder:
    """A step whose loss follows from a call that changes a variable."""
    function = FunctionDef(node_def=body)
    function.signature.name = "f"
    function.signature.is_stateful = True
    function.signature.input_arg.add(name="x", type=FLOAT.type)
    function.signature.input_arg.add(name="handle", type=DT_RESOURCE)
    function.signature.output_arg.add(name="y", type=FLOAT.type)
    function.ret["y"] = "x"
    build = applied()
    build.graph.library.function.append(function)
    with_variable(build, "inner")
    kinds = AttrValue(list=AttrValue.ListValue(type=[FLOAT.type, DT_RESOURCE]))
    build.node("call", "StatefulPartitionedCall", "x", "inner", f=func("f"), Tin=kinds, Tout=KINDS)
    next(node for node in build.graph.node if node.name == "layer0").input[0] = "call"
    return build


def test_a_call_of_the_forward_pass_keeps_a_state_and_trains_nothing() -> None:
    state = NodeDef(name="s", op="AssignVariableOp", input=["handle", "x"], attr={"dtype": FLOAT})
    assert averaged(rewritten(calling(state))) == {"gradient0_0", "gradient1_0"}
    inner = NodeDef(
        name="s", op="ResourceApplyGradientDescent", input=["handle", "x", "x"], attr={"T": FLOAT}
    )
    with pytest.raises(PassError, match=r"'call' \(StatefulPartitionedCall\) updates 'inner' and takes"):
        rewritten(calling(inner))


def test_a_weight_that_only_a_call_touches_is_trained_by_hand() -> None:
    """A call that changes a variable is taken to change all that it is given, and may read them."""
    state = NodeDef(name="s", op="AssignVariableOp", input=["handle", "x"], attr={"dtype": FLOAT})
    build = calling(state)
    build.update("by hand", "inner", binary(build, "gradient", "Mul", "loss", "x"))
    assert averaged(rewritten(build, "by hand")) == {"gradient0_0", "gradient1_0", "gradient_0"}


def test_collectives_write_nothing() -> None:
    """They take turns by a handle."""
    build = open_step()
    build.node("token", "Placeholder", dtype=AttrValue(type=DT_RESOURCE))
    for name in ("size", "group", "instance"):
        value = AttrValue()
        value.tensor.dtype = DT_INT32
        value.tensor.int_val.append(5)
        build.node(name, "Const", dtype=INT, value=value)
    attrs = {"T": FLOAT, "merge_op": AttrValue(s=b"Add"), "final_op": AttrValue(s=b"Id")}
    taken = ("gradient0", "size", "group", "instance", "token")
    build.node("reduced", "CollectiveReduceV2", *taken, **attrs, Nordering_token=AttrValue(i=1))
    build.update("update", "w0", "reduced")
    build.node("train", "NoOp", "^update")
    item = initialised(build).item("loss:0", "train", feeds=["token:0"])
    assert averaged(check_rewrite(TickTock(2, "batch"), item)) == {"reduced_0"}


@pytest.mark.parametrize(("beside", "found"), [("c", set[str]()), ("layer1", {"moving"})])
def test_the_moments_of_a_batch_normalisation_are_none_of_a_gradient(beside: str, found: set[str]) -> None:
    """Also where the op reads the moving average, as it does in tf_keras; with anything else they may be."""
    build = applied()
    build.const("c")
    taken = ("x", "c", "c", with_variable(build, "moving"), "c")
    build.node("norm", "FusedBatchNormV3", *taken, T=FLOAT, U=FLOAT)
    next(node for node in build.graph.node if node.name == "layer0").input[0] = "norm"
    build.read("again", "moving")
    more = binary(build, "moving/more", "Sub", "again", "norm:1")
    build.update("keep", "moving", binary(build, "moving/part", "Mul", more, beside))
    assert averaged(rewritten(build, "keep")) == {"gradient0_0", "gradient1_0", *found}
