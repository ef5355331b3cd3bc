"""What the passes of a fitted step make of ports, views of views, control edges, and ops that keep no turn."""

from dataclasses import replace

import pytest

from grappler_passes.fit_memory import FitMemory
from grappler_passes.offload import Offload
from grappler_passes.recompute import Recompute
from tests.rewrites import check_rewrite
from tests.unit.passes.fitted import AGAIN, ORDER, STASHED, plan, step
from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.passes.base import PassResult
from tfwave.plan.memory import AwayTensor
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, DT_INT32, GraphDef, NodeDef
from tfwave.rewrite.fitted.turns import Turns

LATER = AwayTensor(("b:0",), 8, "recompute", after="loss", gone="dloss", back="da", wanted="da", again=("b",))


def node(item: GraphItem, name: str) -> NodeDef:
    return next(node for node in item.graph.node if node.name == name)


def inputs(result: PassResult, name: str) -> list[str]:
    return list(node(result.item, name).input)


def of_two_ports() -> GraphItem:
    """`b` gives two tensors, of which the second is read."""
    item = step()
    split = node(item, "b")
    split.op, split.attr["num"].i = "Unpack", 2
    for name in ("view", "loss", "g"):
        reader = node(item, name)
        reader.input[:] = ["b:1" if text == "b" else text for text in reader.input]
    return item


def test_a_tensor_that_is_not_the_first_of_its_op_leaves_and_comes_back() -> None:
    item = of_two_ports()
    result = check_rewrite(Offload(plan(replace(STASHED, names=("b:1", "view:0")), item=item)), item)
    assert inputs(result, "b/host_0/out") == ["b:1", "^loss"]
    assert node(result.item, "b/host_0/out").attr["slot"].s == b"b:1"
    assert inputs(result, "g") == ["da", "b/host_0"]


def test_a_tensor_that_is_not_the_first_of_its_op_is_made_again() -> None:
    item = of_two_ports()
    tensor = replace(LATER, names=("b:1", "view:0"), again=("b", "view"))
    result = check_rewrite(Recompute(plan(tensor, item=item)), item)
    assert inputs(result, "g") == ["da", "b/again_0:1"]
    assert inputs(result, "view/again_0") == ["b/again_0:1", "size"]
    assert inputs(result, "da") == ["db", "a", "view/again_0"]


def test_a_view_that_runs_again_is_not_made_a_second_time() -> None:
    result = check_rewrite(
        Recompute(plan(replace(LATER, names=("b:0", "view:0"), again=("b", "view")))), step()
    )
    again = {each.name for each in result.item.graph.node if "again" in each.name}
    assert again == {"b/again_0", "view/again_0"}
    assert inputs(result, "da") == ["db", "a", "view/again_0"]


def test_views_between_what_runs_again_run_again() -> None:
    """Else what they are views of would stay for them; of what stays they do not."""
    item = step()
    of_views = item.graph.node.add(name="c", op="AddN", input=["same", "kept"], device="/device:CPU:0")
    of_views.attr["T"].type, of_views.attr["N"].i = DT_FLOAT, 2
    for name, of in (("same", "view"), ("kept", "a")):
        item.graph.node.add(name=name, op="Identity", input=[of], device="/device:CPU:0").attr[
            "T"
        ].type = DT_FLOAT
    node(item, "g").input[:] = ["da", "c"]
    made = replace(LATER, names=("c:0",), again=("b", "c"))
    order = (*ORDER[:5], "same", "kept", "c", *ORDER[5:])
    result = check_rewrite(Recompute(plan(made, item=item, order=order)), item)
    assert inputs(result, "g") == ["da", "c/again_0"]
    assert inputs(result, "c/again_0") == ["same/again_0", "kept"]
    assert inputs(result, "same/again_0") == ["view/again_0"]
    assert inputs(result, "view/again_0") == ["b/again_0", "size"]


def test_views_of_views_are_made_again() -> None:
    """Early nodes keep theirs, and what only gives a shape is no view."""
    item = step()
    for name, of, shape in (("narrow", "view", "size"), ("shaped", "a", "b")):
        view = item.graph.node.add(name=name, op="Reshape", input=[of, shape], device="/device:CPU:0")
        view.attr["T"].type, view.attr["Tshape"].type = DT_FLOAT, DT_INT32
    node(item, "da").input[:] = ["db", "shaped", "narrow"]
    result = check_rewrite(Offload(plan(STASHED, item=item)), item)
    assert inputs(result, "view/host_0") == ["b/host_0", "size"]
    assert inputs(result, "narrow/host_0") == ["view/host_0", "size"]
    assert inputs(result, "da") == ["db", "shaped", "narrow/host_0"]
    assert inputs(result, "narrow") == ["view", "size"]


def test_clones_wait_for_nothing_that_the_ops_waited_for_and_are_nobodys_mates() -> None:
    item = step()
    for name in ("a", "view"):
        node(item, name).input.append("^read")
        node(item, name).attr["_class"].list.s.append(b"loc:@read")
    made = plan(AGAIN, LATER, item=item)
    result = check_rewrite(Recompute(made), item)
    assert inputs(result, "a/again_0") == ["x/again_0", "read"]
    assert inputs(result, "view/again_1") == ["b/again_1", "size"]
    assert "_class" not in node(result.item, "a/again_0").attr
    assert "_class" not in node(result.item, "view/again_1").attr


def test_what_leaves_right_behind_its_op_waits_for_nothing_else() -> None:
    result = check_rewrite(Offload(plan(replace(STASHED, after="b"))), step())
    assert inputs(result, "b/host_0/out") == ["b"]


def test_before_the_first_turn_nothing_triggers_what_comes_back() -> None:
    """And behind the last turn nothing waits for what leaves."""
    made = plan(STASHED, replace(AGAIN, again=("a",)), chained=("g",))
    assert inputs(check_rewrite(Offload(made), step()), "b/host_0") == ["b/host_0/out"]
    assert inputs(check_rewrite(Recompute(made), step()), "a/again_0") == ["x", "read"]
    result = check_rewrite(Offload(plan(STASHED, chained=("a", "b"))), step())
    assert not [each.name for each in result.item.graph.node if "^b/host_0/out" in each.input]


def test_copies_have_no_turn_among_the_ops() -> None:
    """But the op that needs the bytes waits for the copy out, and the copy back for the op before its readers."""
    result = check_rewrite(FitMemory(plan(AGAIN, STASHED)), step())
    waits = {each.name: list(each.input) for each in result.item.graph.node}
    assert waits["b/host_0"] == ["b/host_0/out", "^loss"]
    assert [name for name, given in waits.items() if "^b/host_0/out" in given] == ["db"]
    assert not [name for name, given in waits.items() if {"^b/host_0", "^view/host_0"} & set(given)]


def test_what_comes_back_waits_for_what_leaves_before_the_same_op() -> None:
    """Else both would be held at once, which the plan does not count."""
    other = AwayTensor(("x:0",), 8, "offload", after="b", gone="loss", back="db", wanted="da")
    result = check_rewrite(FitMemory(plan(replace(AGAIN, back="db"), STASHED, other)), step())
    assert "^b/host_0/out" in inputs(result, "x/host_1")
    assert "^b/host_0/out" in inputs(result, "x/again_0")
    assert inputs(result, "b/host_0") == ["b/host_0/out", "^loss"]


def test_a_variable_of_tensorflow_1_is_not_offloaded() -> None:
    """Its tensor is the variable itself."""
    item = step()
    variable = node(item, "b")
    variable.op = "VariableV2"
    del variable.input[:]
    variable.attr["dtype"].type = DT_FLOAT
    with pytest.raises(PassError, match=r"what 'b' \(VariableV2\) gives is no plain tensor"):
        Offload(plan(STASHED, item=item))(item)


def of_layers(count: int) -> tuple[GraphItem, Plan]:
    """Activations in a row, each read again on the way back; the plan has all but the last few on the host."""
    graph, flow = GraphDef(), "x"
    ops = [("x", "Placeholder", list[str]())]
    for i in range(count):
        ops.append((flow := f"f{i}", "Exp", [ops[-1][0]]))
    for i in reversed(range(count)):
        ops.append((f"b{i}", "Mul", [flow, f"f{i}"]))
        flow = f"b{i}"
    for name, op, read in ops:
        node = graph.node.add(name=name, op=op, input=read, device="/device:CPU:0")
        node.attr["dtype" if op == "Placeholder" else "T"].type = DT_FLOAT
    away = [
        AwayTensor((f"f{i}:0",), 8, "offload", f"f{i + 1}", f"f{i + 2}", f"b{i}", f"b{i}")
        for i in range(count - 3)
    ]
    item, order = GraphItem(graph, fetches=("b0:0",)), [name for name, *_ in ops]
    return item, plan(*away, item=item, order=order, chained=order[1:])


def test_a_step_of_many_ops_is_chained_without_a_look_at_all_of_them_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = list[str]()
    stock = Turns.of

    def of(turns: Turns, name: str) -> float:
        looked.append(name)
        return stock(turns, name)

    monkeypatch.setattr(Turns, "of", of)
    counts = list[int]()
    for count in (8, 32):
        item, planned = of_layers(count)
        looked.clear()
        result = FitMemory(planned)(item)
        assert inputs(result, "b0") == ["b1", "f0/host_0"]
        counts.append(len(looked))
    assert counts[1] <= 5 * counts[0]
