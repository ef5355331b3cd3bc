"""The control service: how a plan reaches the hook of another process, and how what happened comes back."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import grpc

from tfwave.errors import EnforcerError, TfwaveError
from tfwave.plan.io import from_proto, to_proto
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2, control_pb2_grpc
from tfwave.runtime.address import UNIX, check_address, refuse_taken_socket

MESSAGE_BYTES = 64 << 20

_GRPC: Any = grpc  # untyped
_STUBS: Any = control_pb2_grpc
_OPTIONS = (
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
)


class Controlled(Protocol):
    """What a control service speaks for: `tfwave.runtime.hook.Hook`."""

    def install(self, plan: Plan) -> None: ...
    def remove(self) -> None: ...
    def configure(
        self,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
    ) -> None: ...
    def status(self) -> control_pb2.Status: ...
    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs: ...


class ControlServer:
    """A control service that listens until `stop`."""

    def __init__(self, server: Any, address: str) -> None:
        self._server = server
        self.address = address
        """Where clients reach it: ``host:port`` with the true port, or ``unix:/path``."""

    def stop(self) -> None:
        """End it; calls under way get a second to finish."""
        self._server.stop(1.0).wait()
        if self.address.startswith(UNIX):
            Path(self.address.removeprefix(UNIX)).unlink(missing_ok=True)


def serve(hook: Controlled, address: str = "127.0.0.1:0") -> ControlServer:
    """Let other processes of this machine control `hook`.

    Args:
        hook: what is controlled.
        address: ``127.0.0.1:port`` (0: the system chooses) or ``unix:/path`` (readable by its owner only).

    Raises:
        EnforcerError: the address is not on this machine, malformed or in use.
    """
    check_address(address)
    refuse_taken_socket(address)
    server = _GRPC.server(ThreadPoolExecutor(4, thread_name_prefix="tfwave-control"), options=_OPTIONS)
    _STUBS.add_ControlServicer_to_server(_Service(hook), server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if port == 0:
        raise EnforcerError(f"control address '{address}' is in use or not writable: give another")
    if address.startswith(UNIX):
        Path(address.removeprefix(UNIX)).chmod(0o600)
    server.start()
    bound = address if address.startswith(UNIX) else f"{address.rpartition(':')[0]}:{port}"
    return ControlServer(server, bound)


class _Service(control_pb2_grpc.ControlServicer):
    def __init__(self, hook: Controlled) -> None:
        self._hook = hook
        self._changing = threading.Lock()

    def Install(self, request: control_pb2.InstallRequest, context: Any) -> control_pb2.Status:  # noqa: N802
        def install() -> None:
            plan = from_proto(request.plan)
            self._apply(request.settings)
            self._hook.install(plan)

        return self._change(install, context)

    def Remove(self, request: control_pb2.RemoveRequest, context: Any) -> control_pb2.Status:  # noqa: N802
        return self._change(self._hook.remove, context)

    def Health(self, request: control_pb2.HealthRequest, context: Any) -> control_pb2.Status:  # noqa: N802
        return self._change(lambda: self._apply(request.settings), context)

    def Conformance(self, request: control_pb2.ConformanceRequest, context: Any) -> control_pb2.HandOffs:  # noqa: N802
        return self._hook.hand_offs(request.cursor)

    def _change(self, change: Callable[[], None], context: Any) -> control_pb2.Status:
        try:
            with self._changing:
                change()
        except TfwaveError as err:
            context.abort(_GRPC.StatusCode.INVALID_ARGUMENT, str(err))
        return self._hook.status()

    def _apply(self, settings: control_pb2.Settings) -> None:
        names = ("enabled", "deadline_seconds", "bytes_per_second")
        self._hook.configure(**{name: getattr(settings, name) for name in names if settings.HasField(name)})


class ControlClient:
    """Controls the hook of another process of this machine.

    Each call raises `EnforcerError` if the service is not there (at once), does not answer within `timeout`
    seconds, or refuses.
    """

    def __init__(self, address: str, timeout: float = 10) -> None:
        check_address(address)
        self.address = address
        self._timeout = timeout
        self._channel: Any = _GRPC.insecure_channel(address, options=_OPTIONS)
        self._stub: Any = _STUBS.ControlStub(self._channel)

    def install(
        self,
        plan: Plan,
        *,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
    ) -> control_pb2.Status:
        """Put a plan in force; settings as in `Hook.configure`."""
        settings = _settings(enabled, deadline_seconds, bytes_per_second)
        return self._call("Install", control_pb2.InstallRequest(plan=to_proto(plan), settings=settings))

    def remove(self) -> control_pb2.Status:
        """Forget the plan."""
        return self._call("Remove", control_pb2.RemoveRequest())

    def health(self) -> control_pb2.Status:
        """Settings and counters, now."""
        return self._call("Health", control_pb2.HealthRequest())

    def configure(
        self,
        *,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
    ) -> control_pb2.Status:
        """Change settings, as in `Hook.configure`."""
        settings = _settings(enabled, deadline_seconds, bytes_per_second)
        return self._call("Health", control_pb2.HealthRequest(settings=settings))

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        """What was handed off, from `cursor` on (0, or the last `next_cursor`)."""
        return self._call("Conformance", control_pb2.ConformanceRequest(cursor=cursor))

    def close(self) -> None:
        """Drop the connection."""
        self._channel.close()

    def __enter__(self) -> "ControlClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, request: Any) -> Any:
        with self._translated():
            return getattr(self._stub, method)(request, timeout=self._timeout)

    @contextmanager
    def _translated(self) -> Generator[None]:
        gone = f"no control service answers at {self.address}: is tfwave's Server up?"
        try:
            yield
        except _GRPC.RpcError as err:
            failure: Any = err
            if failure.code() == _GRPC.StatusCode.INVALID_ARGUMENT:
                raise EnforcerError(str(failure.details())) from err
            raise EnforcerError(f"{gone} ({failure.code().name})") from err


def _settings(
    enabled: bool | None, deadline_seconds: float | None, bytes_per_second: float | None
) -> control_pb2.Settings:
    settings = control_pb2.Settings()
    if enabled is not None:
        settings.enabled = enabled
    if deadline_seconds is not None:
        settings.deadline_seconds = deadline_seconds
    if bytes_per_second is not None:
        settings.bytes_per_second = bytes_per_second
    return settings
