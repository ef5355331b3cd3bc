"""Placement, rule by rule."""

import pytest

from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.partition.devices import parse_device
from tfwave.graph.partition.place import place
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, DT_RESOURCE, GraphDef, NodeDef

LOCAL = "/job:localhost/replica:0/task:0/device:CPU:"
PS = "/job:ps/replica:0/task:{}/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
CPUS = tuple(f"{LOCAL}{i}" for i in range(3))


class Graph:
    """Adds nodes to one graph."""

    def __init__(self) -> None:
        self.graph = GraphDef()

    def op(self, name: str, op: str, *inputs: str, device: str = "", near: str = "") -> NodeDef:
        node = self.graph.node.add(name=name, op=op, input=inputs, device=device)
        if near:
            node.attr["_class"].list.s.append(f"loc:@{near}".encode())
        node.attr[
            "dtype" if op in ("Const", "VarHandleOp", "ReadVariableOp", "VariableV2") else "T"
        ].type = DT_FLOAT
        return node

    def placed(self, *devices: str, default: str = "", soft: bool = False) -> dict[str, str]:
        return place(GraphItem(self.graph), devices=devices or CPUS, default=default, soft=soft)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("/cpu:1", "/device:CPU:1"),
        ("/job:ps/task:03", "/job:ps/task:3"),
        ("/job:ps/task:*/device:cpu:*", "/job:ps/device:CPU:*"),
        (WORKER, WORKER),
        ("", ""),
    ],
)
def test_a_device_name_is_brought_to_one_form(text: str, full: str) -> None:
    assert str(parse_device(text)) == full


@pytest.mark.parametrize("text", ["CPU:0", "/job:ps/", "/task:x", "/job:a b:c/cpu"])
def test_a_malformed_device_is_refused(text: str) -> None:
    graph = Graph()
    graph.op("lost", "Tanh", "lost0", device=text)
    graph.op("lost0", "Const")
    with pytest.raises(GraphError, match="not a device name"):
        graph.placed()


def test_an_explicit_device_is_kept_and_an_open_one_is_the_clients() -> None:
    graph = Graph()
    graph.op("a", "Const", device="/cpu:2")
    graph.op("b", "Tanh", "a")
    assert graph.placed() == {"a": CPUS[2], "b": CPUS[0]}
    graph.op("x", "_Arg", device="/cpu:2")
    assert graph.placed(default=CPUS[1])["b"] == CPUS[1], "a function prefers its own device"


def test_an_open_device_is_of_the_clients_task_if_it_can_be() -> None:
    graph = Graph()
    graph.op("a", "Const", device="/job:ps/task:1")
    graph.op("b", "Tanh", "a")
    graph.op("c", "Tanh", "b", device="/cpu:0")
    graph.op("d", "Tanh", "c", device="/job:ps")
    devices = (PS.format(0), PS.format(1), WORKER)
    placed = graph.placed(*devices, default=WORKER)
    assert placed == {"a": PS.format(1), "b": WORKER, "c": WORKER, "d": PS.format(0)}


def test_the_devices_are_those_that_the_graph_names() -> None:
    graph = Graph()
    graph.op("a", "Const", device="/job:ps/task:1/cpu:1")
    graph.op("b", "Tanh", "a", device="/job:worker")
    graph.op("c", "Tanh", "b")
    placed = place(GraphItem(graph.graph))
    assert placed == {"a": "/job:ps/replica:0/task:1/device:CPU:1", "b": WORKER, "c": WORKER}


def test_a_source_goes_to_its_readers_if_they_share_a_device() -> None:
    graph = Graph()
    graph.op("one", "Const")
    graph.op("two", "Const")
    graph.op("unread", "Const")
    graph.op("a", "AddV2", "one", "two", device="/cpu:1")
    graph.op("b", "Tanh", "two", device="/cpu:2")
    assert graph.placed() == {"one": CPUS[1], "two": CPUS[0], "unread": CPUS[0], "a": CPUS[1], "b": CPUS[2]}


def test_a_shape_is_taken_where_the_tensor_is() -> None:
    graph = Graph()
    graph.op("a", "Const", device="/cpu:1")
    graph.op("x", "Tanh", "a", device="/cpu:1")
    graph.op("shape", "Shape", "x")
    graph.op("asked", "Shape", "x", device="/cpu:2")
    placed = graph.placed()
    assert (placed["shape"], placed["asked"]) == (CPUS[1], CPUS[2])


def test_an_identity_follows_its_input_only_if_nobody_asks_for_a_device() -> None:
    graph = Graph()
    graph.op("handle", "VarHandleOp", device="/cpu:1").attr["shape"].shape.SetInParent()
    graph.op("read", "ReadVariableOp", "handle")
    for name in ("follows", "twice", "asked"):
        graph.op(name, "Identity", "read")
    graph.op("a", "Tanh", "follows")
    graph.op("b", "AddV2", "twice", "twice")
    graph.op("c", "Tanh", "asked", device="/cpu:2")
    placed = graph.placed()
    assert [placed[n] for n in ("read", "follows", "twice", "asked")] == [CPUS[1], CPUS[1], CPUS[0], CPUS[0]]


def test_who_takes_a_handle_is_where_it_was_made_whatever_it_asks_for() -> None:
    graph = Graph()
    graph.op("handle", "VarHandleOp", device="/cpu:1").attr["shape"].shape.SetInParent()
    graph.op("read", "ReadVariableOp", "handle", device="/cpu:2")
    graph.op("ref", "VariableV2", device="/cpu:2").attr["shape"].shape.SetInParent()
    graph.op("one", "Const")
    graph.op("assign", "Assign", "ref", "one", device="/cpu:0")
    placed = graph.placed()
    assert placed == {"handle": CPUS[1], "read": CPUS[1], "ref": CPUS[2], "one": CPUS[2], "assign": CPUS[2]}


def test_a_colocation_group_adds_its_partial_devices_up() -> None:
    graph = Graph()
    graph.op("a", "Const", device="/job:ps")
    graph.op("b", "Tanh", "a", device="/task:1", near="a")
    graph.op("c", "Tanh", "b", near="b")
    placed = graph.placed(PS.format(0), PS.format(1), WORKER)
    assert set(placed.values()) == {PS.format(1)}


def test_a_colocation_group_need_not_have_a_node_of_its_name() -> None:
    graph = Graph()
    graph.op("a", "Const", device="/cpu:1", near="gone")
    graph.op("b", "Tanh", "a", near="gone")
    assert graph.placed()["b"] == CPUS[1]


def test_a_colocation_that_cannot_be_is_refused_and_ignored_with_soft_placement() -> None:
    graph = Graph()
    graph.op("a", "Const", device="/job:ps/task:0")
    graph.op("b", "Tanh", "a", device="/job:worker", near="a")
    with pytest.raises(GraphError, match=r"'a' and 'b'.*'/job:ps/task:0'.*'/job:worker'"):
        graph.placed(PS.format(0), WORKER)
    assert graph.placed(PS.format(0), WORKER, soft=True) == {"a": PS.format(0), "b": WORKER}


@pytest.mark.parametrize(
    "device", ["/cpu:9", "/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:3"]
)
def test_a_device_that_is_not_there_is_refused_and_replaced_with_soft_placement(device: str) -> None:
    graph = Graph()
    graph.op("a", "Const", device="/cpu:1")
    graph.op("lost", "Tanh", "a", device=device)
    with pytest.raises(GraphError, match=f"'lost' asks for the device '{device}'.*CPU:2"):
        graph.placed()
    assert graph.placed(soft=True)["lost"] == CPUS[0]


def two_handles() -> Graph:
    graph = Graph()
    for name, device in (("v", "/cpu:1"), ("w", "/cpu:2")):
        graph.op(name, "VarHandleOp", device=device).attr["shape"].shape.SetInParent()
    return graph


def test_two_handles_of_different_devices_cannot_meet() -> None:
    graph = two_handles()
    both = graph.op("both", "Pack", "v", "w")
    both.attr["T"].type, both.attr["N"].i = DT_RESOURCE, 2
    with pytest.raises(GraphError, match=r"'w' and 'both'.*CPU:2.*CPU:1"):
        graph.placed()


def test_what_stands_for_a_lowered_loop_only_hands_handles_on() -> None:
    graph = two_handles()
    both = graph.op("both", "IdentityN", "v", "w")
    both.attr.clear()
    both.attr["T"].list.type.extend([DT_RESOURCE] * 2)
    assert graph.placed() == {"v": CPUS[1], "w": CPUS[2], "both": CPUS[0]}


GPU = f"{LOCAL}0".replace("CPU", "GPU")


def on_gpu() -> Graph:
    """Explicit devices, but for one that follows a CPU."""
    graph = Graph()
    graph.op("a", "Const", device="/cpu:0")
    graph.op("b", "Tanh", "a", device="/device:GPU:0")
    graph.op("c", "Tanh", "b", device="/cpu:1")
    graph.op("d", "Shape", "c")
    return graph


@pytest.mark.parametrize("devices", [(), (*CPUS, "/gpu:0"), ("/gpu:0", CPUS[1])])
def test_explicit_devices_of_any_kind_are_kept(devices: tuple[str, ...]) -> None:
    placed = place(GraphItem(on_gpu().graph), devices=devices, default="/cpu:0")
    assert placed == {"a": CPUS[0], "b": GPU, "c": CPUS[1], "d": CPUS[1]}


@pytest.mark.parametrize(("device", "soft"), [("", False), ("/cpu:0", True), ("/device:GPU:0", True)])
def test_what_a_gpus_kernels_decide_is_refused(device: str, soft: bool) -> None:
    graph = Graph()
    graph.op("a", "Const", device="/cpu:0")
    graph.op("lost", "Tanh", "a", device=device)
    if device == "/cpu:0":
        assert graph.placed(*CPUS, GPU, soft=soft)["lost"] == CPUS[0]
        return
    with pytest.raises(GraphError, match=r"node 'lost' \(Tanh\) .*kernels.*GPU:0.*or capture it"):
        graph.placed(*CPUS, GPU, soft=soft)


def test_what_would_follow_a_gpu_is_refused() -> None:
    graph = on_gpu()
    graph.op("lost", "Shape", "b")
    with pytest.raises(GraphError, match="'lost'"):
        graph.placed(*CPUS, GPU)


def test_a_function_prefers_its_own_cpu_to_all_gpus() -> None:
    graph = Graph()
    graph.op("x", "_Arg")
    graph.op("y", "Tanh", "x")
    assert graph.placed(*CPUS, GPU, default=CPUS[1], soft=True) == {"x": CPUS[1], "y": CPUS[1]}
    with pytest.raises(GraphError, match="'x'"):
        graph.placed(*CPUS, GPU, default=GPU, soft=True)


def test_an_argument_that_is_on_a_gpu_keeps_who_takes_its_handle_there() -> None:
    graph = Graph()
    argument = graph.op("v", "_Arg", device=GPU)
    argument.attr["T"].type = DT_RESOURCE
    graph.op("read", "ReadVariableOp", "v")
    assert set(graph.placed(*CPUS, GPU, default=CPUS[0], soft=True).values()) == {GPU}


def test_a_cycle_is_refused() -> None:
    graph = Graph()
    graph.op("a", "Tanh", "b")
    graph.op("b", "Tanh", "a")
    with pytest.raises(GraphError, match="cycle: b -> a -> b"):
        graph.placed()


def test_the_graph_stays_as_it_is_and_its_order_does_not_matter_here() -> None:
    graph = Graph()
    graph.op("b", "Tanh", "a")
    graph.op("a", "Const", device="/cpu:1")
    before = graph.graph.SerializeToString(deterministic=True)
    assert graph.placed() == {"a": CPUS[1], "b": CPUS[0]}
    assert graph.graph.SerializeToString(deterministic=True) == before
