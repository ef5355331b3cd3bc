"""The partitions that the cut makes: what is sent, what is received, and by whom."""

from collections.abc import Iterable

import pytest

from tests.unit.graph.test_place import CPUS, WORKER, Graph
from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.partition.cut import cut
from tfwave.graph.partition.pins import as_function
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef, NodeDef

PS = "/job:ps/replica:0/task:0/device:CPU:0"
OTHER = "/job:worker/replica:0/task:0/device:CPU:1"


def nodes(partitions: Iterable[GraphDef], op: str = "") -> dict[str, NodeDef]:
    """By name, those of one op or all."""
    return {n.name: n for p in partitions for n in p.node if op in ("", n.op)}


def sent(partitions: Iterable[GraphDef]) -> list[tuple[str, str, str]]:
    """(what, from, to) of each transfer, devices by their last digit."""
    sends = nodes(partitions, "_Send").values()
    return sorted(
        (n.input[0], n.attr["send_device"].s.decode()[-1], n.attr["recv_device"].s.decode()[-1])
        for n in sends
    )


def spread() -> Graph:
    """A tensor that two devices read, one of them twice."""
    graph = Graph()
    graph.op("one", "Const", device="/cpu:0")
    graph.op("a", "Tanh", "one", device="/cpu:0")
    graph.op("b", "Tanh", "a", device="/cpu:1")
    graph.op("c", "AddV2", "a", "b", device="/cpu:1")
    graph.op("d", "Tanh", "a", device="/cpu:2")
    return graph


def test_a_tensor_is_sent_once_to_each_device_that_reads_it() -> None:
    partitions = cut(GraphItem(spread().graph), devices=CPUS)
    assert [p.node[0].device for p in partitions] == list(CPUS)
    assert sent(partitions) == [("a", "0", "1"), ("a", "0", "2")]
    made = nodes(partitions)
    assert made["b"].input[0] == made["c"].input[0]
    recv = made[made["b"].input[0]]
    assert (recv.op, recv.device, recv.attr["tensor_type"].type) == ("_Recv", CPUS[1], DT_FLOAT)
    assert (recv.attr["_src"].s, recv.attr["_dst"].s) == (b"a", b"b")
    assert recv.attr["tensor_name"].s.startswith(b"edge_")
    assert recv.attr["tensor_name"].s.endswith(b"_a")


def test_a_control_edge_sends_an_empty_constant_once() -> None:
    graph = spread()
    graph.op("late", "NoOp", "^b", device="/cpu:2").ClearField("attr")
    graph.op("later", "NoOp", "^b", device="/cpu:2").ClearField("attr")
    partitions = cut(GraphItem(graph.graph), devices=CPUS)
    made = nodes(partitions)
    assert made["late"].input == made["later"].input
    reader = made[made["late"].input[0].removeprefix("^")]
    recv = made[reader.input[0]]
    assert (reader.op, recv.op) == ("Identity", "_Recv")
    dummy = next(n for n in made.values() if "ctrl" in n.name)
    assert dummy.input[:] == ["^b"]
    assert dummy.attr["value"].tensor.tensor_shape.dim[0].size == 0


def test_ports_are_transfers_of_their_own() -> None:
    graph = Graph()
    graph.op("one", "Const", device="/job:ps")
    graph.op("two", "IdentityN", "one", "one", device="/job:ps").ClearField("attr")
    graph.graph.node[-1].attr["T"].list.type.extend([DT_FLOAT] * 2)
    graph.op("a", "AddV2", "two", "two:1", device="/job:worker")
    partitions = cut(GraphItem(graph.graph))
    found = find_transfers(GraphView.of(*partitions)).data
    assert [(t.key.node, t.key.port, str(t.channel)) for t in found] == [
        ("two", port, f"{PS} -> {WORKER}") for port in (0, 1)
    ]


def test_a_task_receives_once_and_hands_on() -> None:
    graph = Graph()
    graph.op("one", "Const", device="/job:ps")
    graph.op("w", "Tanh", "one", device="/job:ps")
    graph.op("a", "Tanh", "w", device="/job:worker/cpu:0")
    graph.op("b", "Tanh", "w", device="/job:worker/cpu:1")
    partitions = cut(GraphItem(graph.graph), devices=(WORKER, OTHER, PS))
    received = nodes(partitions)["a"].input[0]
    assert sent(partitions) == [("w", "0", "0"), (received, "0", "1")]


def test_a_small_constant_is_copied_and_a_big_one_sent() -> None:
    graph = Graph()
    for name, size in (("small", 16), ("big", 17)):
        graph.op(name, "Const").attr["value"].tensor.tensor_shape.dim.add(size=size)
    for i in range(2):
        graph.op(f"a{i}", "AddV2", "small", "big", device=f"/cpu:{i}")
    partitions = cut(GraphItem(graph.graph), devices=CPUS)
    assert sent(partitions) == [("big", "0", "1")]
    assert {n.device for n in nodes(partitions, "Const").values() if "small/replicate" in n.name} == {
        *CPUS[:2]
    }


def test_only_what_is_fetched_is_kept_and_feeds_come_from_the_client() -> None:
    item = GraphItem(spread().graph, ("a:0",), ("c:0", "d"))
    partitions = cut(item, devices=CPUS)
    assert nodes(partitions).keys() & {"one", "a", "b", "c", "d"} == {"b", "c", "d"}
    assert sent(partitions) == [("_arg_a_0_0", "0", "1"), ("_arg_a_0_0", "0", "2"), ("c", "1", "0")]
    assert nodes(partitions)["_retval_c_0_0"].device == CPUS[0]


def test_the_clients_own_ends_are_no_transfers_in_a_cluster() -> None:
    graph = Graph()
    graph.op("x", "Const", device="/job:worker")
    graph.op("a", "Tanh", "x", device="/job:ps")
    partitions = cut(GraphItem(graph.graph, ("x:0",), ("a:0",)))
    made = nodes(partitions)
    assert made["_recv_x_0"].attr["client_terminated"].b
    assert made["_send_a_0"].attr["client_terminated"].b
    keys = [t.key.node for t in find_transfers(GraphView.of(*partitions)).data]
    assert keys == ["_recv_x_0", "a"]


@pytest.mark.parametrize(
    ("feeds", "fetches", "message"),
    [
        (("gone:0",), ("c:0",), "'gone:0'.*does not have it"),
        ((), ("c:1",), "'c' has 1 outputs.*'c:1'"),
        (("c:0",), ("c:0",), "'c:0' is both fed and fetched"),
    ],
)
def test_feeds_and_fetches_must_be_there(
    feeds: tuple[str, ...], fetches: tuple[str, ...], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        cut(GraphItem(spread().graph, feeds, fetches), devices=CPUS)


def loop() -> Graph:
    """x = tanh(x) on the second CPU, the loop itself on the first."""
    graph = Graph()
    graph.op("start", "Const")
    graph.op("enter", "Enter", "start").attr["frame_name"].s = b"loop"
    graph.op("merge", "Merge", "enter", "next").attr["N"].i = 2
    graph.op("positive", "IsFinite", "merge")
    graph.op("again", "LoopCond", "positive").ClearField("attr")
    graph.op("switch", "Switch", "merge", "again")
    graph.op("body", "Tanh", "switch:1", device="/cpu:1")
    graph.op("next", "NextIteration", "body")
    graph.op("exit", "Exit", "switch")
    return graph


def test_each_device_of_a_loop_has_a_control_loop_that_its_recvs_wait_for() -> None:
    partitions = cut(GraphItem(loop().graph), devices=CPUS)
    assert sent(partitions) == [("again", "0", "1"), ("body", "1", "0"), ("switch:1", "0", "1")]
    made = nodes(partitions)
    merges = {n.device: n for n in made.values() if n.name.startswith("_cloop") and n.op == "Merge"}
    assert sorted(merges) == [*CPUS[:2]]
    recv = made[made["body"].input[0]]
    assert recv.input[:] == [f"^{merges[CPUS[1]].name}"]
    switch = next(
        n for n in made.values() if n.name.startswith("_cloop") and n.device == CPUS[1] and n.op == "Switch"
    )
    assert made[switch.input[1]].attr["_src"].s == b"again"


def test_a_loop_on_several_devices_needs_a_condition() -> None:
    graph = loop()
    again = next(n for n in graph.graph.node if n.name == "again")
    again.op = "Identity"
    again.attr["T"].type = 10
    with pytest.raises(GraphError, match=r"loop 'loop' runs on .*CPU:1.* no LoopCond"):
        cut(GraphItem(graph.graph), devices=CPUS)


def test_inputs_of_different_loops_are_refused() -> None:
    graph = loop()
    graph.op("outside", "AddV2", "start", "body")
    with pytest.raises(GraphError, match="'outside' has inputs from the loops"):
        cut(GraphItem(graph.graph), devices=CPUS)


def test_an_argument_is_where_its_value_is_and_a_result_where_it_is_made() -> None:
    graph = Graph()
    graph.op("x", "Placeholder").attr["dtype"].type = DT_FLOAT
    for i in range(2):
        graph.op(f"a{i}", "Tanh", "x", device=f"/job:worker/cpu:{i}")
    item = as_function(GraphItem(graph.graph, ("x:0",), ("a1:0",)), {"x:0": PS})
    partitions = cut(item, devices=(WORKER, OTHER, PS))
    assert sent(partitions) == [("x", "0", "0"), ("x", "0", "1")]
    (result,) = nodes(partitions, "_Retval").values()
    assert (result.device, result.input[:]) == (OTHER, ["a1"])


def test_an_argument_is_a_placeholder() -> None:
    with pytest.raises(GraphError, match="'a' is fed, but it is no Placeholder"):
        as_function(GraphItem(spread().graph, ("a:0",), ()))


@pytest.mark.parametrize("op", ["Shape", "ReadVariableOp", "Switch", "_Retval", "Identity"])
def test_a_node_without_its_inputs_or_outputs_is_refused(op: str) -> None:
    graph = spread()
    graph.op("bare", op, "^d", device="/cpu:0")
    graph.op("reader", "Tanh", "bare:7", device="/cpu:2")
    with pytest.raises(GraphError, match="'bare'"):
        cut(GraphItem(graph.graph), devices=CPUS)
