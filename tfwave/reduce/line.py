"""A member's call to its coordinator: reports go out, orders come in and are carried out one by one."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import Order, Report
from tfwave.reduce.service import CHANNEL_OPTIONS
from tfwave.runtime.control.client import open_channel
from tfwave.runtime.control.credentials import Credentials

_GRPC: Any = grpc  # untyped
_STUBS: Any = reduce_pb2_grpc
_AGAIN_SECONDS = 0.2
_PASSING = (_GRPC.StatusCode.UNAVAILABLE, _GRPC.StatusCode.CANCELLED)
"""So a call fails whose coordinator ends, as that of the training before may when the next one begins."""
_WAY_OUT = "run this training again, from its last checkpoint"
_FAILED = f"this worker's own part in the reduces has failed, as said on standard error: {_WAY_OUT}"


class Line:
    """One stream of gRPC; when it ends, the member is out. One that ends without an order is made again."""

    def __init__(
        self,
        address: str,
        credentials: Credentials | None,
        notice: Callable[[Order], None],
        lost: Callable[[str], None],
    ) -> None:
        """Say where the coordinator is, who sees an order as it comes, and who is told why no more will.

        Raises:
            EnforcerError: the address is malformed or on another machine without credentials; or a file of the
                credentials is not as it should be.
        """
        self._channel: Any = open_channel(address, credentials, CHANNEL_OPTIONS)
        self._address = address
        self._notice = notice
        self._lost = lost
        self._reason = ""
        self._metadata = credentials.metadata() if credentials else ()
        self._closed = threading.Event()
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()

    def open(self, work: Callable[[Order], None], hello: Report, seconds: float) -> None:
        """Call, for so long until the coordinator is up, and have each order carried out by a thread of its own."""
        self.say(hello)
        threading.Thread(
            target=self._read, args=(hello, seconds), name="tfwave-reduce-read", daemon=True
        ).start()
        threading.Thread(target=self._carry_out, args=(work,), name="tfwave-reduce", daemon=True).start()

    def say(self, report: Report) -> None:
        """Send a report; from any thread, never waits."""
        self._reports.put(report)

    def close(self) -> None:
        """Hang up."""
        self._closed.set()
        self._reports.put(None)
        self._channel.close()

    def _read(self, hello: Report, seconds: float) -> None:
        reason = f"the coordinator at {self._address} has ended: {_WAY_OUT}"
        end = time.monotonic() + seconds
        try:
            while not self._hear(end) and not self._closed.wait(_AGAIN_SECONDS):
                self._begin_anew(hello)
        except _GRPC.FutureTimeoutError:
            reason = (
                f"no coordinator came up at {self._address} within {seconds:g} s: is it the right address?"
            )
        except _GRPC.RpcError as err:
            failure: Any = err
            reason = f"the coordinator at {self._address}: {failure.details()} ({failure.code().name})"
            if failure.code() == _GRPC.StatusCode.UNAVAILABLE:
                reason += f": {_WAY_OUT}"
        except ValueError as err:  # the channel was closed
            reason = f"the coordinator at {self._address} is left: {err}"
        finally:
            self._reason = reason
            self._orders.put(None)

    def _hear(self, end: float) -> bool:
        """One call, from when the coordinator is up to its last order; False if none came."""
        self._wait_until_up(end)
        stub: Any = _STUBS.ReduceStub(self._channel)
        came = False
        try:
            for order in stub.Join(iter(self._reports.get, None), metadata=self._metadata):
                came = True
                self._notice(order)
                self._orders.put(order)
        except _GRPC.RpcError as err:
            failure: Any = err
            if came or failure.code() not in _PASSING or time.monotonic() >= end:
                raise
        return came

    def _wait_until_up(self, end: float) -> None:
        if time.monotonic() >= end:
            raise _GRPC.FutureTimeoutError
        up = _GRPC.channel_ready_future(self._channel)
        while True:
            left = end - time.monotonic()
            try:
                up.result(max(0.0, min(left, _AGAIN_SECONDS)))
                return
            except _GRPC.FutureTimeoutError:
                if left <= 0 or self._closed.is_set():
                    raise

    def _begin_anew(self, hello: Report) -> None:
        """The failed call may still take a report; what was said to it is said again once orders come."""
        reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        reports.put(hello)
        before, self._reports = self._reports, reports
        before.put(None)

    def _carry_out(self, work: Callable[[Order], None]) -> None:
        reason = _FAILED
        try:
            for order in iter(self._orders.get, None):
                work(order)
            reason = self._reason
        finally:
            self._lost(reason)
