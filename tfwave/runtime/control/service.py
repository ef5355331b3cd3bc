"""The control service: how a plan reaches the hook of another process, and how what happened comes back."""

import logging
import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import grpc

from tfwave.errors import EnforcerError, TfwaveError
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2, control_pb2_grpc
from tfwave.runtime.control.address import UNIX, grpc_target, is_of_this_machine, refuse_taken_socket
from tfwave.runtime.control.client import CHANNEL_OPTIONS, check_reach
from tfwave.runtime.control.credentials import Credentials
from tfwave.runtime.control.gate import BURST, CALLS_PER_SECOND, Gate, RateLimit, RefusalLog
from tfwave.runtime.control.lease import Lease
from tfwave.runtime.control.limits import DEFAULT_LIMITS, ControlLimits, lease_of, plans_of, settings_of

CONCURRENT_CALLS = 2 * BURST
"""So many calls may be accepted and not yet answered; gRPC refuses the next ones."""

_log = logging.getLogger("tfwave")
_THREADS = 4  # no more messages than this are in memory
_NOTICE_DEATH = ("grpc.keepalive_time_ms", 60_000)  # of a caller, in the middle of a call

_GRPC: Any = grpc  # untyped
_STUBS: Any = control_pb2_grpc


class Controlled(Protocol):
    """What a control service speaks for: `tfwave.runtime.hook.Hook`."""

    def install(self, plans: Plan | Mapping[str, Plan], /) -> None: ...
    def remove(self) -> None: ...
    def configure(
        self,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
        hooked_tasks: Sequence[str] | None = None,
    ) -> None: ...
    def status(self) -> control_pb2.Status: ...
    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs: ...


class Traced(Protocol):
    """What a control service traces with: `tfwave.runtime.trace.tracer.Tracer`."""

    def start(self) -> None: ...
    def stop(self) -> control_pb2.Trace: ...


class ControlServer:
    """A control service that listens until `stop`."""

    def __init__(self, server: Any, service: "_Service", address: str) -> None:
        self._server = server
        self._service = service
        self.address = address
        """Where it listens: ``host:port`` with the true port, or ``unix:/path``."""

    def trace_with(self, tracer: Traced) -> None:
        """Let callers trace from now on: the TensorFlow server starts after the control service."""
        self._service.tracer = tracer

    def stop(self) -> None:
        """End it, and the lease of its plans; calls under way get a second to finish."""
        self._server.stop(1.0).wait()
        self._service.end_lease()
        if self.address.startswith(UNIX):
            Path(self.address.removeprefix(UNIX)).unlink(missing_ok=True)


def serve(
    hook: Controlled,
    address: str = "127.0.0.1:0",
    credentials: Credentials | None = None,
    limits: ControlLimits = DEFAULT_LIMITS,
) -> ControlServer:
    """Let other processes control `hook`.

    Calls are limited in size (`MESSAGE_BYTES`), in rate (`tfwave.runtime.control.gate`) and in number at a time
    (`CONCURRENT_CALLS`): beyond it they are refused with RESOURCE_EXHAUSTED. A plan is checked whole before the
    hook sees it. The logger "tfwave.control" tells what was refused, but for what gRPC
    refuses by itself: a failed TLS handshake, too large a message, too many calls at a time.

    Args:
        hook: what is controlled.
        address: ``host:port`` (port 0: the system chooses) or ``unix:/path`` (readable by its owner only).
            Without credentials, the host must be loopback.
        credentials: what a caller must prove; None: any process of this machine may call.
        limits: what a caller may set.

    Raises:
        EnforcerError: the address is open to other machines without credentials, malformed or in use; or a
            file of the credentials is not as it should be.
    """
    check_reach(address, credentials)
    refuse_taken_socket(address)
    log = RefusalLog()
    gate = Gate(credentials and credentials.token, RateLimit(CALLS_PER_SECOND, BURST), log)
    server = _GRPC.server(
        ThreadPoolExecutor(_THREADS, thread_name_prefix="tfwave-control"),
        interceptors=(gate,),
        options=(*CHANNEL_OPTIONS, _NOTICE_DEATH),
        maximum_concurrent_rpcs=CONCURRENT_CALLS,
    )
    service = _Service(hook, log, limits)
    _STUBS.add_ControlServicer_to_server(service, server)
    port = _bind(server, address, credentials and credentials.for_server())
    server.start()
    bound = address if address.startswith(UNIX) else f"{address.rpartition(':')[0]}:{port}"
    return ControlServer(server, service, bound)


def _bind(server: Any, address: str, tls: Any) -> int:
    """Listen; a unix socket is its owner's from the start."""
    mask = os.umask(0o177) if address.startswith(UNIX) else None
    target = grpc_target(address)
    try:
        port = server.add_secure_port(target, tls) if tls else server.add_insecure_port(target)
    except RuntimeError:
        port = 0
    finally:
        if mask is not None:
            os.umask(mask)
    if port == 0:
        raise EnforcerError(f"control address '{address}' is in use or not of this machine: give another")
    return port


class _Service(control_pb2_grpc.ControlServicer):
    def __init__(self, hook: Controlled, log: RefusalLog, limits: ControlLimits) -> None:
        self._hook = hook
        self._limits = limits
        self._log = log
        self._changing = threading.Lock()
        self._lease = Lease(self._expire)
        self.tracer: Traced | None = None

    def Install(self, request: control_pb2.InstallRequest, context: Any) -> control_pb2.Status:  # noqa: N802
        def install() -> None:
            plans, lease = plans_of(request), lease_of(request.lease_seconds)
            settings = self._checked(request.settings, context)
            self._hook.install(plans)
            try:
                self._hook.configure(**settings)
                self._lease.grant(lease)
            except BaseException:
                self._forget()
                raise

        return self._change("Install", install, context)

    def Remove(self, request: control_pb2.RemoveRequest, context: Any) -> control_pb2.Status:  # noqa: N802
        return self._change("Remove", self._forget, context)

    def Health(self, request: control_pb2.HealthRequest, context: Any) -> control_pb2.Status:  # noqa: N802
        def configure() -> None:
            self._hook.configure(**self._checked(request.settings, context))

        return self._change("Health", configure, context)

    def Conformance(self, request: control_pb2.ConformanceRequest, context: Any) -> control_pb2.HandOffs:  # noqa: N802
        with self._refusing("Conformance", context):
            return self._hook.hand_offs(request.cursor)

    def StartTrace(self, request: control_pb2.StartTraceRequest, context: Any) -> control_pb2.Status:  # noqa: N802
        return self._change("StartTrace", lambda: self._traced().start(), context)

    def StopTrace(self, request: control_pb2.StopTraceRequest, context: Any) -> control_pb2.Trace:  # noqa: N802
        with self._refusing("StopTrace", context):
            return self._traced().stop()

    def _forget(self) -> None:
        """No plan is in force, and no lease runs."""
        self._hook.remove()
        self._lease.grant(0)

    def _checked(self, message: control_pb2.Settings, context: Any) -> dict[str, Any]:
        """Settings that this caller may set; all are checked before anything is changed."""
        settings = settings_of(message)
        self._limits.check(settings, is_of_this_machine(context.peer()))
        return settings

    def _traced(self) -> Traced:
        if self.tracer is None:
            raise EnforcerError("this process cannot be traced: it runs no TensorFlow server of tfwave's")
        return self.tracer

    def _change(self, method: str, change: Callable[[], None], context: Any) -> control_pb2.Status:
        with self._refusing(method, context):
            change()
        return self._hook.status()

    @contextmanager
    def _refusing(self, method: str, context: Any) -> Generator[None]:
        """One change or reading at a time; what it raises is the caller's."""
        self._lease.renew()
        try:
            with self._changing:
                yield
        except TfwaveError as err:
            self._log.refused(method, context.peer(), str(err))
            context.abort(_GRPC.StatusCode.INVALID_ARGUMENT, str(err))

    def end_lease(self) -> None:
        """What is in force then is not of its callers."""
        with self._changing:
            self._lease.grant(0)

    def _expire(self) -> None:
        with self._changing:
            if not self._lease.ran_out:
                return  # other plans came while this one waited
            self._hook.remove()
        _log.warning("tfwave: the plans are forgotten: who installed them has not been heard of")
