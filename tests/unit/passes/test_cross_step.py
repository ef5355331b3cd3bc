"""The pass cross_step: what is copied, what waits for what, and what is refused."""

import random
from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
import pytest

from grappler_passes.cross_step import CrossStep, step_name
from tests.rewrites import check_rewrite, edges
from tests.steps import FLOAT, SERVER, WORKER, Builder, layers, random_step
from tests.unit.graph.test_functions import func
from tfwave.errors import GraphError, PassError
from tfwave.graph.item import GraphItem
from tfwave.graph.partition.cut import cut
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.base import PassResult
from tfwave.passes.text import parse_pipeline
from tfwave.proto.tensorflow_pb2 import (
    DT_BOOL,
    DT_FLOAT,
    DT_INT32,
    DT_RESOURCE,
    DT_STRING,
    AttrValue,
    FunctionDef,
    GraphDef,
    NodeDef,
)

PRINT = {"T": FLOAT, "U": AttrValue(list=AttrValue.ListValue())}


def inputs(result: PassResult, name: str) -> list[str]:
    return next(list(node.input) for node in result.item.graph.node if node.name == name)


def names(result: PassResult) -> set[str]:
    return {node.name for node in result.item.graph.node}


def test_each_step_has_its_own_feeds_and_fetches() -> None:
    result = check_rewrite(CrossStep(3), layers().item("loss:0", "train", feeds=["x:0"]))
    assert result.item.feeds == ("x:0", "cross_step/1/x:0", "cross_step/2/x:0")
    assert result.item.fetches == tuple(step_name(n, k) for n in ("loss:0", "train") for k in range(3))
    assert result.remarks == (
        "3 steps a call: feed and fetch those of step k under its names, such as 'cross_step/1/loss:0' for step 1",
    )


def test_undone_feeds_and_fetches_are_those_of_one_step() -> None:
    item = layers().item("loss:0", "train", feeds=["x:0"])
    undone = parse_pipeline("cross_step{steps=3},strip")(item).item
    assert (undone.feeds, undone.fetches) == (item.feeds, item.fetches)


def test_a_read_waits_for_its_own_update_and_nothing_else_does() -> None:
    result = check_rewrite(CrossStep(3), layers().item("loss:0", "train"))
    for before, k in (("", "cross_step/1/"), ("cross_step/1/", "cross_step/2/")):
        for i in range(2):
            assert inputs(result, f"{k}read{i}") == [f"w{i}", f"^{before}update{i}"]
            assert inputs(result, f"{k}update{i}") == [f"w{i}", f"{k}gradient{i}"]
        assert inputs(result, f"{k}loss") == [f"{k}x", f"{k}layer0", f"{k}layer1"]


def test_what_the_step_does_not_need_is_not_copied() -> None:
    build = layers()
    build.add("other", "read0")
    assert "cross_step/1/other" not in names(check_rewrite(CrossStep(2), build.item("loss:0", "train")))


def test_handles_and_constants_are_shared() -> None:
    build = layers()
    build.add("sum", "loss", build.const("free"), build.const("waits", "^train"), build.const("fetched"))
    result = check_rewrite(CrossStep(2), build.item("sum:0", "fetched:0"))
    assert inputs(result, "cross_step/1/sum") == [
        "cross_step/1/loss",
        "free",
        "cross_step/1/waits",
        "cross_step/1/fetched",
    ]
    assert not {"cross_step/1/free", "cross_step/1/w0"} & names(result)


def with_all_waits(build: Builder, result: PassResult, steps: int) -> nx.DiGraph:
    """Single steps, with an edge between any two accesses of consecutive ones that conflict."""
    found = edges(result.item.graph)
    found.remove_edges_from(crossing(found))
    for one in build.accesses:
        for other in build.accesses:
            if one.variable == other.variable and (one.writes or other.writes):
                for k in range(1, steps):
                    found.add_edge(step_name(one.node, k - 1), step_name(other.node, k))
    return found


def crossing(graph: nx.DiGraph) -> list[tuple[str, str]]:
    return [(a, b) for a, b in graph.edges if step_of(a) != step_of(b) and not is_shared(a)]


def step_of(name: str) -> int:
    return int(name.split("/")[1]) if name.startswith("cross_step/") else 0


def is_shared(name: str) -> bool:
    return name.startswith("v") or name == "c"


@pytest.mark.parametrize("seed", range(60))
def test_steps_wait_as_much_as_a_barrier_implies_for_each_variable(seed: int) -> None:
    rng = random.Random(seed)
    build, item = random_step(rng)
    steps = rng.randint(2, 4)
    found = edges(check_rewrite(CrossStep(steps), item).item.graph)
    wanted = nx.transitive_closure_dag(with_all_waits(build, CrossStep(steps)(item), steps))
    assert set(nx.transitive_closure_dag(found).edges) == set(wanted.edges)
    for edge in crossing(found):
        rest = found.copy()
        rest.remove_edge(*edge)
        assert not nx.has_path(rest, *edge)


def test_the_order_of_nodes_does_not_matter() -> None:
    item = layers(4).item("loss:0", "train")
    reverse = GraphItem(GraphDef(node=list(item.graph.node)[::-1]), fetches=item.fetches)
    first, second = (CrossStep(3)(one).item.graph.node for one in (item, reverse))
    assert {n.name: n for n in first} == {n.name: n for n in second}


def test_each_step_has_transfers_of_its_own() -> None:
    item = layers(3).item("loss:0", "train", feeds=["x:0"])
    one, many = (
        find_transfers(GraphView.of(*cut(i))).data for i in (item, check_rewrite(CrossStep(4), item).item)
    )
    assert len(one) == 6
    assert {t.key for t in many} == {
        replace(t.key, node=step_name(t.key.node, k)) for t in one for k in range(4)
    }


def test_a_branch_that_may_not_run_orders_nothing() -> None:
    """The update may come before the read, whose value only one of the branches needs."""
    build = layers()
    build.node("p", "Placeholder", dtype=AttrValue(type=DT_BOOL))
    build.handle("w")
    build.read("read", "w")
    build.node("one", "Switch", "read", "p", T=FLOAT)
    build.node("two", "Switch", "x", "p", T=FLOAT)
    build.node("either", "Merge", "one:1", "two", T=FLOAT, N=AttrValue(i=2))
    build.update("update", "w", "either")
    build.node("end", "NoOp", "^update", "^read")
    result = check_rewrite(CrossStep(2), build.item("end"))
    assert inputs(result, "cross_step/1/update")[2:] == ["^read", "^update"]
    assert inputs(result, "cross_step/1/read")[1:] == ["^update"]


def test_a_copy_is_colocated_in_its_own_step_and_loops_in_its_own_frame() -> None:
    build = layers()
    groups = AttrValue(list=AttrValue.ListValue(s=[b"loc:@loss", b"loc:@w0", b"loc:@elsewhere"]))
    build.node("beside", "Identity", "loss", T=FLOAT, _class=groups)
    build.node("enter", "Enter", "beside", T=FLOAT, frame_name=AttrValue(s=b"loop"))
    build.node("exit", "Exit", "enter", T=FLOAT)
    nodes = {n.name: n for n in check_rewrite(CrossStep(2), build.item("exit:0")).item.graph.node}
    assert list(nodes["cross_step/1/beside"].attr["_class"].list.s) == [
        b"loc:@cross_step/1/loss",
        b"loc:@w0",
        b"loc:@elsewhere",
    ]
    assert nodes["cross_step/1/enter"].attr["frame_name"].s == b"cross_step/1/loop"


def test_what_is_known_by_the_name_of_its_node_stays_one() -> None:
    build = layers()
    kinds = AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT]))
    build.node("stage", "Stage", "loss", dtypes=kinds, shared_name=AttrValue(s=b""))
    build.node("unstage", "Unstage", "^stage", dtypes=kinds, shared_name=AttrValue(s=b"stage"))
    result = check_rewrite(CrossStep(2), build.item("unstage:0"))
    copy = next(node for node in result.item.graph.node if node.name == "cross_step/1/stage")
    assert copy.attr["shared_name"].s == b"stage"
    assert inputs(result, "cross_step/1/stage") == ["cross_step/1/loss", "^unstage"]


def test_what_is_fed_needs_nothing() -> None:
    build = layers()
    build.node("drawn", "RandomUniform", "x", T=AttrValue(type=DT_INT32), dtype=FLOAT, seed=AttrValue(i=1))
    build.add("sum", "drawn", "loss")
    result = check_rewrite(CrossStep(2), build.item("sum:0", feeds=["drawn:0"]))
    assert result.item.feeds == ("drawn:0", "cross_step/1/drawn:0")


def with_function(name: str, *nodes: NodeDef) -> GraphDef:
    function = FunctionDef(node_def=nodes)
    function.signature.name = name
    function.signature.is_stateful = True
    function.signature.input_arg.add(name="handle", type=DT_RESOURCE)
    graph = GraphDef()
    graph.library.function.append(function)
    return graph


def call_of(build: Builder, function: GraphDef) -> None:
    build.graph.library.CopyFrom(function.library)
    one = AttrValue(list=AttrValue.ListValue(type=[DT_RESOURCE]))
    none = AttrValue(list=AttrValue.ListValue())
    build.node("call", "StatefulPartitionedCall", "w0", "^loss", f=func("f"), Tin=one, Tout=none)
    build.node("end", "NoOp", "^call", "^train")


READING = NodeDef(name="r", op="ReadVariableOp", input=["handle"], attr={"dtype": FLOAT})
ADDING = NodeDef(name="a", op="AssignAddVariableOp", input=["handle", "r:value:0"], attr={"dtype": FLOAT})
PRINTING = NodeDef(name="p", op="Print", input=["r:value:0"], attr=PRINT)
DONE = "^cross_step/done/call"


def test_a_call_that_takes_and_gives_tensors_is_waited_for_as_a_whole() -> None:
    """Its nodes may begin before all that it takes is there, and end after what it gives."""
    graph = with_function("f", READING, ADDING)
    graph.library.function[0].signature.input_arg.add(name="x", type=DT_FLOAT)
    for name, value in (("one", "x"), ("other", "handle")):
        kind = DT_RESOURCE if name == "other" else DT_FLOAT
        graph.library.function[0].signature.output_arg.add(name=name, type=kind)
        graph.library.function[0].ret[name] = value
    build = Builder(graph)
    build.handle("w")
    build.handle("n")
    build.read("read", "n")
    kinds = AttrValue(list=AttrValue.ListValue(type=[DT_RESOURCE, DT_FLOAT]))
    given = AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT, DT_RESOURCE]))
    build.node("call", "StatefulPartitionedCall", "w", "read", f=func("f"), Tin=kinds, Tout=given)
    build.add("loss", "call")
    build.update("update", "n", "loss")
    result = check_rewrite(CrossStep(3), build.item("loss:0", "update"))
    assert inputs(result, "cross_step/done/call") == ["call"]
    assert inputs(result, "cross_step/1/call") == ["w", "cross_step/1/read", DONE]
    assert inputs(result, "cross_step/1/read") == ["n", "^update"]
    assert inputs(result, "cross_step/1/cross_step/done/call") == ["cross_step/1/call"]
    assert inputs(result, "cross_step/2/call")[-1] == "^cross_step/1/cross_step/done/call"
    assert "cross_step/2/cross_step/done/call" not in names(result)


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ([READING], {"call": [], "read0": ["^update0"], "update0": [DONE]}),
        ([READING, ADDING], {"call": [], "read0": [DONE, "^update0"], "update0": []}),
        ([READING, PRINTING], {"call": [DONE], "read0": ["^update0"], "update0": [DONE]}),
    ],
)
def test_a_call_touches_what_its_function_touches(body: list[NodeDef], waits: dict[str, list[str]]) -> None:
    build = layers(1)
    call_of(build, with_function("f", *body))
    result = check_rewrite(CrossStep(2), build.item("end"))
    for name, wanted in waits.items():
        found = [text for text in inputs(result, f"cross_step/1/{name}") if text.startswith("^")]
        assert sorted(t for t in found if not t.startswith("^cross_step/1")) == wanted, name


def after_a_loop(returned: Sequence[str], *nodes: NodeDef) -> GraphItem:
    """The shape of a variable, whose handle a loop gives out first of two; its body returns these tensors."""
    build = layers()
    body = FunctionDef(node_def=nodes)
    body.signature.name = "body"
    for name, tensor in zip("ab", returned, strict=True):
        body.signature.input_arg.add(name=name, type=DT_RESOURCE)
        body.signature.output_arg.add(name=f"{name}_out", type=DT_RESOURCE)
        body.ret[f"{name}_out"] = tensor
    build.graph.library.function.append(body)
    two = AttrValue(list=AttrValue.ListValue(type=[DT_RESOURCE] * 2))
    build.node("loop", "While", "w0", "w1", cond=func("body"), body=func("body"), T=two)
    build.node("shape", "VariableShape", "loop", out_type=AttrValue(type=DT_INT32))
    return build.item("shape", "train")


SAME = NodeDef(name="same", op="Identity", input=["a"], attr={"T": AttrValue(type=DT_RESOURCE)})


@pytest.mark.parametrize(("returned", "nodes"), [(["a", "b"], []), (["same:output:0", "a"], [SAME])])
def test_a_handle_is_known_that_a_loop_gives_out_as_it_took_it(
    returned: Sequence[str], nodes: Sequence[NodeDef]
) -> None:
    """As the gradient of a loop takes those of the weights."""
    result = check_rewrite(CrossStep(2), after_a_loop(returned, *nodes))
    assert "^shape" in inputs(result, step_name("update0", 1))
    assert "^shape" not in inputs(result, step_name("update1", 1))


def test_a_handle_that_a_loop_exchanges_is_refused() -> None:
    with pytest.raises(GraphError, match=r"'shape' takes a handle from 'loop' \(While\), which does not say"):
        CrossStep(2)(after_a_loop(["b", "a"]))


def test_what_has_no_variable_waits_for_all_such_of_the_step_before() -> None:
    build = layers()
    build.node("early", "Print", "x", **PRINT)
    build.node("late", "Print", "loss", "^early", **PRINT)
    build.node("end", "NoOp", "^late")
    result = check_rewrite(CrossStep(2), build.item("end"))
    assert inputs(result, "cross_step/1/early") == ["cross_step/1/x", "^late"]
    assert inputs(result, "cross_step/1/late") == ["cross_step/1/loss", "^cross_step/1/early"]


def test_an_iterator_that_is_found_by_a_string_may_be_any() -> None:
    build = Builder()
    shapes = AttrValue(list=AttrValue.ListValue(shape=[AttrValue().shape]))
    attrs = {"output_types": AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT])), "output_shapes": shapes}
    build.node("own", "IteratorV2", shared_name=AttrValue(), container=AttrValue(), **attrs)
    build.node("name", "Placeholder", dtype=AttrValue(type=DT_STRING))
    build.node("found", "IteratorFromStringHandleV2", "name")
    build.node("next", "IteratorGetNext", "own", **attrs)
    build.node("other", "IteratorGetNext", "found", "^next", **attrs)
    result = check_rewrite(CrossStep(2), build.item("other:0"))
    assert inputs(result, "cross_step/1/next") == ["own", "^other"]


def test_a_task_that_waits_for_another_is_named() -> None:
    build = layers()
    build.node("early", "Print", "x", device=WORKER, **PRINT)
    build.node("late", "Print", "loss", "^early", device=SERVER, **PRINT)
    remarks = check_rewrite(CrossStep(2), build.item("late:0")).remarks
    assert remarks[0] == "'early' waits for 'late' of the step before, which is on another task"


@pytest.mark.parametrize("clipped", [0, 2, 3])
def test_a_bottleneck_of_all_updates_is_named(clipped: int) -> None:
    build = layers(3)
    for i in range(3):
        build.graph.node.add(name=f"product{i}", op="MatMul", input=[f"gradient{i}"] * 2, attr={"T": FLOAT})
        build.graph.node.add(name=f"used{i}", op="MatMul", input=[f"read{i}"] * 2, attr={"T": FLOAT})
    build.add("norm", *(f"product{i}" for i in range(3)))
    build.add("scale", "norm", "used0", "used1", "used2")
    nodes = {node.name: node for node in build.graph.node}
    for i in range(3):
        nodes["loss"].input.append(f"^used{i}")
        nodes[f"update{i}"].input[1] = f"product{i}"
        if i < clipped:
            nodes[f"update{i}"].input.append("^scale")
    remarks = check_rewrite(CrossStep(2), build.item("loss:0", "train")).remarks
    assert all("overlap little" in remark for remark in remarks[1:])
    assert [r.split("'")[1] for r in remarks[1:]] == (["scale"] if clipped == 3 else [])


def test_steps_are_cut_after_they_are_copied() -> None:
    item = layers().item("loss:0", "train", feeds=["x:0"])
    check_rewrite(parse_pipeline("cross_step{steps=3},cut"), item)
    with pytest.raises(PassError, match="the graph is cut already; run cross_step before 'cut'"):
        parse_pipeline("cut,cross_step{steps=3}")(item)


def test_one_step_is_the_step_itself() -> None:
    item = layers().item("loss:0", "train")
    assert CrossStep(1)(item).item is item
    assert str(parse_pipeline("cross_step{steps=3}")) == "cross_step{steps=3}"


def test_less_than_a_step_is_refused() -> None:
    with pytest.raises(PassError, match="cross_step: steps is 0, it must be 1 or more"):
        CrossStep(0)


def test_other_numbers_of_steps_need_a_strip_first() -> None:
    item = CrossStep(3)(layers().item("loss:0", "train")).item
    with pytest.raises(GraphError, match=r"went through cross_step\{steps=3\} already: strip it first"):
        CrossStep(2)(item)


def refused(*nodes: tuple[str, str, Sequence[str], dict[str, AttrValue]], fetch: str = "bad") -> GraphItem:
    build = layers()
    for name, op, taken, attrs in nodes:
        build.node(name, op, *taken, **attrs)
    return build.item(fetch, "train")


SEEDS = {"T": AttrValue(type=DT_INT32), "dtype": FLOAT, "seed": AttrValue(i=0), "seed2": AttrValue(i=3)}
SHAPED = {"dtype": FLOAT, "shape": AttrValue()}
QUEUE = {"component_types": AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT]))}
KEYED = {
    "T": FLOAT,
    "merge_op": AttrValue(s=b"Add"),
    "final_op": AttrValue(s=b"Id"),
    "Nordering_token": AttrValue(),
}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (layers().item(), "cross_step must know what a step runs"),
        (refused(("bad", "VariableV2", [], SHAPED)), r"'bad' \(VariableV2\) works on a reference.*enable_resource"),
        (refused(("bad", "RandomUniform", ["x"], SEEDS)), r"'bad' \(RandomUniform\) keeps its random state"),
        (refused(("bad", "FIFOQueueV2", ["^x"], QUEUE)), "'bad'.*makes a handle after other nodes"),
        (refused(("bad", "CollectiveReduceV2", ["x"] * 4, KEYED)), "'bad'.*meets its peers by a key"),
        (refused(("bad", "_Recv", [], {}), ("n", "NoOp", [], {})), "'bad': the graph is cut already"),
        (
            refused(("pack", "Pack", ["w0", "w1"], {"T": AttrValue(type=DT_RESOURCE), "N": AttrValue(i=2)}),
                    ("bad", "ReadVariableOp", ["pack"], {"dtype": FLOAT})),
            r"'bad' takes a handle from 'pack' \(Pack\), which does not say whose it is",
        ),
        (
            refused(("p", "Placeholder", [], {"dtype": AttrValue(type=DT_BOOL)}),
                    ("if", "Switch", ["read0", "p"], {"T": FLOAT}),
                    ("in", "AssignAddVariableOp", ["w0", "if"], {"dtype": FLOAT}),
                    ("bad", "Identity", ["if", "^in"], {"T": FLOAT})),
            "'in' touches what a step changes, within a branch or a loop of TensorFlow 1.*enable_control_flow_v2",
        ),
    ],
)  # fmt: skip
def test_what_cannot_overlap_is_refused(item: GraphItem, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        CrossStep(2)(item)


def test_what_cannot_overlap_is_found_in_functions() -> None:
    build = layers(1)
    call_of(
        build, with_function("f", NodeDef(name="inner", op="RandomUniform", input=["handle"], attr=SEEDS))
    )
    with pytest.raises(GraphError, match=r"node 'call' calls 'inner' \(RandomUniform\) keeps"):
        CrossStep(2)(build.item("end"))


def test_a_random_op_draws_for_all_steps_in_a_loop() -> None:
    build = layers()
    build.node("shape", "Const", dtype=AttrValue(type=DT_INT32), value=AttrValue())
    build.node("drawn", "RandomUniform", "shape", "^train", device=WORKER, **SEEDS)
    result = check_rewrite(CrossStep(3), build.item("drawn:0"))
    nodes = {node.name: node for node in result.item.graph.node}
    assert [n.name for n in nodes.values() if n.op == "RandomUniform"] == ["cross_step/draws/drawn/draw"]
    assert nodes["cross_step/draws/drawn/draw"].attr["seed2"].i == 3
    assert nodes["cross_step/draws/drawn/count"].attr["value"].tensor.int_val[0] == 3
    for k in range(3):
        place = f"cross_step/draws/drawn/place{k}"
        assert nodes[place].attr["value"].tensor.int_val[0] == k
        taken = inputs(result, step_name("drawn", k))
        assert taken == ["cross_step/draws/drawn/all", place, "shape", f"^{step_name('train', k)}"]


def test_a_random_op_without_seeds_is_copied() -> None:
    free = SEEDS | {"seed2": AttrValue(i=0)}
    result = check_rewrite(CrossStep(2), refused(("bad", "RandomUniform", ["x"], free)))
    assert inputs(result, "cross_step/1/bad") == ["cross_step/1/x"]
