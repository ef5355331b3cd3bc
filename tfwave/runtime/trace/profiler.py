"""Tracing what a TensorFlow server runs, over the profiler service that each of them has at its own port."""

import math
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

import grpc

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.proto.profiler_pb2 import ProfileOptions, ProfileRequest, ProfileResponse, TerminateRequest

DEFAULT_SECONDS = 60.0
MAX_SECONDS = 3600.0

_GRPC: Any = grpc  # untyped
_SERVICE = "/tensorflow.ProfilerService/"
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0))
_VERBOSE = 3  # below it, TensorFlow leaves out cheap ops
_CONNECT_SECONDS = 5.0
_BEGIN_SECONDS = 0.1  # a refusal, or the begin of the trace, takes a round trip
_LAST_EVENTS_SECONDS = 0.05
"""A step returns a moment before the threads that ran it end their events; what has not ended is not in a trace."""
_ANSWER_SECONDS = 60.0
_HOST = "host"
_NO_SESSION = "tfwave"


class Profiler:
    """Traces all that the process of a TensorFlow server runs, stock servers too, from that process or another.

    It asks over gRPC because `tf.profiler.experimental.start` ignores the level of detail in TensorFlow 2.20 and
    2.21. The server ends a trace by itself when its time is over, and when the one who asked is gone.

    Servers before 2.21 write the trace to a file instead of answering with it: trace those from their own machine.
    """

    def __init__(self, address: str) -> None:
        """Trace the server at `address`, ``host:port`` or a target such as ``grpc://host:port``."""
        self.address = address.rpartition("://")[2]
        self._channel: Any = _GRPC.insecure_channel(self.address, options=_OPTIONS)
        self._profile: Any = self._channel.unary_unary(
            f"{_SERVICE}Profile", ProfileRequest.SerializeToString, ProfileResponse.FromString
        )
        self._terminate: Any = self._channel.unary_unary(
            f"{_SERVICE}Terminate", TerminateRequest.SerializeToString
        )
        self._asked: _Asked | None = None

    def start(self, seconds: float = DEFAULT_SECONDS) -> None:
        """Begin a trace.

        Args:
            seconds: after which it ends by itself; it is kept for `stop`, until another begins.

        Raises:
            EnforcerError: the server is not there, or is being traced already; or seconds are out of range.
        """
        if not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
            raise EnforcerError(
                f"a trace of {seconds} s is out of range: give 0 < seconds <= {MAX_SECONDS:g}"
            )
        if self._asked:
            self._forget_ended(self._asked)
        self._connect()
        self._asked = self._ask(seconds)
        try:
            with self._translated(), suppress(_GRPC.FutureTimeoutError):
                self._asked.call.result(timeout=_BEGIN_SECONDS)
        except EnforcerError:
            self._forget(self._asked)
            raise

    def stop(self) -> bytes:
        """End the trace, if its time has not; a serialized XSpace, for `tfwave.runtime.trace.xplane.read_trace`.

        Raises:
            EnforcerError: none was begun, or the server is gone.
            EnvironmentUnsupported: the server is older than 2.21 and on another machine.
        """
        asked = self._asked
        if not asked:
            raise EnforcerError(f"no trace of the server at {self.address} is under way: start one")
        try:
            with self._translated():
                if not asked.call.done():
                    time.sleep(_LAST_EVENTS_SECONDS)
                    self._terminate(TerminateRequest(session_id=asked.session), timeout=_ANSWER_SECONDS)
                response: ProfileResponse = asked.call.result(timeout=_ANSWER_SECONDS)
            return response.xspace or self._written(asked)
        finally:
            self._forget(asked)

    def cancel(self) -> None:
        """End the trace, if one is under way, and throw it away."""
        with suppress(EnforcerError, EnvironmentUnsupported):
            self.stop()

    def close(self) -> None:
        """Cancel, and drop the connection."""
        self.cancel()
        self._channel.close()

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> None:
        """See that the server is there: a trace that begins must not wait for a connection first."""
        with self._translated():
            self._terminate(TerminateRequest(session_id=_NO_SESSION), timeout=_CONNECT_SECONDS)

    def _ask(self, seconds: float) -> "_Asked":
        folder = tempfile.TemporaryDirectory(prefix="tfwave-trace-")
        session = uuid4().hex  # not used twice: a server remembers those that were told to end
        request = ProfileRequest(
            opts=ProfileOptions(
                version=1, host_tracer_level=_VERBOSE, duration_ms=max(1, round(seconds * 1000))
            ),
            repository_root=folder.name,
            session_id=session,
            host_name=_HOST,
            emit_xspace=True,
        )
        return _Asked(session, folder, self._profile.future(request, timeout=seconds + _ANSWER_SECONDS))

    def _forget_ended(self, asked: "_Asked") -> None:
        """Who began it may be gone; one that still runs is refused."""
        if not asked.call.done():
            raise EnforcerError(f"a trace of the server at {self.address} is under way: stop it first")
        self._forget(asked)

    def _forget(self, asked: "_Asked") -> None:
        asked.call.cancel()
        asked.folder.cleanup()
        self._asked = None

    def _written(self, asked: "_Asked") -> bytes:
        """What a server before 2.21 wrote."""
        try:
            return (Path(asked.folder.name) / asked.session / f"{_HOST}.xplane.pb").read_bytes()
        except OSError as err:
            raise EnvironmentUnsupported(
                f"the TensorFlow server at {self.address} is older than 2.21 and keeps its trace on its own "
                "machine: trace it from there"
            ) from err

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except _GRPC.FutureTimeoutError as err:
            raise EnforcerError(f"the TensorFlow server at {self.address} does not end its trace") from err
        except _GRPC.RpcError as err:
            failure: Any = err
            why = f"{failure.code().name}: {failure.details()}"
            raise EnforcerError(
                f"the TensorFlow server at {self.address} cannot be traced ({why}): "
                "is it up, and does nobody else trace it?"
            ) from err


@dataclass(frozen=True)
class _Asked:
    session: str
    folder: tempfile.TemporaryDirectory[str]
    call: Any
