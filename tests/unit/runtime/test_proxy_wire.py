"""What the proxy reads of the messages that pass, encoded by protobuf itself."""

import random

import pytest

from tests.plans import plan_by_hand
from tests.proxy_messages import (
    Fixed64,
    component,
    encode,
    enqueue,
    recv_tensor,
    register_graph,
    run_graph,
    send,
    tensor,
)
from tfwave.graph.names import Channel
from tfwave.proto.tensorflow_pb2 import AttrValue, FunctionDef, GraphDef, NodeDef, TensorProto
from tfwave.runtime.proxy import messages
from tfwave.runtime.proxy.log import HandOffLog
from tfwave.runtime.proxy.messages import GraphKey, StepStart, WantedTensor
from tfwave.runtime.proxy.observer import EAGER, Observer
from tfwave.runtime.proxy.sends import GraphEdge, sending_component, sending_graph
from tfwave.runtime.proxy.sequencer import Sequencer
from tfwave.runtime.proxy.step import Arrival
from tfwave.runtime.proxy.table import PlanTable
from tfwave.runtime.proxy.wire import MalformedMessage, Message

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
PULL = Channel(PS, WORKER)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
def test_numbers(value: int) -> None:
    message = Message(encode((1, value), (2, Fixed64(value & (1 << 64) - 1)), (900, value)))
    assert [message.signed(n) for n in (1, 2, 900)] == [value] * 3
    assert message.integer(1) == value & (1 << 64) - 1


def test_fields() -> None:
    data = encode((1, "text ü"), (2, b"\x00\xff"), (3, True), (4, [b"\x08\x05", b"\x08\x06"]))
    message = Message(data)
    assert message.text(1) == "text ü"
    assert bytes(message.data(2)) == b"\x00\xff"
    assert message.integer(3) == 1
    assert [m.integer(1) for m in message.messages(4)] == [5, 6]
    assert message.message(4).integer(1) == 6
    assert (message.has(4), message.has(5)) == (True, False)
    assert (message.text(9), bytes(message.data(9)), message.integer(9)) == ("", b"", 0)


@pytest.mark.parametrize(
    "data",
    [b"\x08", b"\x0a\x05ab", b"\x08" + b"\xff" * 11, b"\x0b", b"\x09\x01", b"\xff" * 30, b"\x0d\x01\x02"],
)
def test_malformed_messages(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        Message(data)


def test_fields_of_another_kind() -> None:
    with pytest.raises(MalformedMessage):
        Message(encode((1, 5))).data(1)
    with pytest.raises(MalformedMessage):
        Message(encode((1, "x"))).integer(1)
    with pytest.raises(MalformedMessage):
        Message(encode((1, b"\xff"))).text(1)


def test_only_malformed_message_escapes() -> None:
    chance = random.Random(5)
    whole = [recv_tensor(7, PULL, "edge_1_v"), enqueue(3, (4, component("f_1_2", send("s", "v", PULL))))]
    readers = [
        messages.wanted_tensor,
        messages.tensor_bytes,
        messages.run_graph,
        messages.queue_items,
        messages.run_component_function,
    ]
    understood = 0
    for _ in range(4000):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        for read in readers:
            try:
                read(bytes(data[: chance.randrange(len(data) + 1)]))
                understood += 1
            except MalformedMessage:
                continue
    assert understood > 100


def test_wanted_tensor() -> None:
    wanted = messages.wanted_tensor(recv_tensor(-5, PULL, "edge_85_Read/ReadVariableOp"))
    assert wanted == WantedTensor(-5, PULL, "edge_85_Read/ReadVariableOp", in_loop=False)
    assert messages.wanted_tensor(recv_tensor(1, PULL, "edge_1_x", "7:3")).in_loop
    with pytest.raises(MalformedMessage):
        messages.wanted_tensor(encode((1, 5), (2, "no;key")))


@pytest.mark.parametrize("size", [0, 1, 127, 128, 5000, 1 << 20])
def test_tensor_bytes(size: int) -> None:
    assert messages.tensor_bytes(tensor(b"x" * size)) == (size, False)
    assert messages.tensor_bytes(tensor(b"x" * size, dead=True)) == (0, True)


def test_tensors_without_content() -> None:
    scalars = TensorProto(float_val=[1.0, 2.0], string_val=[b"abc", b"de"])
    assert messages.tensor_bytes(encode((1, scalars.SerializeToString()))) == (8 + 5, False)
    assert messages.tensor_bytes(b"") == (0, False)


def test_graphs_and_steps() -> None:
    graph = GraphDef(node=[NodeDef(name="x", op="NoOp")])
    request, response = register_graph("s1", graph), encode((1, "handle"))
    key, data = messages.registered_graph(request, response)
    assert (key, bytes(data)) == (GraphKey("s1", "handle"), graph.SerializeToString())
    shared, _ = messages.registered_graph(register_graph("s1", graph, called=False), response)
    assert shared == GraphKey("", "handle")
    assert messages.run_graph(run_graph("s1", "handle", -9)) == StepStart(-9, GraphKey("s1", "handle"))
    assert messages.run_graph(run_graph("s1", "handle", 9, called=False)).graph == shared
    assert messages.deregistered_graph(encode((1, "handle"), (2, "s1"), (3, True))) == key
    assert messages.ended_session(encode((1, "s1"))) == "s1"
    assert messages.ended_step(encode((1, -3))) == -3


def test_eager_queue() -> None:
    definition = FunctionDef(node_def=[NodeDef(name="x", op="NoOp")])
    definition.signature.name = "f_partitioned_1_2"
    part = encode((1, definition.SerializeToString()), (2, True))
    whole = encode((1, definition.SerializeToString()), (2, False))
    call = encode((2, "f"), (7, True), (8, -4))
    items = messages.queue_items(
        enqueue(
            7,
            (4, part),
            (4, whole),
            (2, call),
            (2, encode((2, "AddV2"))),
            (5, encode((1, -6))),
            (8, encode((1, "g"))),
        )
    )
    context = messages.closed_context(encode((1, Fixed64(7))))
    assert [(key, bytes(data)) for key, data in items.registered] == [
        (GraphKey(context, "f_partitioned_1_2"), definition.SerializeToString())
    ]
    assert items.started == (StepStart(-4, GraphKey(context, "f")),)
    assert items.ended == (-6,)
    assert items.removed == (GraphKey(context, "g"),)
    run = encode((1, Fixed64(7)), (2, call))
    assert messages.run_component_function(run) == StepStart(-4, GraphKey(context, "f"))


def empty_constant() -> NodeDef:
    node = NodeDef(name="control", op="Const")
    node.attr["value"].tensor.tensor_shape.dim.add(size=0)
    return node


def scalar_constant() -> NodeDef:
    node = NodeDef(name="scalar", op="Const")
    node.attr["value"].tensor.float_val.append(1)
    return node


def test_sends_of_a_graph() -> None:
    other = Channel(PS, PS.replace("CPU:0", "CPU:1"))
    graph = GraphDef(
        node=[
            send("s1", "read:0", PULL),
            NodeDef(name="read", op="ReadVariableOp"),
            empty_constant(),
            scalar_constant(),
            send("s2", "control:0", PULL),
            send("s3", "scalar", PULL),
            send("local", "read", other),
            send("fed", "read", PULL, client_terminated=AttrValue(b=True)),
        ]
    )
    sending = sending_graph(graph.SerializeToString())
    assert sending.function == ""
    assert sending.edges == (
        GraphEdge(PULL, "edge_1_read"),
        GraphEdge(PULL, "edge_1_control", orderable=False),
        GraphEdge(PULL, "edge_1_scalar"),
    )


def test_sends_in_loops_are_not_orderable() -> None:
    nodes = [
        NodeDef(name="start", op="Const"),
        NodeDef(name="enter", op="Enter", input=["start"]),
        NodeDef(name="merge", op="Merge", input=["enter", "next"]),
        NodeDef(name="inner_enter", op="Enter", input=["merge"]),
        NodeDef(name="inner_exit", op="Exit", input=["inner_enter"]),
        NodeDef(name="next", op="NextIteration", input=["inner_exit"]),
        NodeDef(name="exit", op="Exit", input=["merge"]),
        NodeDef(name="after", op="Sin", input=["exit"]),
        *(send(f"s{i}", value, PULL) for i, value in enumerate(["start", "merge", "inner_exit", "after"])),
        NodeDef(name="received", op="_Recv", input=["^merge"]),
        send("s4", "received", PULL),
    ]
    edges = sending_graph(GraphDef(node=nodes).SerializeToString()).edges
    assert {e.edge.removeprefix("edge_1_"): e.orderable for e in edges} == {
        "start": True,
        "merge": False,
        "inner_exit": False,
        "after": True,
        "received": False,
    }


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("__inference_step_258_partitioned_10914213329046575646_1", "__inference_step_258"),
        ("__inference_step_258_10914213329046575646_1", "__inference_step_258"),
        ("plain", ""),
    ],
)
def test_sends_of_a_component(name: str, function: str) -> None:
    definition = FunctionDef(
        node_def=[NodeDef(name="v", op="ReadVariableOp", input=["handle"]), send("s", "v:value:0", PULL)]
    )
    definition.signature.name = name
    sending = sending_component(definition.SerializeToString())
    assert (sending.function, sending.edges) == (function, (GraphEdge(PULL, "edge_1_v"),))


def test_a_function_registered_anew_replaces_the_former() -> None:
    sequencer = Sequencer(HandOffLog())
    sequencer.install(PlanTable({"": plan_by_hand({PULL: ["edge_1_a", "edge_1_b"]})}))
    observer = Observer(sequencer)
    for value in "ab":
        registered = component("f_1_2", send("s", value, PULL))
        observer.asked(f"{EAGER}/Enqueue", enqueue(3, (4, registered)))
    gone: list[str] = []
    sequencer.arrive(Arrival(1, PULL, "edge_1_a", 8), lambda: gone.append("a"))
    assert gone == ["a"]  # no graph has it any more
    sequencer.arrive(Arrival(2, PULL, "edge_1_b", 8), lambda: gone.append("b"))
    assert gone == ["a"]
    sequencer.close()
    assert gone == ["a", "b"]


def test_what_is_no_graph() -> None:
    for read in (sending_graph, sending_component):
        with pytest.raises(MalformedMessage):
            read(b"\xff\xff")
