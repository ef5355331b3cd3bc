"""What peers say, and what must hold whatever it is: nothing but a refusal, nothing for ever, nothing half done."""

import contextlib
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from tests.controlled import open_channel, raw_call
from tests.fuzz.any_message import TEXTS, any_message
from tests.fuzz.damage import damaged
from tests.fuzz.invariants import attempt, time_limit
from tests.plans import plan_by_hand
from tfwave.capture.worker_trace import TaskTrace
from tfwave.graph.names import Channel
from tfwave.plan.message import to_proto
from tfwave.proto import control_pb2, reduce_pb2
from tfwave.reduce.arrivals import KEY_BYTES, call
from tfwave.reduce.coordinator import Inbox, coordinate
from tfwave.reduce.peer import Peer
from tfwave.reduce.service import fault_of
from tfwave.report.conformance import conformance, read_hand_offs
from tfwave.runtime.control.service import serve
from tfwave.runtime.proxy.enforcer import Proxy

REQUESTS: dict[str, type[Message]] = {
    "Install": control_pb2.InstallRequest,
    "Remove": control_pb2.RemoveRequest,
    "Health": control_pb2.HealthRequest,
    "Conformance": control_pb2.ConformanceRequest,
    "StartTrace": control_pb2.StartTraceRequest,
    "StopTrace": control_pb2.StopTraceRequest,
}
TASK = "/job:worker/replica:0/task:0"
MOST_REPORTS = 40
KEY = b"k" * KEY_BYTES
"""Of each member."""
SECONDS = 0.05
"""What is to be called is on this machine, or nowhere."""

_CODES: Any = grpc.StatusCode


@dataclass(frozen=True)
class Target:
    """A control service, and the enforcer that it speaks for."""

    proxy: Proxy
    channel: Any

    def call(self, method: str, body: bytes) -> Any:
        """One call, done or failed; what comes too often waits as long as it is told to."""
        while True:
            done = raw_call(self.channel, method, body)
            waits = [
                value for key, value in done.trailing_metadata() or () if key == "grpc-retry-pushback-ms"
            ]
            if not waits:
                return done
            time.sleep(int(waits[0]) / 1e3)


@contextmanager
def control_target() -> Generator[Target]:
    """An enforcer that needs no TensorFlow, and its control service."""
    proxy = Proxy("127.0.0.1:0")
    service = serve(proxy)
    try:
        with open_channel(service.address) as channel:
            yield Target(proxy, channel)
    finally:
        service.stop()
        proxy.stop()


def check_control(rng: random.Random, target: Target) -> None:
    """A call is done or refused, never failed; what is refused changes nothing."""
    method = rng.choice((*REQUESTS, "Install", "Install", "Health"))
    body = _any_request(rng, method).SerializeToString()
    if rng.random() < 0.3:
        body = damaged(rng, body)
    before = _state(target.proxy)
    code = target.call(method, body).code()
    if code == _CODES.OK:
        if method == "Install":
            assert target.call("Remove", b"").code() == _CODES.OK  # and with the plans their lease
        return
    assert code == _CODES.INVALID_ARGUMENT or not _is_message(REQUESTS[method], body), (method, code, body)
    assert _state(target.proxy) == before, (method, body)


def _any_request(rng: random.Random, method: str) -> Message:
    request: Any = any_message(rng, REQUESTS[method])
    if method == "Install" and rng.random() < 0.7:
        sound = to_proto(plan_by_hand({Channel("a", "b"): rng.sample(("u", "v", "w"), rng.randint(1, 3))}))
        if rng.random() < 0.5:
            del request.plans[:]
            request.plan.CopyFrom(sound)
        else:
            request.ClearField("plan")
            for one in request.plans:
                one.plan.CopyFrom(sound)
    return request


def _state(proxy: Proxy) -> tuple[Any, ...]:
    status = proxy.status()
    return status.installed, status.enabled, status.deadline_seconds, status.bytes_per_second


def _is_message(kind: type[Message], body: bytes) -> bool:
    try:
        kind.FromString(body)
    except DecodeError:
        return False
    return True


def check_hand_offs(answer: control_pb2.HandOffs) -> None:
    """What a control service answers is understood or refused."""
    read = attempt(lambda: read_hand_offs(answer, lambda function, channel: f"{function} {channel}"))
    if read is not None:
        with time_limit():
            assert conformance(read).hand_offs == len(answer.hand_offs)


def check_trace(trace: control_pb2.Trace) -> None:
    """Likewise."""
    read = attempt(lambda: TaskTrace.of(TASK, trace))
    assert read is None or sum(len(records) for _, records in read.steps) == len(trace.arrivals)


def check_answers(rng: random.Random) -> None:
    """Any of them."""
    check_hand_offs(any_message(rng, control_pb2.HandOffs))
    check_trace(any_message(rng, control_pb2.Trace))


def any_hello(rng: random.Random) -> reduce_pb2.Hello:
    """Of a member: mostly one that is taken, with some field out of the way."""
    sound = reduce_pb2.Hello(
        rank=rng.randint(0, 2),
        workers=rng.choice((1, 1, 2, 3)),
        address="127.0.0.1:1",
        layout="4 float32",
        probes=rng.choice((0, 1, 2, 2**32 - 1)),
        deadline_seconds=rng.choice((1e-300, 0.001, 30)),
        patience_seconds=rng.choice((1e-300, 0.001, 300)),
        key=KEY,
    )
    if rng.random() < 0.4:
        wild = any_message(rng, reduce_pb2.Hello)
        field = rng.choice(list(reduce_pb2.Hello.DESCRIPTOR.fields_by_name))
        setattr(sound, field, getattr(wild, field))
    return sound


def check_reduces(rng: random.Random) -> None:
    """The coordinator outlives what any members say, and says nothing to a member that is out."""
    hellos = [any_hello(rng) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.5:
        hellos = [reduce_pb2.Hello.FromString(hellos[0].SerializeToString()) for _ in hellos]
    reports: list[tuple[int, reduce_pb2.Report | None]] = []
    for _ in range(rng.randint(0, MOST_REPORTS)):
        report = any_message(rng, reduce_pb2.Report)
        report.ClearField("hello")
        if rng.random() < 0.5:
            report.attempt, report.done = rng.randint(0, 3), True
        report.has_state |= rng.random() < 0.5
        reports.append((rng.randrange(len(hellos)), report if rng.random() < 0.9 else None))
    check_members(hellos, reports)


def check_members(
    hellos: list[reduce_pb2.Hello], reports: list[tuple[int, reduce_pb2.Report | None]]
) -> None:
    """These come one after the other, say this (None: they leave), and are told an end."""
    inbox, ended = Inbox(), list[bool]()
    peers = [Peer(number, hello) for number, hello in enumerate(hellos, 1)]
    taken = [peer for peer in peers if fault_of(peer.hello) is None]
    for peer in taken:
        inbox.put((peer, reduce_pb2.Report(hello=peer.hello)))
    for which, report in reports:
        if peers[which] in taken:
            inbox.put((peers[which], report))
    inbox.put((None, None))
    with time_limit():
        coordinate(inbox, lambda: ended.append(True))
    assert ended
    for peer in taken:
        told = [peer.orders.get() for _ in range(peer.orders.qsize())]
        assert None not in told[:-1], "something was said behind the end"


def check_address(address: str) -> None:
    """Whoever is called there, by another member's word: it is a failure to connect."""
    with time_limit(), contextlib.suppress(OSError):
        call(address, KEY, SECONDS).close()


def any_address(rng: random.Random) -> str:
    """Of this machine, or of none."""
    return rng.choice((*TEXTS[-8:], f"127.0.0.1:{rng.choice(('', '-1', '²', '0x1', '1 ', 1))}", "\ud800:1"))
