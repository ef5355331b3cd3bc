"""The client of the control service: installs plans in other processes, and asks what happened there."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import grpc

from tfwave.errors import EnforcerError
from tfwave.plan.message import to_proto
from tfwave.plan.plan import Plan, plans_by_function
from tfwave.proto import control_pb2, control_pb2_grpc
from tfwave.runtime.control.address import UNIX, check_address, grpc_target
from tfwave.runtime.control.credentials import Credentials
from tfwave.sizes import in_words

MESSAGE_BYTES = 32 << 20
"""The largest message has so many, either way: a plan of over 100,000 transfers. Bigger ones are refused unread."""
TRACE_SECONDS = 120.0
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),  # a server that was restarted is found soon
)

_GRPC: Any = grpc  # untyped
_STUBS: Any = control_pb2_grpc


def check_reach(address: str, credentials: Credentials | None) -> None:
    """Check that a service may listen, or be called, at an address with these credentials.

    Raises:
        EnforcerError: as `check_address`, or TLS on a unix socket.
    """
    check_address(address, guarded=credentials is not None)
    if address.startswith(UNIX) and credentials and (credentials.tls_cert or credentials.tls_ca):
        raise EnforcerError(
            f"control address '{address}' takes no TLS, the socket is its owner's: leave tls_cert, tls_key and "
            "tls_ca out"
        )


def open_channel(address: str, credentials: Credentials | None, options: Sequence[tuple[str, int]]) -> Any:
    """A channel of gRPC to a service, by TLS if the credentials have some; connects at the first call.

    Raises:
        EnforcerError: as `check_reach`, or a file of the credentials is not as it should be.
    """
    check_reach(address, credentials)
    tls = credentials and credentials.for_client()
    target = grpc_target(address)
    if tls:
        return _GRPC.secure_channel(target, tls, options=options)
    return _GRPC.insecure_channel(target, options=options)


class ControlClient:
    """Controls the hook of another process.

    Each call raises `EnforcerError` if the service is not there (at once), does not answer within `timeout`
    seconds, or refuses.
    """

    def __init__(self, address: str, timeout: float = 10, credentials: Credentials | None = None) -> None:
        """Connect at the first call.

        Args:
            address: ``host:port`` or ``unix:/path``.
            timeout: seconds that a call may take.
            credentials: what this end shows, and asks of the service; none are needed on loopback.

        Raises:
            EnforcerError: the address is malformed or on another machine without credentials; or a file of the
                credentials is not as it should be.
        """
        self._channel: Any = open_channel(address, credentials, CHANNEL_OPTIONS)
        self.address = address
        self._timeout = timeout
        self._metadata = credentials.metadata() if credentials else ()
        self._stub: Any = _STUBS.ControlStub(self._channel)

    def install(
        self,
        plans: Plan | Mapping[str, Plan],
        *,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
        lease_seconds: float = 0,
    ) -> control_pb2.Status:
        """Put one plan in force, or one for each function, as `Hook.install`; settings as in `Hook.configure`.

        With a lease, the plans are forgotten when the service hears of no one for so long.

        Raises:
            PlanError: neither a plan nor plans by function.
        """
        settings = _settings(enabled, deadline_seconds, bytes_per_second)
        request = control_pb2.InstallRequest(settings=settings, lease_seconds=lease_seconds)
        if isinstance(plans, Plan):
            request.plan.CopyFrom(to_proto(plans))
        else:
            for function, plan in plans_by_function(plans).items():
                request.plans.add(function=function, plan=to_proto(plan))
        return self._call("Install", request)

    def remove(self) -> control_pb2.Status:
        """Forget the plans."""
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
        hooked_tasks: Sequence[str] | None = None,
    ) -> control_pb2.Status:
        """Change settings, as in `Hook.configure`."""
        settings = _settings(enabled, deadline_seconds, bytes_per_second)
        if hooked_tasks is not None:
            settings.hooked_tasks.CopyFrom(control_pb2.HookedTasks(tasks=hooked_tasks))
        return self._call("Health", control_pb2.HealthRequest(settings=settings))

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        """What was handed off, from `cursor` on (0, or the last `next_cursor`)."""
        return self._call("Conformance", control_pb2.ConformanceRequest(cursor=cursor))

    def start_trace(self) -> control_pb2.Status:
        """Have the process note what its ops take and when tensors arrive: see `Tracer`."""
        return self._call("StartTrace", control_pb2.StartTraceRequest())

    def stop_trace(self) -> control_pb2.Trace:
        """End the trace; what was noted. Summing up takes seconds: the call may take `TRACE_SECONDS`."""
        return self._call("StopTrace", control_pb2.StopTraceRequest(), TRACE_SECONDS)

    def close(self) -> None:
        """Drop the connection."""
        self._channel.close()

    def __enter__(self) -> "ControlClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        if (size := request.ByteSize()) > MESSAGE_BYTES:
            raise EnforcerError(
                f"the plan takes {in_words(size)}, a control service takes {in_words(MESSAGE_BYTES)}: give it "
                "only the orders of the channels that it sends on"
            )
        with self._translated():
            call = getattr(self._stub, method)
            return call(request, timeout=timeout or self._timeout, metadata=self._metadata)

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except _GRPC.RpcError as err:
            failure: Any = err
            raise EnforcerError(self._explained(failure.code(), str(failure.details()))) from err

    def _explained(self, code: Any, details: str) -> str:
        codes = _GRPC.StatusCode
        if code == codes.INVALID_ARGUMENT:
            return details
        if code == codes.UNAUTHENTICATED:
            return (
                f"the control service at {self.address} refuses this client, {details}: give the token that it "
                "was started with"
            )
        if code == codes.RESOURCE_EXHAUSTED:
            return f"the control service at {self.address} has enough to do: {details}"
        return (
            f"no control service answers at {self.address}: is tfwave's Server up, with credentials that go with "
            f"these? ({code.name}: {' '.join(details.split())})"
        )


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
