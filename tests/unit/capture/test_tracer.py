"""Summing up a trace: op times from a profiler service made by hand, arrivals from a hook or the profiler."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import grpc
import pytest

from tests.unit.capture.test_xplane import CALL, CHANNEL, KEY, PROCESS, Space
from tfwave.errors import EnforcerError
from tfwave.proto.profiler_pb2 import ProfileRequest, ProfileResponse, TerminateRequest, TerminateResponse
from tfwave.runtime.hook import Arrival, Arrivals
from tfwave.runtime.trace import tracer as traced
from tfwave.runtime.trace.tracer import TRACE_SECONDS, Tracer

FUNCTION = "__inference_step_9"


class Service:
    """Answers with a trace as soon as it is asked, or may answer; keeps the requests."""

    def __init__(self, trace: bytes) -> None:
        self._trace = trace
        self.may_answer = Event()
        self.may_answer.set()
        self.requests: list[ProfileRequest] = []
        self.server: Any = grpc.server(ThreadPoolExecutor(2))
        handlers = {
            "Profile": grpc.unary_unary_rpc_method_handler(
                self.profile, ProfileRequest.FromString, ProfileResponse.SerializeToString
            ),
            "Terminate": grpc.unary_unary_rpc_method_handler(
                lambda *_: TerminateResponse(),
                TerminateRequest.FromString,
                TerminateResponse.SerializeToString,
            ),
        }
        service = grpc.method_handlers_generic_handler("tensorflow.ProfilerService", handlers)
        self.server.add_generic_rpc_handlers((service,))
        self.target = f"grpc://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def profile(self, request: ProfileRequest, _: Any) -> ProfileResponse:
        self.requests.append(request)
        self.may_answer.wait(60)
        return ProfileResponse(xspace=self._trace)


class Hook:
    """Logs arrivals while it is told to."""

    def __init__(self, *before: Arrival) -> None:
        self.on = False
        self.told_to_end = Event()
        self.log = list(before)

    def log_arrivals(self, on: bool) -> None:
        self.on = on
        if not on:
            self.told_to_end.set()

    def arrivals(self, cursor: int = 0) -> Arrivals:
        return Arrivals(len(self.log), 5, tuple(self.log[cursor:]))


def two_steps() -> bytes:
    """Op a runs twice, in 8 and 3 us; step 3's function began before the trace; one receive, of 20 us."""
    space = Space()
    line = space.thread()
    space.call(line, CALL, 0, 1, step=1)
    space.call(line, CALL, 2, 3, step=2)
    for step, begin, seconds in ((1, 10, 8), (2, 40, 3), (3, 70, 1)):
        space.event(line, PROCESS, begin, begin + 25, id=step)
        space.event(line, "a:MatMul", begin + 1, begin + 1 + seconds)
        if step == 2:
            space.event(line, "recv:_Recv", begin + 4, begin + 24, key=KEY)
    return space.serialized()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(two_steps())
    yield made
    made.server.stop(None).wait()


def arrival(step: int, edge: str, size: int = 8) -> Arrival:
    return Arrival(step, CHANNEL, edge, size, requested_nanos=100, arrived_nanos=300)


def test_ops_are_summed_up_by_function(service: Service) -> None:
    tracer = Tracer(service.target, None)
    tracer.start()
    trace = tracer.stop()
    assert dict(trace.functions) == {1: FUNCTION, 2: FUNCTION}
    (op,) = trace.ops
    assert (op.function, op.node, op.op, op.count) == (FUNCTION, "a", "MatMul", 2)
    assert (op.min_seconds, op.median_seconds) == (pytest.approx(3e-6), pytest.approx(5.5e-6))
    assert service.requests[0].opts.duration_ms == TRACE_SECONDS * 1000


def test_without_a_hook_arrivals_are_the_profilers(service: Service) -> None:
    tracer = Tracer(service.target, None)
    tracer.start()
    trace = tracer.stop()
    (found,) = trace.arrivals
    assert (found.step, found.edge, found.bytes) == (2, "edge_7_w/read", 0)
    assert (found.requested_nanos, found.arrived_nanos) == (44_000, 64_000)
    (channel,) = trace.channels
    assert (channel.source_device, channel.destination_device) == (CHANNEL.source, CHANNEL.destination)


def test_a_hook_tells_what_arrived_since_the_start(service: Service) -> None:
    hook: Any = Hook(arrival(0, "before"))
    tracer = Tracer(service.target, hook)
    tracer.start()
    assert hook.on
    hook.log += [arrival(1, "x", 8), arrival(2, "y", 9)]
    trace = tracer.stop()
    assert not hook.on
    assert [(a.step, a.edge, a.bytes, a.channel) for a in trace.arrivals] == [(1, "x", 8, 0), (2, "y", 9, 0)]
    assert len(trace.channels) == 1
    assert trace.dropped == 5
    hook.log.append(arrival(3, "between"))
    tracer.start()
    assert not tracer.stop().arrivals


def test_a_trace_that_nobody_stops_logs_no_more(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who began it was killed; what the hook has logged is there for who asks."""
    hook: Any = Hook()
    tracer = Tracer(service.target, hook)
    monkeypatch.setattr(traced, "TRACE_SECONDS", 0.05)
    tracer.start()
    hook.log.append(arrival(1, "x"))
    assert hook.told_to_end.wait(60)
    assert [a.edge for a in tracer.stop().arrivals] == ["x"]


def test_a_trace_is_stopped_once(service: Service) -> None:
    tracer = Tracer(service.target, None)
    with pytest.raises(EnforcerError, match="start one"):
        tracer.stop()
    service.may_answer.clear()
    tracer.start()
    with pytest.raises(EnforcerError, match="under way"):
        tracer.start()
    service.may_answer.set()
    tracer.stop()


def test_one_that_nobody_stopped_makes_way_for_the_next(service: Service) -> None:
    """Who began it was killed, and the trace is over: the job that comes next is traced."""
    hook: Any = Hook()
    tracer = Tracer(service.target, hook)
    tracer.start()
    hook.log.append(arrival(1, "before"))
    tracer.start()
    hook.log.append(arrival(2, "x"))
    assert [a.edge for a in tracer.stop().arrivals] == ["x"]
    assert len(service.requests) == 2


def test_its_end_does_not_end_the_next(service: Service) -> None:
    hook: Any = Hook()
    tracer = Tracer(service.target, hook)
    tracer.start()
    end = tracer._end
    tracer.start()
    assert end
    assert not end.is_alive()
    tracer.stop()
