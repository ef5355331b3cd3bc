"""The proxy in front of a real gRPC server that is no TensorFlow: what goes through, and what is held."""

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import combinations
from typing import Any

import grpc
import pytest

from tests.plans import plan_by_hand
from tests.proxy_messages import component as component_function
from tests.proxy_messages import encode, enqueue, recv_tensor, register_graph, run_graph, send, tensor
from tests.waiting import wait_until
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.proxy.enforcer import Proxy

OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.server.max_pending_requests", 1 << 30),
    ("grpc.server.max_pending_requests_hard_limit", 1 << 30),
)
WORKER = "/tensorflow.WorkerService"
EAGER = "/tensorflow.eager.EagerService"
STREAM = f"{EAGER}/StreamingEnqueue"
PS = "/job:ps/replica:0/task:0/device:CPU:0"
HELD_BYTES = 64

Answer = Callable[[bytes, Any], bytes]


def pull(worker: int) -> Channel:
    return Channel(PS, f"/job:worker/replica:0/task:{worker}/device:CPU:0")


class Backend(grpc.GenericRpcHandler):
    """Answers what `answers` has by method; all else it echoes."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.ended = threading.Event()
        self.asked = threading.Event()

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        if method == STREAM:
            return grpc.stream_stream_rpc_method_handler(self.stream)
        return grpc.unary_unary_rpc_method_handler(self.answers.get(method, lambda request, _: request))

    def stream(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(self.ended.set)
        for request in requests:
            if request == b"fail":
                context.set_trailing_metadata((("why", "told to"),))
                context.abort(grpc.StatusCode.DATA_LOSS, "as told")
            yield request * 2
        context.set_trailing_metadata((("how", "half-closed"),))

    def hang(self, request: bytes, context: Any) -> bytes:
        context.add_callback(self.ended.set)
        self.asked.set()
        self.ended.wait(20)
        return request


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
def server(backend: Backend) -> Iterator[tuple[Any, str]]:
    made = grpc.server(ThreadPoolExecutor(32), handlers=(backend,), options=OPTIONS)
    port = made.add_insecure_port("127.0.0.1:0")
    made.start()
    yield made, f"127.0.0.1:{port}"
    backend.ended.set()
    made.stop(None).wait()


@pytest.fixture
def proxy(server: tuple[Any, str]) -> Iterator[Proxy]:
    started = Proxy.start("127.0.0.1:0", server[1])
    yield started
    started.stop()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Any]:
    with grpc.insecure_channel(proxy.address, options=OPTIONS) as channel:
        yield channel


def test_bytes_and_metadata_pass(backend: Backend, client: Any) -> None:
    seen: dict[str, Any] = {}

    def answer(request: bytes, context: Any) -> bytes:
        seen.update(context.invocation_metadata())
        context.set_trailing_metadata((("trailer", "t"), ("raw-bin", b"\x00\xff")))
        return request[::-1]

    backend.answers["/any.Service/Method"] = answer
    response, call = client.unary_unary("/any.Service/Method").with_call(
        b"\x00abc", metadata=(("key", "value"), ("key-bin", b"\x00\x01"))
    )
    assert response == b"cba\x00"
    assert (seen["key"], seen["key-bin"]) == ("value", b"\x00\x01")
    assert dict(call.trailing_metadata()) == {"trailer": "t", "raw-bin": b"\x00\xff"}
    assert call.code() == grpc.StatusCode.OK
    assert client.unary_unary("/any.Service/Other")(b"") == b""


def test_large_messages_pass(client: Any) -> None:
    data = bytes(range(256)) * (80 << 12)  # 80 MiB
    assert client.unary_unary("/s/m")(data, timeout=60) == data


def test_errors_pass_with_details_and_metadata(backend: Backend, client: Any) -> None:
    def fail(request: bytes, context: Any) -> bytes:
        del request
        context.set_trailing_metadata((("grpc-status-details-bin", b"\x08\x05"),))
        return context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it is ümpossible\nreally")

    backend.answers["/s/m"] = fail
    with pytest.raises(grpc.RpcError) as caught:
        client.unary_unary("/s/m")(b"x", timeout=10)
    error: Any = caught.value
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == "it is ümpossible\nreally"
    assert dict(error.trailing_metadata())["grpc-status-details-bin"] == b"\x08\x05"


def test_deadlines_reach_the_server(backend: Backend, client: Any) -> None:
    left: list[float] = []

    def note(request: bytes, context: Any) -> bytes:
        left.append(context.time_remaining())
        return request

    backend.answers |= {"/s/note": note, "/s/hang": backend.hang}
    client.unary_unary("/s/note")(b"", timeout=100)
    client.unary_unary("/s/note")(b"")
    assert 90 < left[0] <= 102  # gRPC rounds up at each hop
    assert left[1] > 1e8
    with pytest.raises(grpc.RpcError) as caught:
        client.unary_unary("/s/hang")(b"", timeout=0.5)
    error: Any = caught.value
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert backend.ended.wait(5)


@pytest.mark.parametrize("method", ["/s/hang", f"{WORKER}/RecvTensor", f"{WORKER}/RunGraph"])
def test_cancellation_reaches_the_server(method: str, backend: Backend, client: Any) -> None:
    backend.answers[method] = backend.hang
    call = client.unary_unary(method).future(b"")
    assert backend.asked.wait(5)
    assert not backend.ended.is_set()
    call.cancel()
    assert backend.ended.wait(5)


def test_no_server_is_an_error(client: Any, server: tuple[Any, str]) -> None:
    assert client.unary_unary("/s/m")(b"x") == b"x"
    server[0].stop(None).wait()
    for call in (
        client.unary_unary("/s/m"),
        lambda request: next(client.stream_stream(STREAM)(iter([request]))),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(b"x")
        error: Any = caught.value
        assert error.code() == grpc.StatusCode.UNAVAILABLE


def test_a_server_that_dies_ends_its_calls(backend: Backend, client: Any, server: tuple[Any, str]) -> None:
    backend.answers["/s/hang"] = backend.hang
    call = client.unary_unary("/s/hang").future(b"")
    assert backend.asked.wait(5)
    server[0].stop(None)
    assert call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def test_streams_pass_both_ways(client: Any) -> None:
    sent: list[bytes] = []
    turn = threading.Semaphore(0)

    def requests() -> Iterator[bytes]:
        for i in range(50):
            assert turn.acquire(timeout=10)
            sent.append(b"%d" % i)
            yield sent[-1]

    call = client.stream_stream(STREAM)(requests())
    for i in range(50):
        turn.release()
        assert next(call) == b"%d" % i * 2
        assert len(sent) == i + 1
    with pytest.raises(StopIteration):
        next(call)
    assert dict(call.trailing_metadata()) == {"how": "half-closed"}


def test_errors_of_streams_pass(client: Any) -> None:
    call = client.stream_stream(STREAM)(iter([b"a", b"fail", b"b"]))
    assert next(call) == b"aa"
    with pytest.raises(grpc.RpcError):
        next(call)
    assert (call.code(), call.details()) == (grpc.StatusCode.DATA_LOSS, "as told")
    assert dict(call.trailing_metadata())["why"] == "told to"


def test_cancellation_of_streams_passes(backend: Backend, client: Any) -> None:
    never = threading.Event()

    def requests() -> Iterator[bytes]:
        yield b"a"
        never.wait(20)

    call = client.stream_stream(STREAM)(requests())
    assert next(call) == b"aa"
    call.cancel()
    assert backend.ended.wait(5)
    never.set()


def test_held_responses_park_no_thread(backend: Backend, client: Any, proxy: Proxy) -> None:
    """Two workers with 200 transfers each, in the worst order; meanwhile other calls pass."""
    count, before = 200, set(threading.enumerate())
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: tensor(bytes(HELD_BYTES))
    edges = [f"edge_{i}_v{i}" for i in range(count)]
    proxy.install(plan_by_hand({pull(w): edges for w in (0, 1)}))
    proxy.configure(deadline_seconds=60)
    arrived: dict[int, list[int]] = {0: [], 1: []}
    recv = client.unary_unary(f"{WORKER}/RecvTensor")
    calls: list[Any] = []

    def ask(worker: int, i: int) -> None:
        call = recv.future(recv_tensor(1 + worker, pull(worker), edges[i]), timeout=60)
        call.add_done_callback(lambda done: arrived[worker].append(i))
        calls.append(call)

    for i in range(count - 1, 0, -1):
        for worker in (0, 1):
            ask(worker, i)
    wait_until(lambda: proxy.status().counters.held == 2 * (count - 1))
    assert client.unary_unary("/s/m")(b"x", timeout=5) == b"x"
    begun = [t.name for t in set(threading.enumerate()) - before if t.name.startswith("tfwave")]
    assert len(begun) < 20, begun
    for worker in (0, 1):
        ask(worker, 0)
    assert all(len(call.result(timeout=30)) > HELD_BYTES for call in calls)
    wait_until(lambda: all(len(found) == count for found in arrived.values()))
    hand_offs = proxy.hand_offs().hand_offs
    for worker in (0, 1):
        assert [h.rank for h in hand_offs if h.channel == worker] == list(range(count))
        pairs = combinations(arrived[worker], 2)
        assert sum(a > b for a, b in pairs) < 0.01 * count * count / 2  # neighbours may swap on their way
    assert {h.bytes for h in hand_offs} == {HELD_BYTES}
    counters = proxy.status().counters
    assert (counters.ordered, counters.held, counters.live_steps) == (2 * count, 0, 0)


def test_thousands_of_calls_at_once(backend: Backend, client: Any) -> None:
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: tensor(b"abc")
    recv = client.unary_unary(f"{WORKER}/RecvTensor")
    calls = [recv.future(recv_tensor(1, pull(0), f"edge_{i}_v"), timeout=60) for i in range(4000)]
    assert all(call.result() == tensor(b"abc") for call in calls)


def test_a_session_graph_has_dense_ranks_until_it_is_gone(
    backend: Backend, client: Any, proxy: Proxy
) -> None:
    backend.answers |= {
        f"{WORKER}/RecvTensor": lambda request, context: tensor(b"abcd"),
        f"{WORKER}/RegisterGraph": lambda request, context: encode((1, "handle")),
    }
    proxy.install(plan_by_hand({pull(0): ["edge_1_c", "edge_1_a", "edge_1_b"]}))
    graph = GraphDef(node=[send("s1", "a", pull(0)), send("s2", "b", pull(0))])
    client.unary_unary(f"{WORKER}/RegisterGraph")(register_graph("session", graph))
    recv = client.unary_unary(f"{WORKER}/RecvTensor")
    for step in (5, -6):
        client.unary_unary(f"{WORKER}/RunGraph")(run_graph("session", "handle", step))
        second = recv.future(recv_tensor(step, pull(0), "edge_1_b"))
        wait_until(lambda: proxy.status().counters.held == 1)
        recv(recv_tensor(step, pull(0), "edge_1_a"), timeout=5)
        second.result(timeout=5)
    client.unary_unary(f"{WORKER}/RunGraph")(run_graph("session", "handle", 7))
    held = recv.future(recv_tensor(7, pull(0), "edge_1_b"))
    wait_until(lambda: proxy.status().counters.held == 1)
    client.unary_unary(f"{WORKER}/CleanupGraph")(encode((1, 7)))
    held.result(timeout=5)
    hand_offs = proxy.hand_offs().hand_offs
    assert [(h.step, h.rank, h.reason) for h in hand_offs] == [
        *((step, rank, 0) for step in (5, -6) for rank in (1, 2)),
        (7, 2, 1),
    ]
    client.unary_unary(f"{WORKER}/DeleteWorkerSession")(encode((1, "session")))
    client.unary_unary(f"{WORKER}/RunGraph")(run_graph("session", "handle", 8))
    assert proxy.status().counters.live_steps == 0


@pytest.mark.parametrize("way", ["Enqueue", "StreamingEnqueue"])
def test_a_component_function_has_dense_ranks(way: str, backend: Backend, client: Any, proxy: Proxy) -> None:
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: tensor(b"abcd")
    plans = {
        "": plan_by_hand({pull(0): ["edge_1_a", "edge_1_b"]}),
        "__inference_f_1": plan_by_hand({pull(0): ["edge_1_c", "edge_1_b", "edge_1_a"]}),
    }
    proxy.install(plans)
    name = "__inference_f_1_partitioned_55_0"
    register = component_function(name, send("s1", "a:o:0", pull(0)), send("s2", "b:o:0", pull(0)))
    recv = client.unary_unary(f"{WORKER}/RecvTensor")

    def tell(*items: tuple[int, bytes]) -> None:
        if way == "Enqueue":
            client.unary_unary(f"{EAGER}/Enqueue")(enqueue(9, *items))
        else:
            next(client.stream_stream(STREAM)(iter([enqueue(9, *items)])))

    tell((4, register))
    tell((2, encode((2, name), (7, True), (8, 3))))
    second = recv.future(recv_tensor(3, pull(0), "edge_1_a"))
    wait_until(lambda: proxy.status().counters.held == 1)
    recv(recv_tensor(3, pull(0), "edge_1_b"), timeout=5)
    second.result(timeout=5)
    tell((2, encode((2, name), (7, True), (8, 4))))
    held = recv.future(recv_tensor(4, pull(0), "edge_1_a"))
    wait_until(lambda: proxy.status().counters.held == 1)
    tell((5, encode((1, 4))))
    held.result(timeout=5)
    answer = proxy.hand_offs()
    found = [(answer.channels[h.channel].function, h.step, h.rank, h.reason) for h in answer.hand_offs]
    assert found == [
        (("__inference_f_1"), 3, 1, 0),
        ("__inference_f_1", 3, 2, 0),
        ("__inference_f_1", 4, 2, 1),
    ]


def test_a_deadline_lets_go(backend: Backend, client: Any, proxy: Proxy) -> None:
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: tensor(b"abcd")
    proxy.install(plan_by_hand({pull(0): ["edge_1_never", "edge_1_a", "edge_1_b"]}))
    proxy.configure(deadline_seconds=0.3)
    recv = client.unary_unary(f"{WORKER}/RecvTensor")
    start = time.monotonic()
    calls = [recv.future(recv_tensor(1, pull(0), f"edge_1_{name}"), timeout=20) for name in "ba"]
    assert [call.result() for call in calls] == [tensor(b"abcd")] * 2
    assert 0.3 <= time.monotonic() - start < 5
    assert [h.rank for h in proxy.hand_offs().hand_offs] == [1, 2]
    counters = proxy.status().counters
    assert (counters.released, counters.deadlines, counters.held) == (2, 1, 0)


def test_loops_malformed_requests_and_errors_pass(backend: Backend, client: Any, proxy: Proxy) -> None:
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: b"\xff"
    proxy.install(plan_by_hand({pull(0): ["edge_1_never", "edge_1_a"]}))
    recv = client.unary_unary(f"{WORKER}/RecvTensor")
    assert recv(b"\xff", timeout=5) == b"\xff"
    assert recv(recv_tensor(1, pull(0), "edge_1_a", "3:1"), timeout=5) == b"\xff"
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: context.abort(
        grpc.StatusCode.ABORTED, "Step 1"
    )
    with pytest.raises(grpc.RpcError) as caught:
        recv(recv_tensor(1, pull(0), "edge_1_a"), timeout=5)
    error: Any = caught.value
    assert (error.code(), error.details()) == (grpc.StatusCode.ABORTED, "Step 1")


def test_a_held_call_that_is_cancelled_keeps_no_other(backend: Backend, client: Any, proxy: Proxy) -> None:
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: tensor(b"abcd")
    proxy.install(plan_by_hand({pull(0): ["edge_1_a", "edge_1_b", "edge_1_c"]}))
    proxy.configure(deadline_seconds=100)
    recv = client.unary_unary(f"{WORKER}/RecvTensor")
    b, c = (recv.future(recv_tensor(1, pull(0), f"edge_1_{name}")) for name in "bc")
    wait_until(lambda: proxy.status().counters.held == 2)
    b.cancel()
    recv(recv_tensor(1, pull(0), "edge_1_a"), timeout=5)
    assert c.result(timeout=5) == tensor(b"abcd")
    assert proxy.status().counters.ordered == 3


def test_stopping_lets_go(backend: Backend, server: tuple[Any, str]) -> None:
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: tensor(b"abcd")
    proxy = Proxy.start("127.0.0.1:0", server[1])
    proxy.install(plan_by_hand({pull(0): ["edge_1_never", "edge_1_a"]}))
    proxy.configure(deadline_seconds=100)
    with grpc.insecure_channel(proxy.address) as channel:
        call = channel.unary_unary(f"{WORKER}/RecvTensor").future(recv_tensor(1, pull(0), "edge_1_a"))
        wait_until(lambda: proxy.status().counters.held == 1)
        proxy.stop()
        assert call.result(timeout=5) == tensor(b"abcd")
    Proxy.start(proxy.address, server[1]).stop()


def test_a_proxy_that_never_served_leaves_its_address() -> None:
    taken = Proxy("127.0.0.1:0")
    for _ in range(2):
        taken.stop()
    Proxy(taken.address).stop()
    with closing(socket.socket()) as client:
        assert client.connect_ex(("127.0.0.1", int(taken.address.rpartition(":")[2]))) == errno.ECONNREFUSED


def test_settings(proxy: Proxy) -> None:
    proxy.configure(enabled=False, deadline_seconds=2, bytes_per_second=1000)
    status = proxy.status()
    assert (status.enforcer, status.installed, status.enabled) == ("proxy", False, False)
    assert (status.deadline_seconds, status.bytes_per_second) == (2, 1000)
    for settings in ({"deadline_seconds": 0}, {"deadline_seconds": float("nan")}, {"bytes_per_second": 0.5}):
        with pytest.raises(EnforcerError, match="out of range"):
            proxy.configure(enabled=True, **settings)
    assert proxy.status() == status
    proxy.install(plan_by_hand({pull(0): ["edge_1_a"]}))
    assert proxy.status().installed
    proxy.remove()
    assert not proxy.status().installed


def test_pacing(backend: Backend, client: Any, proxy: Proxy) -> None:
    backend.answers[f"{WORKER}/RecvTensor"] = lambda request, context: tensor(bytes(1000))
    proxy.configure(bytes_per_second=20_000)
    recv = client.unary_unary(f"{WORKER}/RecvTensor")
    start = time.monotonic()
    calls = [recv.future(recv_tensor(1, pull(0), f"edge_{i}_a")) for i in range(10)]
    assert all(call.result(timeout=10) == tensor(bytes(1000)) for call in calls)
    assert 0.49 < time.monotonic() - start < 1.5


def test_an_address_in_use_or_malformed(proxy: Proxy) -> None:
    with pytest.raises(EnforcerError, match=proxy.address):
        Proxy(proxy.address)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EnforcerError, match=address):
            Proxy(address)
    with pytest.raises(EnforcerError, match="nowhere"):
        Proxy("nowhere.invalid:x")
