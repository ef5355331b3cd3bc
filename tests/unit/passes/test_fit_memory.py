"""The passes that make a step keep to a limited memory: clones, copies and turns."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from grappler_passes.fit_memory import FitMemory
from grappler_passes.in_order import InOrder
from grappler_passes.offload import Offload
from grappler_passes.recompute import Recompute
from tests.rewrites import check_rewrite
from tests.unit.passes.fitted import AGAIN, MOVING, ORDER, STASHED, plan, step
from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import PassResult
from tfwave.passes.text import parse_pipeline
from tfwave.plan.memory import AwayTensor, Place
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, DT_INT32, DT_VARIANT, DataType, GraphDef, NodeDef
from tfwave.rewrite.fitted.turns import Turns


def inputs(result: PassResult, name: str) -> list[str]:
    return list(node(result, name).input)


def node(result: PassResult, name: str) -> NodeDef:
    return next(node for node in result.item.graph.node if node.name == name)


def names(result: PassResult) -> set[str]:
    return {node.name for node in result.item.graph.node}


def edited(name: str, **to: object) -> GraphItem:
    """The step with another op or type."""
    item = step()
    (found,) = (each for each in item.graph.node if each.name == name)
    for field, value in to.items():
        setattr(found, field, value)
    return item


def test_clones_run_in_their_turn_and_late_readers_take_what_they_make() -> None:
    result = check_rewrite(Recompute(plan(AGAIN)), step())
    assert inputs(result, "x/again_0") == ["size", "size", "^db"]
    assert inputs(result, "a/again_0") == ["x/again_0", "read"]
    assert inputs(result, "da") == ["db", "a/again_0", "view"]
    assert inputs(result, "b") == ["a"]
    assert inputs(result, "other") == ["a"], "what is not of the step keeps what it has"
    assert node(result, "a/again_0").device == "/device:CPU:0"


def test_a_variable_is_not_read_again() -> None:
    again = replace(AGAIN, again=("x", "read", "a"))
    result = check_rewrite(Recompute(plan(again)), step())
    assert inputs(result, "a/again_0") == ["x/again_0", "read"]
    assert "read/again_0" not in names(result)


def test_what_is_made_again_of_what_is_made_again_reads_that() -> None:
    later = AwayTensor(
        ("b:0",), 8, "recompute", after="loss", gone="dloss", back="da", wanted="da", again=("b",)
    )
    result = check_rewrite(Recompute(plan(replace(AGAIN, after="b"), later)), step())
    assert inputs(result, "b/again_1") == ["a/again_0", "^db"]
    assert inputs(result, "g") == ["da", "b/again_1"]


def test_a_view_of_what_comes_back_is_made_again() -> None:
    later = AwayTensor(
        ("b:0",), 8, "recompute", after="loss", gone="dloss", back="da", wanted="da", again=("b",)
    )
    result = check_rewrite(Recompute(plan(later)), step())
    assert inputs(result, "view/again_0") == ["b/again_0", "size"]
    assert inputs(result, "da") == ["db", "a", "view/again_0"]


@pytest.mark.parametrize(
    ("name", "op", "says"),
    [
        ("x", "RandomUniform", r"node 'x' \(RandomUniform\) draws other numbers when it runs twice"),
        ("a", "PyFunc", r"node 'a' \(PyFunc\) may give something else when it runs twice"),
        ("a", "NonDeterministicInts", r"node 'a' \(NonDeterministicInts\) may give something else"),
    ],
)
def test_what_may_not_run_twice_is_refused(name: str, op: str, says: str) -> None:
    item = edited(name, op=op)
    for each in item.graph.node:
        if each.name == name:
            each.input[:] = each.input[:1]
            each.attr["Tin"].list.type.append(DT_FLOAT)
            each.attr["Tout"].list.type.append(DT_FLOAT)
    with pytest.raises(PassError, match=says):
        Recompute(plan(AGAIN, item=item))(item)


def test_a_tensor_leaves_and_comes_back_beside_its_ops() -> None:
    result = check_rewrite(Offload(plan(STASHED)), step())
    assert inputs(result, "b/host_0/out") == ["b", "^loss"]
    assert inputs(result, "b/host_0") == ["b/host_0/out", "^loss"]
    assert "^b/host_0/out" in inputs(result, "db"), "it needs the bytes"
    assert inputs(result, "g") == ["da", "b/host_0"]
    assert inputs(result, "view/host_0") == ["b/host_0", "size"]
    assert inputs(result, "da") == ["db", "a", "view/host_0"]
    out, back = node(result, "b/host_0/out"), node(result, "b/host_0")
    assert (out.op, out.attr["slot"].s, back.op) == ("TfwaveStash", b"b:0", "TfwaveFetch")
    assert out.attr["T"] == back.attr["T"]


def test_what_was_written_last_into_a_buffer_is_what_leaves() -> None:
    tensor = replace(STASHED, names=("a:0", "b:0", "view:0", "g:0"))
    result = check_rewrite(Offload(plan(tensor)), step())
    assert inputs(result, "b/host_0/out") == ["b", "^loss"]
    assert inputs(result, "da") == ["db", "a", "view/host_0"]


def test_what_is_no_plain_tensor_is_not_offloaded() -> None:
    item = step()
    next(each for each in item.graph.node if each.name == "b").attr["T"].type = DT_VARIANT
    with pytest.raises(PassError, match="what 'b' \\(Exp\\) gives is no plain tensor"):
        Offload(plan(STASHED, item=item))(item)


def test_only_what_would_run_in_another_order_is_chained() -> None:
    chained = ("a", "b", "loss", "db", "da", "update")
    result = check_rewrite(InOrder(plan(chained=chained)), step())
    assert [edit.__class__.__name__ for edit in result.edits] == []
    item = step()
    next(each for each in item.graph.node if each.name == "da").input.remove("db")
    next(each for each in item.graph.node if each.name == "da").attr["N"].i = 2
    result = check_rewrite(InOrder(plan(chained=chained, item=item)), item)
    assert inputs(result, "da") == ["a", "view", "^db"]


def independent() -> GraphItem:
    """Ops that need nothing of each other, and one for each that reads it."""
    graph = GraphDef()
    for number in range(6):
        node = graph.node.add(name=f"op{number}", op="Placeholder", device="/device:CPU:0")
        node.attr["dtype"].type = DT_FLOAT
        reader = graph.node.add(name=f"reader{number}", op="Exp", input=[node.name], device="/device:CPU:0")
        reader.attr["T"].type = DT_FLOAT
    return GraphItem(graph, fetches=tuple(f"reader{number}" for number in range(6)))


@pytest.mark.parametrize(
    ("beside", "waits"),
    [
        ((0, 0, 0, 0, 0, 0), ["", "0", "1", "2", "3", "4"]),
        ((0, 1, 2, 2, 1, 2), ["", "", "", "0", "210", "210"]),
        ((0, 1, 1, 2, 0, 1), ["", "", "0", "0", "321", "321"]),
        ((0, 1, 2, 3, 4, 5), ["", "", "", "", "", ""]),
    ],
)
def test_an_op_waits_for_those_that_may_not_run_beside_it(beside: Sequence[int], waits: list[str]) -> None:
    """And not for those for which they waited."""
    item = independent()
    order = tuple(f"op{number}" for number in range(6))
    made = plan(item=item)
    assert made.memory is not None
    memory = replace(made.memory, order=order, tensors=(), chained=order, beside=tuple(beside))
    result = check_rewrite(InOrder(Plan(memory=memory)), item)
    assert [inputs(result, name) for name in order] == [[f"^op{source}" for source in w] for w in waits]


def test_a_missing_op_leaves_the_others_their_turn() -> None:
    """Those before what is not in this graph are done first all the same."""
    order = ("op0", "op1", "gone", "op3", "op4", "op5")
    turns = Turns(GraphRewriter(independent(), "test"), order, order, (0, 1, 1, 1, 1, 2))
    assert [len(turns.awaited(index)) for index in range(2)] == [0, 0]
    assert [set(turns.awaited(index)) for index in range(2, 5)] == [{"op0", "op1"}] * 3


def test_what_comes_back_waits_for_those_that_may_not_run_beside_its_readers() -> None:
    """b, loss and db may still run when da begins, and what is made again for it; b when what db needs does."""
    beside = (0, 1, 2, 2, 3, 4)
    result = check_rewrite(FitMemory(plan(AGAIN, STASHED, beside=beside)), step())
    assert inputs(result, "x/again_0") == ["size", "size", "^a"]
    assert inputs(result, "b/host_0") == ["b/host_0/out", "^a"]
    assert "^b/host_0/out" in inputs(result, "db")


def test_all_at_once_is_all_one_after_the_other() -> None:
    made = plan(AGAIN, STASHED)
    at_once = check_rewrite(FitMemory(made), step())
    in_turn = check_rewrite(parse_pipeline("recompute,offload,in_order", made), step())
    assert wired(at_once) == wired(in_turn)
    assert "^a/again_0" not in inputs(at_once, "da"), "it reads that"
    other = check_rewrite(parse_pipeline("offload,recompute,in_order", made), step())
    assert wired(other) == wired(in_turn)


def wired(result: PassResult) -> dict[str, tuple[str, list[str]]]:
    return {each.name: (each.op, sorted(each.input)) for each in result.item.graph.node}


def placed(made: Plan, apart: Sequence[str] = (), swapped: Sequence[str] = ()) -> Plan:
    """The plan with a place for each op that is to keep apart."""
    assert made.memory is not None
    places = tuple(Place(name, 0, 256) for name in apart)
    memory = replace(made.memory, places=places, region_bytes=256, apart=tuple(apart), swapped=tuple(swapped))
    return Plan(memory=memory)


def test_ops_with_a_place_of_their_own_go_on_in_no_other() -> None:
    apart = ("a", "loss", "read", "a/again_0", "b/host_0", "view")
    result = check_rewrite(FitMemory(placed(plan(AGAIN, STASHED), apart)), step())
    kept = {name: list(node(result, name).attr["_scoped_allocator"].list.i) for name in apart}
    assert kept == {name: [0, 0] if name in {"a", "loss", "a/again_0"} else [] for name in apart}


def test_an_op_that_has_its_allocator_keeps_it() -> None:
    item = edited("loss", op="Sqrt")
    (loss,) = (each for each in item.graph.node if each.name == "loss")
    loss.attr["_scoped_allocator"].list.i.extend([0, 7])
    result = check_rewrite(FitMemory(placed(plan(AGAIN, STASHED, item=item), ["loss"])), item)
    assert list(node(result, "loss").attr["_scoped_allocator"].list.i) == [0, 7]


@pytest.mark.parametrize("tensors", [(), (AGAIN, STASHED)])
def test_inputs_change_places_once_and_before_ops_are_cloned(tensors: Sequence[AwayTensor]) -> None:
    """Also where nothing is away, and so nothing is added."""
    made = placed(plan(*tensors, chained=() if not tensors else MOVING), swapped=("a", "g"))
    result = check_rewrite(FitMemory(made), step())
    assert inputs(result, "a")[:2] == ["read", "x"]
    assert inputs(result, "g")[:2] == ["b/host_0" if tensors else "b", "da"]
    if tensors:
        assert inputs(result, "a/again_0") == ["read", "x/again_0"]


def test_what_has_no_two_inputs_is_not_swapped() -> None:
    with pytest.raises(PassError, match="node 'loss' has no two inputs to swap: make a plan of this graph"):
        FitMemory(placed(plan(AGAIN), swapped=["loss"]))(step())


@pytest.mark.parametrize("name", ["in_order", "recompute", "offload", "fit_memory"])
def test_a_plan_of_another_graph_is_refused(name: str) -> None:
    made = plan(AGAIN, STASHED)
    item = step()
    for each in item.graph.node:
        each.name = each.name.replace("db", "dz")
        each.input[:] = [text.replace("db", "dz") for text in each.input]
    with pytest.raises(PassError, match="was made for another graph: this one has no node 'db'"):
        parse_pipeline(name, made)(item)
    with pytest.raises(PassError, match="the planned step has 0 Sinh nodes, this one 1"):
        parse_pipeline(name, made)(edited("b", op="Sinh"))
    with pytest.raises(PassError, match=r"does not say how a step fits .* `tfwave fit BUNDLE"):
        parse_pipeline(name, Plan(placement=Placement(1)))(step())


def test_a_graph_with_more_than_the_step_is_taken() -> None:
    made = plan(AGAIN, STASHED)
    item = step()
    more = item.graph.node.add(name="more", op="Exp", input=["b"])
    more.attr["T"].type = DT_INT32
    result = check_rewrite(FitMemory(made), item)
    assert inputs(result, "more") == ["b"]


def assigned(value: str, kind: DataType = DT_FLOAT) -> GraphItem:
    """The step, and a variable's first value besides."""
    item = step()
    for name, op, inputs in (
        ("first", "Const", []),
        ("same", "Identity", ["first"]),
        ("drawn", "Exp", ["first"]),
        ("reset", "AssignVariableOp", ["w", value]),
    ):
        added = item.graph.node.add(name=name, op=op, input=inputs, device="/device:CPU:0")
        added.attr["dtype" if op in {"Const", "AssignVariableOp"} else "T"].type = kind
    return item


@pytest.mark.parametrize("value", ["first", "same"])
def test_a_variable_that_begins_as_a_constant_gets_a_buffer_of_its_own(value: str) -> None:
    item = assigned(value)
    result = check_rewrite(FitMemory(plan(item=item)), item)
    assert inputs(result, "reset") == ["w", "reset/own"]
    own = node(result, "reset/own")
    assert (own.op, list(own.input), own.device) == ("DeepCopy", [value], "/device:CPU:0")
    assert own.attr["T"].type == DT_FLOAT


def test_other_variables_have_one() -> None:
    """What is drawn, what has no copy, and what the step itself assigns."""
    within = assigned("first")
    for item, order in (
        (assigned("drawn"), ORDER),
        (assigned("first", DT_VARIANT), ORDER),
        (within, (*ORDER, "first", "reset")),
    ):
        result = check_rewrite(FitMemory(plan(item=item, order=order)), item)
        assert "reset/own" not in names(result)
