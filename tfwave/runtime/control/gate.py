"""Who gets through to a control service, and how often."""

import hmac
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from tfwave.runtime.control.credentials import TOKEN_HEADER, token_header

CALLS_PER_SECOND = 200.0
BURST = 256
"""So many calls may come at once, before `CALLS_PER_SECOND` holds."""
LOG_LINES_PER_SECOND = 10.0
LOG_BURST = 20

_GRPC: Any = grpc  # untyped
_RETRY_HEADER = "grpc-retry-pushback-ms"
_LOGGER = logging.getLogger("tfwave.control")


class RateLimit:
    """A token bucket: `per_second` in the long run, `burst` at once."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left = float(burst)
        self._then = clock()

    def wait_seconds(self) -> float:
        """Take one, and say 0; or take none, and say how long it is until there is one."""
        with self._lock:
            now = self._clock()
            self._left = min(self._burst, self._left + (now - self._then) * self.per_second)
            self._then = now
            if self._left < 1:
                return (1 - self._left) / self.per_second
            self._left -= 1
            return 0.0


class RefusalLog:
    """Tells the logger "tfwave.control" who was refused what and why, at a rate that fills no disk."""

    def __init__(self) -> None:
        self._limit = RateLimit(LOG_LINES_PER_SECOND, LOG_BURST)
        self._lock = threading.Lock()
        self._unsaid = 0

    def refused(self, method: str, peer: str, why: str) -> None:
        """Log one refusal; the text is quoted, as a client may have chosen it."""
        with self._lock:
            if self._limit.wait_seconds():
                self._unsaid += 1
                return
            unsaid, self._unsaid = self._unsaid, 0
        more = f" ({unsaid} more were refused before)" if unsaid else ""
        _LOGGER.warning("refused %r from %s: %r%s", method, peer, why, more)


@dataclass(frozen=True)
class _Refusal:
    code: Any
    why: str
    retry_seconds: float = 0.0


class Gate(_GRPC.ServerInterceptor):
    """Lets a call through, or refuses it before its request is read.

    1. A token is asked for, and the call has none or another: UNAUTHENTICATED.
    2. More calls than the limit: RESOURCE_EXHAUSTED, with the time to wait in the text and, as gRPC's
       clients understand it, in the metadata ``grpc-retry-pushback-ms``. Calls of case 1 do not count: a
       stranger cannot use up the rate of those with a token.
    3. Others pass.
    """

    def __init__(self, token: str | None, limit: RateLimit, log: RefusalLog) -> None:
        self._token = token
        self._limit = limit
        self._log = log

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        """As gRPC asks: the handler of a call."""
        refusal = self._refusal(handler_call_details)
        if refusal is None:
            return continuation(handler_call_details)
        return self._refuse(handler_call_details.method, refusal)

    def _refusal(self, details: Any) -> _Refusal | None:
        why = self._not_the_token(dict(details.invocation_metadata).get(TOKEN_HEADER))
        if why is not None:
            return _Refusal(_GRPC.StatusCode.UNAUTHENTICATED, why)
        wait = self._limit.wait_seconds()
        if wait:
            why = f"more than {self._limit.per_second:g} calls a second: try again in {wait:.3f} s"
            return _Refusal(_GRPC.StatusCode.RESOURCE_EXHAUSTED, why, wait)
        return None

    def _not_the_token(self, header: str | None) -> str | None:
        if self._token is None:
            return None
        if header is None:
            return "no token was given"
        same = hmac.compare_digest(header.encode(), token_header(self._token).encode())
        return None if same else "the token is wrong"

    def _refuse(self, method: str, refusal: _Refusal) -> Any:
        def abort(_: Any, context: Any) -> None:
            self._log.refused(method, context.peer(), refusal.why)
            if refusal.retry_seconds:
                hint = str(max(1, round(refusal.retry_seconds * 1e3)))
                context.set_trailing_metadata(((_RETRY_HEADER, hint),))
            context.abort(refusal.code, refusal.why)

        # A stream of requests is read on demand: what a refused client sends never comes into memory.
        return _GRPC.stream_unary_rpc_method_handler(abort)
