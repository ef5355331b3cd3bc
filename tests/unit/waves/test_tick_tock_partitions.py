"""The pass tick_tock_partitions: where waves run, in which order, what is averaged when, and what is refused."""

from collections.abc import Callable
from itertools import pairwise

import networkx as nx
import pytest

from grappler_passes.tick_tock import TickTock
from grappler_passes.tick_tock_partitions import TickTockPartitions, wave_name
from tests.parted import by_device, cells_of, device, parted
from tests.rewrites import check_rewrite, edges
from tests.steps import FLOAT, Builder
from tests.unit.graph.test_functions import func
from tfwave.errors import GraphError, PassError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.passes.base import PassResult
from tfwave.passes.text import parse_pipeline
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves
from tfwave.proto.tensorflow_pb2 import (
    DT_BOOL,
    DT_FLOAT,
    DT_RESOURCE,
    AttrValue,
    FunctionDef,
    GraphDef,
    NodeDef,
)

KINDS = AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT]))


def item_of(build: Builder) -> GraphItem:
    return build.item("loss:0", "train", feeds=["x:0"])


def nodes(result: PassResult) -> dict[str, NodeDef]:
    return {node.name: node for node in result.item.graph.node}


def named(build: Builder, name: str) -> NodeDef:
    return next(node for node in build.graph.node if node.name == name)


@pytest.mark.parametrize(("count", "waves"), [(2, 2), (3, 3), (3, 2), (4, 4), (4, 2)])
def test_each_device_keeps_to_the_table(count: int, waves: int) -> None:
    found = edges(check_rewrite(TickTockPartitions(waves), item_of(parted(count))).item.graph)
    cells = cells_of(count)
    for works in by_device(count, waves):
        for before, after in pairwise(works):
            earlier = {wave_name(name, before[2]) for name in cells[before[:2]]}
            for name in cells[after[:2]]:
                assert earlier <= nx.ancestors(found, wave_name(name, after[2]))


def test_no_device_waits_for_a_cycle_to_end_elsewhere() -> None:
    found = edges(check_rewrite(TickTockPartitions(), item_of(parted(3))).item.graph)
    assert "tick_tock/2/layer0" not in nx.ancestors(found, "layer1")
    assert "layer0" not in nx.ancestors(found, "tick_tock/1/layer1")


def test_each_wave_passes_a_partition_on_another_device() -> None:
    result = check_rewrite(TickTockPartitions(), item_of(parted(3)))
    made = nodes(result)
    for wave in range(3):
        for p in range(3):
            for name in (f"w{p}", f"read{p}", f"layer{p}", f"back{p}", f"update{p}", f"w{p}/Assign"):
                assert made[wave_name(name, wave)].device == device((p + wave) % 3)
    assert made["tick_tock/cells/2/1"].device == device(1)
    assert list(made["tick_tock/cells/2/1"].input) == ["^layer1"]
    assert made["tick_tock/1/w2"].attr["shared_name"].s == b"tick_tock/1/w2"
    assert list(made["w2/Assign"].input[2:]) == ["^tick_tock/1/w2/Assign", "^tick_tock/2/w2/Assign"]


def test_all_waves_take_one_average_as_soon_as_it_is_there() -> None:
    result = check_rewrite(TickTockPartitions(), item_of(parted(3)))
    made, found = nodes(result), edges(result.item.graph)
    scope = "tick_tock/average/back1_0"
    assert list(made[f"{scope}/sum"].input) == [wave_name("back1", wave) for wave in range(3)]
    assert list(made[f"{scope}/mean/count"].attr["value"].tensor.float_val) == [3.0]
    assert made[f"{scope}/sum"].device == device(1)
    for wave in range(3):
        name = wave_name("update1", wave)
        assert list(made[name].input) == [wave_name("w1", wave), f"{scope}/mean"]
        assert not nx.ancestors(found, name) & {wave_name("back0", other) for other in range(3)}


def test_what_is_said() -> None:
    result = check_rewrite(TickTockPartitions(), item_of(parted(3)))
    assert result.item.feeds == ("x:0", "tick_tock/1/x:0", "tick_tock/2/x:0")
    assert result.item.fetches == tuple(wave_name(n, k) for n in ("loss:0", "train") for k in range(3))
    places = ", ".join(f"{number} '{device(number)}'" for number in range(3))
    assert result.remarks == (
        "3 waves a call: feed and fetch those of wave w under its names, such as 'tick_tock/1/loss:0' for wave 1",
        "the forward pass ends at 'loss'; averaged are 3 gradients: 'back0', 'back1', 'back2'",
        f"partitions, and devices, by the order of the forward pass: {places}",
        "F and B of (partition, wave) by cycle:\n"
        "cycle  device 0  device 1  device 2  then all-reduce\n"
        "0      F0,0      F0,1      F0,2\n"
        "1      F1,2      F1,0      F1,1\n"
        "2      F2,1      F2,2      F2,0\n"
        "3      B2,1      B2,2      B2,0      2\n"
        "4      B1,2      B1,0      B1,1      1\n"
        "5      B0,0      B0,1      B0,2      0",
    )


def test_partitions_are_numbered_as_the_forward_pass_visits_them() -> None:
    build = parted(3)
    places = {device(0): device(2), device(1): device(0), device(2): device(1)}
    for node in build.graph.node:
        node.device = places.get(node.device, "")
    made = nodes(check_rewrite(TickTockPartitions(2), item_of(build)))
    assert [made[f"tick_tock/1/layer{p}"].device for p in range(3)] == [device(0), device(1), device(2)]


def test_partitions_beside_each_other_are_numbered_by_name() -> None:
    build = parted(4)
    named(build, "layer2").input[0] = "layer0"
    named(build, "layer3").input.append("layer1")
    named(build, "layer3").attr["N"].i += 1
    result = check_rewrite(TickTockPartitions(), item_of(build))
    places = ", ".join(f"{number} '{device(number)}'" for number in range(4))
    assert result.remarks[2].endswith(places)


def test_a_device_may_have_several_names() -> None:
    build = parted(2)
    for name in ("layer1", "back1"):
        named(build, name).device = "/cpu:1"
    made = nodes(check_rewrite(TickTockPartitions(), item_of(build)))
    assert made["tick_tock/1/layer1"].device == made["tick_tock/1/back1"].device == device(0)
    assert "^layer1" not in made["layer1"].input
    assert "^tick_tock/cells/1/1" in made["read1"].input
    assert set(made["tick_tock/cells/2/1"].input) == {"^loss"}


def test_what_reads_a_variable_is_where_the_variable_is() -> None:
    build = parted(2)
    named(build, "read1").device = device(0)
    made = nodes(check_rewrite(TickTockPartitions(), item_of(build)))
    assert "^tick_tock/cells/1/1" in made["read1"].input
    assert made["tick_tock/1/read1"].device == device(1)


def test_what_clipping_computes_of_all_partitions_runs_when_it_can() -> None:
    build = parted(3)
    build.add("norm", "back0", "back1", "back2", device=device(0))
    for p in range(3):
        build.add(f"scaled{p}", f"back{p}", "norm", device=device(p))
        named(build, f"update{p}").input[1] = f"scaled{p}"
    result = check_rewrite(TickTockPartitions(), item_of(build))
    found = edges(result.item.graph)
    assert "tick_tock/2/back0" in nx.ancestors(found, "update2")
    for gate in (name for name in found if name.startswith("tick_tock/cells")):
        assert not any("scaled" in name for name in nx.ancestors(found, gate))
    assert result.remarks[1].endswith("'scaled0', 'scaled1', 'scaled2'")


def test_what_waves_share_stays_where_it_is() -> None:
    """A variable that the step does not change, what reads it, and what is colocated with it or with a constant."""
    build = parted(2)
    build.handle("fixed", device=device(1))
    build.node("handle", "Identity", "fixed", device=device(1), T=AttrValue(type=DT_RESOURCE))
    build.read("read_fixed", "handle", device=device(1))
    for name, group in (("beside", b"loc:@read_fixed"), ("other", b"loc:@w0/value"), ("own", b"loc:@layer1")):
        groups = AttrValue(list=AttrValue.ListValue(s=[group]))
        build.node(name, "Identity", "layer1", device=device(1), T=FLOAT, _class=groups)
    named(build, "loss").input.extend(["read_fixed", "beside", "other", "own"])
    named(build, "loss").attr["N"].i += 4
    made = nodes(check_rewrite(TickTockPartitions(), item_of(build)))
    for name in ("handle", "read_fixed", "beside", "other"):
        assert made[wave_name(name, 1)].device == device(1)
    assert made["tick_tock/1/own"].device == device(0)
    assert made["tick_tock/1/handle"].input[0] == "fixed"


def test_the_order_of_nodes_does_not_matter() -> None:
    item = item_of(parted(4))
    reverse = GraphItem(GraphDef(node=list(item.graph.node)[::-1]), item.feeds, item.fetches)
    first, second = (TickTockPartitions(3)(one).item.graph.node for one in (item, reverse))
    assert {n.name: n for n in first} == {n.name: n for n in second}


def test_waves_are_cut_after_they_are_written_and_written_once() -> None:
    item = item_of(parted(3))
    check_rewrite(parse_pipeline("tick_tock_partitions,cut"), item)
    with pytest.raises(PassError, match="the graph is cut already; run tick_tock_partitions before 'cut'"):
        parse_pipeline("cut,tick_tock_partitions")(item)
    done = TickTockPartitions(2)(item).item
    with pytest.raises(
        PassError, match=r"went through tick_tock_partitions\{waves=2\} already: strip it first"
    ):
        TickTockPartitions()(done)
    with pytest.raises(
        PassError, match=r"went through tick_tock_partitions\{waves=2\} already: strip it first"
    ):
        TickTock()(done)
    with pytest.raises(PassError, match="went through tick_tock already: strip it first"):
        TickTockPartitions()(TickTock()(item).item)


def test_one_wave_is_the_step_itself() -> None:
    item = item_of(parted(2))
    assert TickTockPartitions(1)(item).item is item


def test_a_plan_says_the_number_for_its_graph() -> None:
    item = item_of(parted())
    plan = Plan(waves=Waves(graph_print(verify(item)), 2, 0.0, 1000, 900))
    assert TickTockPartitions(plan=plan)(item).item.graph == TickTockPartitions(2)(item).item.graph
    with pytest.raises(PassError, match="waves is 3, and the plan says 2: leave it out"):
        TickTockPartitions(3, plan=plan)
    with pytest.raises(PlanError, match="made for another graph"):
        TickTockPartitions(plan=plan)(item_of(parted(4)))


def test_the_text_form() -> None:
    text = 'tick_tock_partitions{waves=3,boundary=["loss"]}'
    assert parse_pipeline(text).passes == (TickTockPartitions(3, ("loss",)),)
    assert str(parse_pipeline(text)) == text


@pytest.mark.parametrize("waves", [-1, 65])
def test_numbers_of_waves_out_of_range_are_refused(waves: int) -> None:
    with pytest.raises(PassError, match=f"waves is {waves}, it must be 0 \\(all\\) to 64"):
        TickTockPartitions(waves)


def test_more_waves_than_partitions_are_refused() -> None:
    with pytest.raises(PassError, match="waves is 4, and 3 partitions take 1 to 3"):
        TickTockPartitions(4)(item_of(parted(3)))


def coming_back() -> Builder:
    """The first device has an op after the layer of the second."""
    build = parted(3)
    build.add("again", "layer1", device=device(0))
    named(build, "layer2").input[0] = "again"
    return build


def crossing() -> Builder:
    """Two ways through two devices, in opposite order."""
    build = parted(2)
    build.add("there", "read1", device=device(1))
    build.add("here", "there", "read0", device=device(0))
    named(build, "loss").input.append("here")
    named(build, "loss").attr["N"].i += 1
    return build


def on_one_device() -> Builder:
    build = parted(2)
    for node in build.graph.node:
        node.device = device(0) if node.device else ""
    return build


def placed(name: str, place: str) -> Builder:
    build = parted(2)
    named(build, name).device = place
    return build


def unplaced_weight() -> Builder:
    build = placed("w1", "")
    named(build, "read1").device = ""
    return build


def of_two_kinds() -> Builder:
    build = parted(2)
    for node in build.graph.node:
        node.device = node.device.replace("CPU:1", "GPU:0")
    return build


def waiting() -> Builder:
    build = parted(3)
    build.add("early", "read0", "^layer1", device=device(0))
    named(build, "layer2").input.append("early")
    named(build, "layer2").attr["N"].i += 1
    return build


def reducing() -> Builder:
    build = parted(2)
    attrs = {"T": FLOAT, "merge_op": AttrValue(s=b"Add"), "final_op": AttrValue(s=b"Id")}
    numbers = {"group_size": AttrValue(i=2), "group_key": AttrValue(i=3), "instance_key": AttrValue(i=4)}
    offsets = AttrValue(list=AttrValue.ListValue(i=[0]))
    build.node(
        "bad", "CollectiveReduce", "back1", device=device(1), subdiv_offsets=offsets, **attrs, **numbers
    )
    named(build, "update1").input[1] = "bad"
    return build


def calling() -> Builder:
    build = parted(2)
    leaf = NodeDef(name="inner", op="Neg", input=["x"], device=device(0), attr={"T": FLOAT})
    function = FunctionDef(node_def=[leaf])
    function.signature.name = "f"
    function.signature.input_arg.add(name="x", type=DT_FLOAT)
    function.signature.output_arg.add(name="y", type=DT_FLOAT)
    function.ret["y"] = "inner:y:0"
    build.graph.library.function.append(function)
    build.node("bad", "PartitionedCall", "layer1", device=device(1), f=func("f"), Tin=KINDS, Tout=KINDS)
    named(build, "loss").input[0] = "bad"
    return build


def branching() -> Builder:
    """A branch of TensorFlow 1 that goes from one device to another."""
    build = parted(2)
    build.node("p", "Placeholder", dtype=AttrValue(type=DT_BOOL))
    build.node("switch", "Switch", "layer0", "p", device=device(0), T=FLOAT)
    build.node("bad", "Identity", "switch:1", device=device(1), T=FLOAT)
    build.node("merge", "Merge", "switch", "bad", device=device(1), T=FLOAT, N=AttrValue(i=2))
    named(build, "layer1").input[0] = "merge"
    return build


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (coming_back, PassError, r"'again' takes what comes from '.*CPU:1' back to '.*CPU:0', which the forward"),
        (crossing, PassError, r"node 'loss' takes what comes from '.*CPU:0' back to '.*CPU:1'"),
        (on_one_device, PassError, r"all weights are on '.*CPU:0': place partitions .* run waves on one with tick"),
        (unplaced_weight, PassError, "the weight that node 'read1' reads has no device"),
        (of_two_kinds, PassError, r"devices of other kinds \(CPU, GPU\)"),
        (waiting, PassError, r"node 'early' of the forward pass is on '.*CPU:0', and waits for a partition"),
        (lambda: placed("back1", ""), PassError, r"no node of the backward pass is on '.*CPU:1'"),
        (lambda: placed("layer1", "/nowhere"), GraphError, "node 'layer1': '/nowhere' is not a device name"),
        (reducing, PassError, r"node 'bad' \(CollectiveReduce\) waits for its peers"),
        (calling, PassError, r"node 'bad' calls 'inner', which is on '.*CPU:0' in all waves"),
        (branching, PassError, "node 'bad' on .* is of a branch or a loop that 'switch' on"),
    ],
)  # fmt: skip
def test_what_is_refused(make: Callable[[], Builder], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TickTockPartitions()(item_of(make()))


def test_a_forward_pass_without_weights_is_refused() -> None:
    build = parted(2)
    build.const("rate")
    build.add("before", "x")
    named(build, "layer0").input[0] = "before"
    for p in range(2):
        one = named(build, f"update{p}")
        one.op = "ResourceApplyGradientDescent"
        one.input.insert(1, "rate")
        one.attr["T"].CopyFrom(FLOAT)
        del one.attr["dtype"]
    check_rewrite(TickTockPartitions(), item_of(build))
    with pytest.raises(PassError, match="no variable is found that the forward pass to 'before' reads"):
        TickTockPartitions(boundary=("before",))(item_of(build))


def test_what_a_step_runs_must_be_known() -> None:
    with pytest.raises(PassError, match="tick_tock_partitions must know what a step runs"):
        TickTockPartitions()(parted(2).item())
