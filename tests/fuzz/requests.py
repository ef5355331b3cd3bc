"""What TensorFlow's workers ask a proxy, and what must hold whatever it is: it passes, once, and is read right."""

import random

from tests.fuzz.damage import damaged
from tests.fuzz.invariants import time_limit
from tests.fuzz.strategies import DEVICES, any_graph
from tests.plans import plan_by_hand
from tests.proxy_messages import (
    component,
    decoded_recv_tensor,
    encode,
    enqueue,
    recv_tensor,
    register_graph,
    run_graph,
    send,
    tensor,
)
from tfwave.graph.names import Channel
from tfwave.proto.tensorflow_pb2 import AttrValue, GraphDef
from tfwave.runtime.proxy import messages
from tfwave.runtime.proxy.log import HandOffLog
from tfwave.runtime.proxy.observer import EAGER, REGISTER_GRAPH, WORKER, Observer
from tfwave.runtime.proxy.sequencer import Sequencer
from tfwave.runtime.proxy.step import Arrival
from tfwave.runtime.proxy.table import PlanTable
from tfwave.runtime.proxy.wire import MalformedMessage

PULL = Channel("/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0")
EDGES = ("edge_1_a", "edge_2_b", "edge_3_c")
PARTS = (
    "",
    "0:0",
    "7:3",
    "edge_",
    "edge_1_",
    "edge_" + "9" * 400,
    "edge_1_a",
    "a;b",
    "a\0b",
    "ü",
    ";",
    *DEVICES,
)
METHODS = (
    *(f"{WORKER}/{name}" for name in ("RunGraph", "DeregisterGraph", "DeleteWorkerSession", "CleanupGraph")),
    *(f"{WORKER}/CleanupAll", f"{WORKER}/NoSuchCall"),
    *(f"{EAGER}/{name}" for name in ("Enqueue", "StreamingEnqueue", "RunComponentFunction", "CloseContext")),
)


def any_key(rng: random.Random) -> str:
    """A rendezvous key: five parts, some of them of any text, now and then more parts or fewer."""
    parts = [PULL.source, "00000000deadbeef", PULL.destination, rng.choice(EDGES), "0:0"]
    for _ in range(rng.choice((0, 0, 1, 3))):
        parts[rng.randrange(5)] = rng.choice(PARTS)
    if rng.random() < 0.2:
        del parts[rng.randrange(5) :]
    return ";".join(parts)


def any_tensor_request(rng: random.Random) -> bytes:
    """A RecvTensorRequest; now and then damaged, or with fields of other kinds."""
    request = encode((1, rng.choice((1, 2, -1, 2**63 - 1))), (2, any_key(rng)), (3, True), (7, -1))
    if rng.random() < 0.3:
        request += rng.choice(
            (encode((1, 5)), encode((2, "x")), encode((1, b"x")), encode((2, 7)), b"\x0b\x0c")
        )
    return damaged(rng, request) if rng.random() < 0.6 else request


def check_tensor_request(request: bytes) -> None:
    """It is read as protobuf reads it, or not at all; what protobuf itself writes is read."""
    expected = decoded_recv_tensor(request)
    found = _wanted(request)
    if found is not None and expected is not None:
        assert _key_of(found) == _split(expected[1]), request
        assert found.step == expected[0], request
    if expected is not None and expected[1].count(";") == 4:
        assert _wanted(recv_tensor_of(*expected)) is not None


def recv_tensor_of(step: int, key: str) -> bytes:
    """As a worker writes it."""
    return encode((1, step), (2, key), (3, True), (7, -1))


def _wanted(request: bytes) -> messages.WantedTensor | None:
    with time_limit():
        try:
            return messages.wanted_tensor(request)
        except MalformedMessage:
            return None


def _key_of(wanted: messages.WantedTensor) -> tuple[str, str, str, bool]:
    return wanted.channel.source, wanted.channel.destination, wanted.edge, wanted.in_loop


def _split(key: str) -> tuple[str, str, str, bool]:
    source, _, destination, edge, frame = key.split(";")
    return source, destination, edge, frame != "0:0"


def check_calls(rng: random.Random) -> None:
    """Calls of all kinds before one sequencer: none fails, and each tensor leaves once."""
    sequencer = Sequencer(HandOffLog())
    sequencer.install(PlanTable({"": plan_by_hand({PULL: EDGES}), "f": plan_by_hand({PULL: EDGES[::-1]})}))
    observer, left = Observer(sequencer), list[int]()
    asked = 0
    for _ in range(rng.randint(1, 20)):
        request = any_tensor_request(rng)
        with time_limit():
            observer.asked(rng.choice(METHODS), _any_call(rng))
            registered = register_graph("s", _any_graph(rng))
            observer.answered(REGISTER_GRAPH, _maybe_damaged(rng, registered), encode((1, "h")))
            _size(_maybe_damaged(rng, tensor(b"x" * 100, dead=rng.random() < 0.3)))
        if (wanted := _wanted(request)) is not None:
            arrival = Arrival(wanted.step, wanted.channel, wanted.edge, 8, rng.random() < 0.1)
            sequencer.arrive(arrival, lambda number=asked: left.append(number))
            asked += 1
    sequencer.close()
    assert sorted(left) == list(range(asked))


def _size(response: bytes) -> None:
    try:
        size, _ = messages.tensor_bytes(response)
    except MalformedMessage:
        return
    assert 0 <= size <= len(response)


def _any_call(rng: random.Random) -> bytes:
    made = (
        run_graph("s", "h", rng.choice((1, 2, -1))),
        recv_tensor(1, PULL, "edge_1_a"),
        enqueue(3, (4, component("f_1_2", *(send(f"s{i}", f"{n}:0", PULL) for i, n in enumerate("abc"))))),
        enqueue(
            3, (2, encode((2, "f_1_2"), (7, True), (8, 1))), (5, encode((1, 2))), (8, encode((1, "f_1_2")))
        ),
        encode((1, b"\xff"), (2, "x")),
    )
    return _maybe_damaged(rng, rng.choice(made))


def _any_graph(rng: random.Random) -> GraphDef:
    graph = any_graph(rng) if rng.random() < 0.5 else GraphDef()
    for name in rng.sample("abc", rng.randint(0, 3)):
        graph.node.append(send(f"send_{name}", f"{name}:0", PULL, **_any_attr(rng)))
    return graph


def _any_attr(rng: random.Random) -> dict[str, AttrValue]:
    if rng.random() < 0.7:
        return {}
    values = (
        AttrValue(s=b"\xff\xfe"),
        AttrValue(i=5),
        AttrValue(),
        AttrValue(s=b"/job:ps/task:" + b"9" * 5000),
    )
    return {
        rng.choice(("send_device", "recv_device", "tensor_name", "client_terminated")): rng.choice(values)
    }


def _maybe_damaged(rng: random.Random, data: bytes) -> bytes:
    return damaged(rng, data) if rng.random() < 0.5 else data
