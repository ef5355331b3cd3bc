"""Asking a profiler service: one that speaks as TensorFlow before 2.21 does, which writes its trace to a file."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.proto.profiler_pb2 import ProfileRequest, ProfileResponse, TerminateRequest, TerminateResponse
from tfwave.runtime.trace import profiler as module
from tfwave.runtime.trace.profiler import Profiler


class OldService:
    """Traces until it is told to end; `sees_files` is false for one on another machine."""

    def __init__(self, sees_files: bool) -> None:
        self._sees_files = sees_files
        self._ended = threading.Event()
        self.requests: list[ProfileRequest] = []
        self.server: Any = grpc.server(ThreadPoolExecutor(4))
        handlers = {
            "Profile": grpc.unary_unary_rpc_method_handler(
                self.profile, ProfileRequest.FromString, ProfileResponse.SerializeToString
            ),
            "Terminate": grpc.unary_unary_rpc_method_handler(
                self.terminate, TerminateRequest.FromString, TerminateResponse.SerializeToString
            ),
        }
        service = grpc.method_handlers_generic_handler("tensorflow.ProfilerService", handlers)
        self.server.add_generic_rpc_handlers((service,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def profile(self, request: ProfileRequest, _: Any) -> ProfileResponse:
        self.requests.append(request)
        self._ended.wait(10)
        if self._sees_files:
            folder = Path(request.repository_root) / request.session_id
            folder.mkdir()
            (folder / f"{request.host_name}.xplane.pb").write_bytes(b"trace")
        return ProfileResponse()

    def terminate(self, request: TerminateRequest, _: Any) -> TerminateResponse:
        if self.requests and request.session_id == self.requests[-1].session_id:
            self._ended.set()
        return TerminateResponse()

    def close(self) -> None:
        stopped = self.server.stop(None)  # breaks off the calls under way
        self._ended.set()
        stopped.wait()


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[OldService]:
    made = OldService(sees_files=request.param)
    yield made
    made.close()


@pytest.mark.parametrize("service", [True], indirect=True)
def test_the_trace_of_an_old_server_on_this_machine(service: OldService) -> None:
    with Profiler(f"grpc://127.0.0.1:{service.port}") as profiler:
        profiler.start(seconds=2.5)
        assert profiler.stop() == b"trace"
    (request,) = service.requests
    assert request.opts.duration_ms == 2500
    assert request.opts.host_tracer_level == 3
    assert request.emit_xspace
    assert not Path(request.repository_root).exists()


@pytest.mark.parametrize("service", [False], indirect=True)
def test_the_trace_of_an_old_server_elsewhere(service: OldService) -> None:
    with Profiler(f"127.0.0.1:{service.port}") as profiler:
        profiler.start()
        with pytest.raises(EnvironmentUnsupported, match=r"older than 2\.21 .* trace it from there"):
            profiler.stop()
        with pytest.raises(EnforcerError, match="no trace"):
            profiler.stop()
    assert not Path(service.requests[0].repository_root).exists()


@pytest.mark.parametrize("service", [True], indirect=True)
def test_a_server_that_dies(service: OldService) -> None:
    with Profiler(f"127.0.0.1:{service.port}") as profiler:
        profiler.start()
        service.close()
        with pytest.raises(EnforcerError, match="cannot be traced"):
            profiler.stop()
        with pytest.raises(EnforcerError, match="is it up"):
            profiler.start()


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), 3601])
def test_seconds_out_of_range(seconds: float) -> None:
    with Profiler("127.0.0.1:1") as profiler, pytest.raises(EnforcerError, match="out of range"):
        profiler.start(seconds)


def test_no_server() -> None:
    with Profiler("127.0.0.1:1") as profiler, pytest.raises(EnforcerError, match="is it up"):
        profiler.start()


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        profiler = Profiler(f"127.0.0.1:{silent.getsockname()[1]}")
        with profiler, pytest.raises(EnforcerError, match="DEADLINE_EXCEEDED"):
            profiler.start()
