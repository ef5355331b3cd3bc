"""The pass tick_tock: what each wave has for itself, what waits for what, what is averaged, and what is refused."""

import random
from collections.abc import Sequence
from typing import Any

import networkx as nx
import pytest

from grappler_passes.cross_step import CrossStep
from grappler_passes.tick_tock import TickTock, wave_name
from tests.rewrites import check_rewrite, edges
from tests.steps import FLOAT, SERVER, Builder, layers
from tests.unit.graph.test_functions import func
from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.passes.base import PassResult
from tfwave.passes.text import parse_pipeline
from tfwave.proto.tensorflow_pb2 import (
    DT_BOOL,
    DT_FLOAT,
    DT_INT32,
    DT_RESOURCE,
    AttrValue,
    FunctionDef,
    GraphDef,
    NodeDef,
)

INT = AttrValue(type=DT_INT32)
KINDS = AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT]))


def initialised(build: Builder) -> Builder:
    """With what gives each variable its first value."""
    for node in list(build.graph.node):
        if node.op == "VarHandleOp":
            value = build.const(f"{node.name}/value")
            build.node(f"{node.name}/Assign", "AssignVariableOp", node.name, value, dtype=FLOAT)
    return build


def trained(count: int = 2) -> Builder:
    return initialised(layers(count))


def applied(count: int = 2) -> Builder:
    """The same with optimizer ops for updates."""
    build = layers(count)
    build.const("rate")
    for node in build.graph.node:
        if node.op == "AssignSubVariableOp":
            node.op = "ResourceApplyGradientDescent"
            node.input.insert(1, "rate")
            node.attr["T"].CopyFrom(FLOAT)
            del node.attr["dtype"]
    return initialised(build)


def nodes(result: PassResult) -> dict[str, NodeDef]:
    return {node.name: node for node in result.item.graph.node}


def inputs(result: PassResult, name: str) -> list[str]:
    return list(nodes(result)[name].input)


def averaged(result: PassResult) -> set[str]:
    """The gradients that are averaged."""
    prefix = "tick_tock/average/"
    return {n.removeprefix(prefix).split("/")[0] for n in nodes(result) if n.startswith(prefix)}


def test_each_wave_has_its_own_feeds_and_fetches() -> None:
    result = check_rewrite(TickTock(3), trained().item("loss:0", "train", feeds=["x:0"]))
    assert result.item.feeds == ("x:0", "tick_tock/1/x:0", "tick_tock/2/x:0")
    assert result.item.fetches == tuple(wave_name(n, k) for n in ("loss:0", "train") for k in range(3))
    assert result.remarks == (
        "3 waves a call: feed and fetch those of wave w under its names, such as 'tick_tock/1/loss:0' for wave 1",
        "the forward pass ends at 'loss'; averaged are 2 gradients: 'gradient0', 'gradient1'",
    )


def test_undone_feeds_and_fetches_are_those_of_one_step() -> None:
    item = trained().item("loss:0", "train", feeds=["x:0"])
    undone = parse_pipeline("tick_tock{waves=3},strip")(item).item
    assert (undone.feeds, undone.fetches) == (item.feeds, item.fetches)


@pytest.mark.parametrize("average", ["wave", "batch"])
def test_each_wave_has_its_own_variables(average: str) -> None:
    build = trained()
    build.handle("fixed")
    build.read("read_fixed", "fixed")
    build.add("sum", "loss", "read_fixed", build.const("c"))
    build.add("other", "loss")
    result = check_rewrite(TickTock(2, average), build.item("sum:0", "train"))
    made = nodes(result)
    assert made["tick_tock/1/w0"].attr["shared_name"].s == b"tick_tock/1/w0"
    assert made["tick_tock/1/w0"].device == SERVER
    assert inputs(result, "tick_tock/1/read0") == ["tick_tock/1/w0", "^tick_tock/gates/1"]
    assert inputs(result, "tick_tock/1/update0")[0] == "tick_tock/1/w0"
    assert inputs(result, "tick_tock/1/read_fixed") == ["fixed", "^tick_tock/gates/1"]
    assert inputs(result, "tick_tock/1/sum") == ["tick_tock/1/loss", "tick_tock/1/read_fixed", "c"]
    assert not {"tick_tock/1/fixed", "tick_tock/1/c", "tick_tock/1/other"} & made.keys()


@pytest.mark.parametrize("average", ["wave", "batch"])
def test_what_writes_a_variable_outside_of_the_step_writes_those_of_all_waves_first(average: str) -> None:
    build = trained()
    build.node("restore", "AssignVariableOp", "w0", build.const("saved"), "^w1/Assign", dtype=FLOAT)
    result = check_rewrite(TickTock(3, average), build.item("loss:0", "train"))
    begin = ["^tick_tock/begin"] if average == "wave" else []
    for name, value in (("w0/Assign", "w0/value"), ("restore", "saved")):
        others = [f"^{wave_name(name, wave)}" for wave in (1, 2)]
        assert [t for t in inputs(result, name) if t != "^w1/Assign"] == ["w0", value, *others, *begin]
        for wave in (1, 2):
            assert inputs(result, wave_name(name, wave))[:2] == [wave_name("w0", wave), value]
    assert inputs(result, "tick_tock/1/restore")[2:] == ["^w1/Assign"]


def test_a_sequence_begins_with_no_wave_before() -> None:
    result = check_rewrite(TickTock(), trained(1).item("loss:0", "train"))
    kept = "tick_tock/average/gradient0_0/kept"
    assert inputs(result, "tick_tock/begin") == ["^tick_tock/going_on/begin", f"^{kept}/begin"]
    made = nodes(result)
    assert list(made["tick_tock/going_on/begin/nothing"].attr["value"].tensor.bool_val) == [False]
    assert list(made["tick_tock/going_on/keep/yes"].attr["value"].tensor.bool_val) == [True]
    assert list(made[f"{kept}/begin/nothing"].attr["value"].tensor.float_val) == [0.0]


def test_a_wave_takes_its_own_gradient_and_that_of_the_wave_before() -> None:
    result = check_rewrite(TickTock(3), trained(1).item("loss:0", "train"))
    scope = "tick_tock/average/gradient0_0"
    ends = [f"^{scope}/kept/keep", "^tick_tock/going_on/keep"]
    assert inputs(result, f"{scope}/before") == ["tick_tock/going_on/read", f"{scope}/kept/read", "gradient0"]
    assert inputs(result, f"{scope}/0/sum") == ["gradient0", f"{scope}/before"]
    assert inputs(result, f"{scope}/1/sum") == ["tick_tock/1/gradient0", "gradient0"]
    assert inputs(result, f"{scope}/2/sum") == ["tick_tock/2/gradient0", "tick_tock/1/gradient0", *ends]
    assert inputs(result, f"{scope}/kept/keep") == [
        f"{scope}/kept",
        "tick_tock/2/gradient0",
        f"^{scope}/kept/read",
    ]
    for wave in range(3):
        assert inputs(result, wave_name("update0", wave)) == [wave_name("w0", wave), f"{scope}/{wave}/mean"]
        assert list(nodes(result)[f"{scope}/{wave}/mean/count"].attr["value"].tensor.float_val) == [2.0]


def test_all_waves_take_one_average_over_the_batch() -> None:
    result = check_rewrite(TickTock(3, "batch"), trained(1).item("loss:0", "train"))
    scope = "tick_tock/average/gradient0_0"
    assert inputs(result, f"{scope}/sum") == [wave_name("gradient0", wave) for wave in range(3)]
    assert list(nodes(result)[f"{scope}/mean/count"].attr["value"].tensor.float_val) == [3.0]
    assert inputs(result, f"{scope}/mean") == [f"{scope}/sum", f"{scope}/mean/count"]
    for wave in range(3):
        assert inputs(result, wave_name("update0", wave)) == [wave_name("w0", wave), f"{scope}/mean"]
    assert "tick_tock/begin" not in nodes(result)


@pytest.mark.parametrize("average", ["wave", "batch"])
@pytest.mark.parametrize("offset", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("build", [trained(4), applied(4)])
def test_nothing_of_a_wave_begins_before_its_gate(build: Builder, offset: float, average: str) -> None:
    item = build.item("loss:0", "train", feeds=["x:0"])
    found = edges(check_rewrite(TickTock(3, average, offset), item).item.graph)
    ops = {node.name: node.op for node in build.graph.node}
    for wave in (1, 2):
        prefix = f"tick_tock/{wave}/"
        copies = {n for n in found if n.startswith(prefix) and not n.endswith("/Assign")}
        idle = {n for n in copies if ops[n.removeprefix(prefix)] in ("VarHandleOp", "Placeholder")}
        assert copies - idle <= nx.descendants(found, f"tick_tock/gates/{wave}")
        assert wave_name("layer3", wave - 1) in nx.ancestors(found, f"tick_tock/gates/{wave}")


@pytest.mark.parametrize("seed", range(40))
def test_the_offset_is_a_share_of_the_backward_pass_by_level_and_name(seed: int) -> None:
    rng = random.Random(seed)
    build, backward = with_backward(rng)
    item = build.item("loss:0", "train")
    offset = rng.choice((0.0, 1.0, rng.random()))
    found = edges(check_rewrite(TickTock(2, offset=offset), item).item.graph)
    plain = edges(build.graph)
    levels: dict[str, int] = {}
    for name in nx.topological_sort(plain):
        levels[name] = max((levels[f] + 1 for f in plain.predecessors(name)), default=0)
    ranked = sorted(backward, key=lambda name: (levels[name], int(name[4:]) if name[4:].isdigit() else -1))
    wanted = set(ranked[: round(offset * len(ranked))])
    assert nx.ancestors(found, "tick_tock/gates/1") & backward == wanted
    for text in (t for n in item.graph.node for t in n.input):
        assert not text.startswith("tick_tock")
    reduced = set(found.predecessors("tick_tock/gates/1"))
    assert not any(reduced & nx.ancestors(found, name) for name in reduced)


def with_backward(rng: random.Random) -> tuple[Builder, set[str]]:
    """A loss of some weights, and ``back`` ops at random between it and their updates."""
    build = Builder()
    count = rng.randint(1, 4)
    for i in range(count):
        build.handle(f"w{i}")
        build.read(f"read{i}", f"w{i}")
    build.add("loss", *(f"read{i}" for i in range(count)))
    made = ["loss"]
    for i in range(rng.randint(count, 12)):
        made.append(build.add(f"back{i}", *rng.sample(made, rng.randint(1, min(3, len(made))))))
    ends = [name for name in made[1:] if not any(name in node.input for node in build.graph.node)]
    for i in range(count):
        build.update(f"update{i}", f"w{i}", build.add(f"back{100 + i}", *(ends or ["loss"])))
    build.node("train", "NoOp", *(f"^update{i}" for i in range(count)))
    initialised(build)
    backward = {node.name for node in build.graph.node if node.name.startswith("back")}
    shuffled = rng.sample(list(build.graph.node), len(build.graph.node))
    del build.graph.node[:]
    build.graph.node.extend(shuffled)
    return build, backward


def test_the_order_of_nodes_does_not_matter() -> None:
    item = applied(4).item("loss:0", "train")
    reverse = GraphItem(GraphDef(node=list(item.graph.node)[::-1]), fetches=item.fetches)
    for average in ("wave", "batch"):
        first, second = (TickTock(3, average, 0.5)(one).item.graph.node for one in (item, reverse))
        assert {n.name: n for n in first} == {n.name: n for n in second}


@pytest.mark.parametrize(
    ("fetches", "boundary", "end"),
    [
        (["loss:0", "train"], [], "loss"),
        (["rate:0", "layer0:0", "loss:0", "train"], [], "loss"),
        (["norm:0", "loss:0", "train"], [], "loss"),
        (["after:0", "loss:0", "train"], [], "loss"),
        (["after:0", "train"], [], "loss"),
        (["read0", "after:0", "train"], [], "loss"),
        (["train"], [], "layer1"),
        (["norm:0", "train"], [], "layer1"),
        (["loss:0", "train"], ["layer0"], "layer0"),
    ],
)
def test_where_the_forward_pass_ends(fetches: list[str], boundary: list[str], end: str) -> None:
    """Not at a fetched norm of gradients, nor at what comes after an update."""
    build = layers()
    for node in build.graph.node:
        if node.name.startswith("gradient"):
            node.input[0] = "layer1"
    build.const("rate")
    for i in range(2):
        update = next(node for node in build.graph.node if node.name == f"update{i}")
        update.op = "ResourceApplyGradientDescent"
        update.input[:] = [f"w{i}", "rate", f"gradient{i}"]
        update.attr["T"].CopyFrom(FLOAT)
        del update.attr["dtype"]
    build.add("norm", "gradient0", "gradient1")
    build.add("after", "loss", "^update0")
    result = check_rewrite(TickTock(2, "batch", boundary=tuple(boundary)), initialised(build).item(*fetches))
    assert result.remarks[1].startswith(f"the forward pass ends at '{end}'; averaged are 2 gradients")
    assert inputs(result, "tick_tock/gates/1") == [f"^{end}"]


def replicas() -> Builder:
    """Two sets of weights with a loss each."""
    build = Builder()
    build.const("rate")
    for i in range(2):
        build.handle(f"w{i}")
        build.read(f"read{i}", f"w{i}")
        build.add(f"loss{i}", f"read{i}")
        build.add(f"gradient{i}", f"loss{i}", f"read{i}")
        build.node(f"update{i}", "ResourceApplyGradientDescent", f"w{i}", "rate", f"gradient{i}", T=FLOAT)
    build.node("train", "NoOp", "^update0", "^update1")
    return initialised(build)


@pytest.mark.parametrize("fetches", [["loss0", "loss1", "train"], ["loss0", "train"], ["train"]])
def test_replicas_with_weights_of_their_own_end_each_for_itself(fetches: list[str]) -> None:
    result = check_rewrite(TickTock(2, "batch"), replicas().item(*fetches))
    assert averaged(result) == {"gradient0_0", "gradient1_0"}
    before = inputs(result, "tick_tock/gates/1")
    assert [text.removeprefix("^read").removeprefix("^loss") for text in before] == ["0", "1"]


def assigning() -> Builder:
    """A step whose optimizer assigns: a mean of gradients, and one of squares, as Adam keeps them."""
    build = layers(1)
    del build.graph.node[-2:]
    build.const("rate")
    build.node("square", "Square", "gradient0", T=FLOAT)
    build.node("scaled", "Mul", "square", "rate", T=FLOAT)
    for name, value in (("first", "gradient0"), ("second", "scaled")):
        build.handle(name)
        build.read(f"{name}/before", name)
        build.node(f"{name}/more", "Sub", value, f"{name}/before", T=FLOAT)
        build.update(f"{name}/update", name, f"{name}/more")
        build.read(f"{name}/after", name, f"^{name}/update")
    build.node("step", "Mul", "first/after", "second/after", T=FLOAT)
    build.update("update0", "w0", "step")
    build.node("train", "NoOp", "^update0")
    return initialised(build)


def test_what_an_optimizer_computes_is_computed_of_the_average() -> None:
    result = check_rewrite(TickTock(), assigning().item("loss:0", "train"))
    assert averaged(result) == {"gradient0_0"}
    mean = "tick_tock/average/gradient0_0/1/mean"
    assert inputs(result, "tick_tock/1/square") == [mean]
    assert inputs(result, "tick_tock/1/first/more") == [mean, "tick_tock/1/first/before"]
    assert inputs(result, "tick_tock/1/second/more") == ["tick_tock/1/scaled", "tick_tock/1/second/before"]


def test_what_takes_a_gradient_and_what_is_fed_is_a_gradient() -> None:
    """The gradient of a bias, times what the wave was fed, is that of its own weight."""
    build = Builder()
    build.node("x", "Placeholder", dtype=FLOAT)
    for name in ("w", "b"):
        build.handle(name)
        build.read(f"read_{name}", name)
    build.node("scaled", "Mul", "x", "read_w", T=FLOAT)
    build.add("loss", "scaled", "read_b")
    build.add("of_b", "loss")
    build.node("of_w", "Mul", "of_b", "x", T=FLOAT)
    for name in ("w", "b"):
        build.update(f"update_{name}", name, f"of_{name}")
    build.node("train", "NoOp", "^update_w", "^update_b")
    item = initialised(build).item("loss:0", "train", feeds=["x:0"])
    assert averaged(check_rewrite(TickTock(), item)) == {"of_b_0", "of_w_0"}


@pytest.mark.parametrize("build", [trained(), applied()])
def test_statistics_and_counts_are_no_gradients(build: Builder) -> None:
    for name, value in (("moving", "layer0"), ("total", "loss")):
        build.handle(name)
        build.read(f"{name}/read", name)
        build.node(f"{name}/more", "Sub", value, f"{name}/read", T=FLOAT)
        build.update(f"{name}/update", name, f"{name}/more")
        build.node(f"{name}/Assign", "AssignVariableOp", name, build.const(f"{name}/v"), dtype=FLOAT)
    item = build.item("loss:0", "train", "moving/update", "total/update")
    assert averaged(check_rewrite(TickTock(boundary=("loss",)), item)) == {"gradient0_0", "gradient1_0"}


def test_a_statistic_that_the_loss_reads_is_averaged_as_a_gradient_is() -> None:
    """Beside an optimizer, too: nobody can tell one from the other."""
    build = applied()
    build.handle("moving")
    build.read("moving/read", "moving")
    next(n for n in build.graph.node if n.name == "layer1").input.append("moving/read")
    next(n for n in build.graph.node if n.name == "layer1").attr["N"].i += 1
    build.node("moving/more", "Sub", "layer0", "moving/read", T=FLOAT)
    build.update("moving/update", "moving", "moving/more")
    build.node("moving/Assign", "AssignVariableOp", "moving", build.const("v"), dtype=FLOAT)
    result = check_rewrite(TickTock(), build.item("loss:0", "train", "moving/update"))
    assert averaged(result) == {"gradient0_0", "gradient1_0", "moving"}
    assert inputs(result, "moving/update")[1] == "tick_tock/average/moving/more_0/0/mean"


def test_each_wave_meets_its_peers_by_keys_of_its_own() -> None:
    build = trained(1)
    for name in ("size", "group", "instance"):
        value = AttrValue()
        value.tensor.dtype = DT_INT32
        value.tensor.int_val.append(5)
        build.node(name, "Const", dtype=INT, value=value)
    attrs = {"T": FLOAT, "merge_op": AttrValue(s=b"Add"), "final_op": AttrValue(s=b"Id")}
    none = {"Nordering_token": AttrValue(i=0)}
    build.node("new", "CollectiveReduceV2", "loss", "size", "group", "instance", **attrs, **none)
    offsets = AttrValue(list=AttrValue.ListValue(i=[0]))
    numbers = {"group_size": AttrValue(i=2), "group_key": AttrValue(i=3), "instance_key": AttrValue(i=4)}
    build.node("old", "CollectiveReduce", "loss", subdiv_offsets=offsets, **attrs, **numbers)
    result = check_rewrite(TickTock(3), build.item("loss", "train", "new", "old"))
    for wave in (1, 2):
        made = nodes(result)
        assert inputs(result, wave_name("new", wave))[3] == f"tick_tock/keys/{wave}/new"
        assert inputs(result, f"tick_tock/keys/{wave}/new") == ["instance", f"tick_tock/keys/{wave}/new/more"]
        more = made[f"tick_tock/keys/{wave}/new/more"].attr["value"].tensor
        assert list(more.int_val) == [wave * 2**24]
        assert made[wave_name("old", wave)].attr["instance_key"].i == 4 + wave * 2**24


def test_each_wave_draws_from_a_seed_of_its_own() -> None:
    build = trained(1)
    for name, seed in (("fixed", 3), ("last", 2**63 - 1), ("free", 0)):
        seeds = {"seed": AttrValue(i=0), "seed2": AttrValue(i=seed)}
        build.node(name, "RandomUniform", "loss", T=INT, dtype=FLOAT, **seeds)
    build.node("only", "RandomUniform", "loss", T=INT, dtype=FLOAT, seed=AttrValue(i=7))
    made = nodes(TickTock(3)(build.item("loss", "train", "fixed", "last", "free", "only")))
    found = [made[wave_name("fixed", wave)].attr["seed2"].i for wave in range(3)]
    assert found == [3, 3 + 2**32, 3 + 2**33]
    assert made["tick_tock/1/last"].attr["seed2"].i == 2**32 - 1 - 2**63
    assert made["tick_tock/2/free"].attr["seed2"].i == 0
    assert made["tick_tock/2/only"].attr["seed2"].i == 2**33
    assert "seed2" not in made["only"].attr


def test_what_waves_share_is_changed_wave_by_wave() -> None:
    build = trained(1)
    shapes = AttrValue(list=AttrValue.ListValue(shape=[AttrValue().shape]))
    kinds = {"output_types": KINDS, "output_shapes": shapes}
    build.node("iterator", "IteratorV2", shared_name=AttrValue(), container=AttrValue(), **kinds)
    build.node("next", "IteratorGetNext", "iterator", **kinds)
    build.node("print", "Print", "loss", "^train", T=FLOAT, U=AttrValue(list=AttrValue.ListValue()))
    build.node("stage", "Stage", "next", dtypes=KINDS, shared_name=AttrValue(s=b""))
    result = check_rewrite(TickTock(3), build.item("loss", "print", "stage"))
    for name in ("next", "print", "stage"):
        for wave in (1, 2):
            assert f"^{wave_name(name, wave - 1)}" in inputs(result, wave_name(name, wave))
    assert inputs(result, "tick_tock/2/next")[0] == "iterator"
    assert nodes(result)["tick_tock/1/stage"].attr["shared_name"].s == b"stage"


def test_a_copy_is_colocated_in_its_own_wave_and_loops_in_its_own_frame() -> None:
    build = trained()
    groups = AttrValue(list=AttrValue.ListValue(s=[b"loc:@loss", b"loc:@w0", b"loc:@elsewhere"]))
    build.node("beside", "Identity", "loss", T=FLOAT, _class=groups)
    build.node("enter", "Enter", "beside", T=FLOAT, frame_name=AttrValue(s=b"loop"))
    build.node("exit", "Exit", "enter", T=FLOAT)
    made = nodes(check_rewrite(TickTock(), build.item("exit:0", "loss", "train")))
    wanted = [b"loc:@tick_tock/1/loss", b"loc:@tick_tock/1/w0", b"loc:@elsewhere"]
    assert list(made["tick_tock/1/beside"].attr["_class"].list.s) == wanted
    assert made["tick_tock/1/enter"].attr["frame_name"].s == b"tick_tock/1/loop"


def test_handles_that_are_fed_are_fed_for_each_wave() -> None:
    build = layers(1)
    handle = next(node for node in build.graph.node if node.name == "w0")
    handle.op = "Placeholder"
    for attr in ("shape", "shared_name"):
        del handle.attr[attr]
    handle.attr["dtype"].type = DT_RESOURCE
    item = build.item("loss:0", "train", feeds=["x:0", "w0:0"])
    batch = check_rewrite(TickTock(2, "batch"), item)
    assert batch.item.feeds == ("x:0", "tick_tock/1/x:0", "w0:0", "tick_tock/1/w0:0")
    wave = check_rewrite(TickTock(), item)
    kept = ("tick_tock/going_on", "tick_tock/average/gradient0_0/kept")
    assert wave.item.feeds == (*batch.item.feeds, *kept)
    assert all(nodes(wave)[name].op == "Placeholder" for name in kept)
    assert "tick_tock/begin" not in nodes(wave)


def test_waves_are_cut_and_repeated_after_they_are_written() -> None:
    item = applied().item("loss:0", "train", feeds=["x:0"])
    check_rewrite(parse_pipeline("tick_tock,cut"), item)
    check_rewrite(parse_pipeline("tick_tock,cross_step{steps=2}"), item)
    with pytest.raises(PassError, match="the graph is cut already; run tick_tock before 'cut'"):
        parse_pipeline("cut,tick_tock")(item)
    with pytest.raises(PassError, match="is of a further step; run tick_tock before 'cross_step'"):
        TickTock()(CrossStep(2)(item).item)


def test_other_waves_need_a_strip_first() -> None:
    item = TickTock(3)(trained().item("loss:0", "train")).item
    with pytest.raises(PassError, match=r"went through tick_tock\{waves=3\} already: strip it first"):
        TickTock(2)(item)


def test_one_wave_is_the_step_itself() -> None:
    item = trained().item("loss:0", "train")
    assert TickTock(1)(item).item is item


def test_the_text_form() -> None:
    text = 'tick_tock{waves=3,average="batch",offset=0.5,boundary=["loss"]}'
    assert parse_pipeline(text).passes == (TickTock(3, "batch", 0.5, ("loss",)),)
    assert str(parse_pipeline(text)) == text
    assert parse_pipeline("tick_tock{average=batch,offset=1}").passes == (TickTock(2, "batch", 1.0),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("waves=0", "waves is 0, it must be 1 to 64"),
        ("waves=65", "waves is 65, it must be 1 to 64"),
        ("offset=1.5", "offset is 1.5, it must be from 0 to 1"),
        ("offset=-0.1", "offset is -0.1, it must be from 0 to 1"),
        ("offset=NaN", "offset is nan, it must be from 0 to 1"),
        ("average=none", "average"),
    ],
)
def test_options_out_of_range_are_refused(options: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        parse_pipeline(f"tick_tock{{{options}}}")


def test_another_average_is_refused_where_a_program_makes_the_pass() -> None:
    other: Any = "mean"
    with pytest.raises(PassError, match="average is 'mean', it must be 'wave' or 'batch'"):
        TickTock(average=other)


def holding(*body: NodeDef) -> Builder:
    """A step that calls a function on its loss."""
    function = FunctionDef(node_def=body)
    function.signature.name = "f"
    function.signature.is_stateful = True
    function.signature.input_arg.add(name="x", type=DT_FLOAT)
    build = trained(1)
    build.graph.library.function.append(function)
    none = AttrValue(list=AttrValue.ListValue())
    build.node("bad", "StatefulPartitionedCall", "loss", f=func("f"), Tin=KINDS, Tout=none)
    return build


def adding(name: str, op: str, taken: Sequence[str], **attrs: AttrValue) -> Builder:
    build = trained(1)
    build.node(name, op, *taken, **attrs)
    return build


def with_a_slice() -> Builder:
    build = applied(1)
    value = AttrValue()
    value.tensor.dtype = DT_INT32
    value.tensor.int_val.append(0)
    build.node("place", "Const", dtype=INT, value=value)
    kinds = {"T": FLOAT, "Index": INT}
    build.node("bad", "ResourceStridedSliceAssign", "w0", *["place"] * 3, "gradient0", **kinds)
    return build


def switched() -> Builder:
    """A gradient that only one branch gives."""
    build = trained(1)
    build.node("p", "Placeholder", dtype=AttrValue(type=DT_BOOL))
    build.node("bad", "Switch", "gradient0", "p", T=FLOAT)
    next(node for node in build.graph.node if node.name == "update0").input[1] = "bad:1"
    return build


def uninitialised() -> Builder:
    build = trained(1)
    del build.graph.node[-1]
    return build


def counting() -> Builder:
    """A step that changes something else than weights."""
    build = trained(1)
    build.update("count", "w0", build.const("one"))
    return build


def by_reference() -> Builder:
    """A step of TensorFlow 1 as it builds variables by default."""
    build = Builder()
    build.node("w", "VariableV2", dtype=FLOAT, shape=AttrValue())
    build.node("w/read", "Identity", "w", T=FLOAT)
    build.add("loss", "w/read", build.node("x", "Placeholder", dtype=FLOAT))
    build.node("train", "ApplyGradientDescent", "w", build.const("rate"), "loss", T=FLOAT)
    return build


SEEDED = {"T": INT, "dtype": FLOAT, "seed": AttrValue(i=1)}
SHAPED = {"dtype": FLOAT, "shape": AttrValue()}
KEYED = {
    "T": FLOAT,
    "reduction": AttrValue(s=b"sum"),
    "num_devices": AttrValue(i=2),
    "shared_name": AttrValue(s=b"n"),
}


@pytest.mark.parametrize(
    ("build", "fetches", "message"),
    [
        (trained(1), [], "tick_tock must know what a step runs"),
        (trained(1), ["train"], r"no end of the forward pass is found.*boundary=\[\"train\"\]"),
        (trained(1), ["loss"], "what 'loss' and the other fetches need changes no variable: fetch the train op"),
        (counting(), ["loss", "count"], "no gradient goes from what follows 'loss', where the forward pass ends"),
        (adding("bad", "VariableV2", [], **SHAPED), ["loss", "train", "bad"], r"'bad' \(VariableV2\) works"),
        (by_reference(), ["loss:0", "train"], r"'train' \(ApplyGradientDescent\) works on a reference"),
        (adding("bad", "NcclAllReduce", ["loss"], **KEYED), ["loss", "train", "bad"], "'bad'.*not an instance key"),
        (holding(NodeDef(name="r", op="RandomUniform", input=["x"], attr=SEEDED)), ["loss", "train", "bad"],
         r"'bad' calls 'r' \(RandomUniform\), which keeps its random state"),
        (holding(NodeDef(name="w", op="VarHandleOp", attr={**SHAPED, "shared_name": AttrValue(s=b"w0")})),
         ["loss", "train", "bad"], "'bad' calls 'w'.*a variable that each wave has for itself"),
        (with_a_slice(), ["loss", "train", "bad"], "'bad'.*updates a slice of a variable"),
        (switched(), ["loss", "train"], "'bad' gives a gradient within a branch or a loop"),
        (uninitialised(), ["loss", "train"], "nothing in the graph initialises the variable 'w0'"),
    ],
)  # fmt: skip
def test_what_is_refused(build: Builder, fetches: list[str], message: str) -> None:
    with pytest.raises(PassError, match=message):
        TickTock(average="batch")(build.item(*fetches))


def test_updates_that_the_next_wave_waits_for_cannot_wait_for_it() -> None:
    build = trained(1)
    build.add("again", "loss", "^update0")
    item = build.item("loss", "again", "train")
    check_rewrite(TickTock(boundary=("again",)), item)
    message = (
        "begin after 'update0', which takes a gradient and waits for that of the next wave: take average"
    )
    with pytest.raises(PassError, match=message):
        TickTock(average="batch", boundary=("again",))(item)


def test_an_unknown_boundary_is_named() -> None:
    with pytest.raises(PassError, match="the step has no node 'nowhere', which the option boundary names"):
        TickTock(boundary=("nowhere",))(trained().item("loss:0", "train"))
