"""A member's line to its coordinator: reports go out, orders come in and are carried out one by one."""

import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import Order, Report
from tfwave.reduce.arrivals import KEY_BYTES
from tfwave.reduce.link import Link
from tfwave.reduce.options import Options
from tfwave.reduce.outbox import in_order
from tfwave.reduce.seat import Seat
from tfwave.reduce.service import CHANNEL_OPTIONS
from tfwave.runtime.control.client import open_channel

_GRPC: Any = grpc  # untyped
_STUBS: Any = reduce_pb2_grpc
_AGAIN_SECONDS = 0.2
_PASSING = (_GRPC.StatusCode.UNAVAILABLE, _GRPC.StatusCode.CANCELLED)
"""So a call fails whose coordinator ends, as that of the training before may when the next one begins."""
_WAY_OUT = "run this training again, from its last checkpoint"
_FAILED = f"this worker's own part in the reduces has failed, as said on standard error: {_WAY_OUT}"


class Line:
    """A call of gRPC that says hello, and the link by which the coordinator calls back.

    Orders with secrets come by the call, the others and all reports go by the link, in one order. When either ends,
    the member is out. A call that ends without an order is made again.
    """

    def __init__(
        self,
        options: Options,
        seat: Seat,
        notice: Callable[[Order], None],
        lost: Callable[[str], None],
    ) -> None:
        """Say where the coordinator calls back, who sees an order as it comes, and who is told why no more will.

        Raises:
            EnforcerError: the address is malformed or on another machine without credentials; or a file of the
                credentials is not as it should be.
        """
        credentials = options.credentials
        self._channel: Any = open_channel(options.coordinator, credentials, CHANNEL_OPTIONS)
        self._options, self._seat = options, seat
        self._notice = notice
        self._lost = lost
        self._reason = ""
        self._metadata = credentials.metadata() if credentials else ()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._unsaid: list[bytes] = []
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()

    def open(self, work: Callable[[Order], None], hello: Report) -> None:
        """Call, as long as there is patience until the coordinator is up; a thread carries each order out."""
        threading.Thread(target=self._read, args=(hello,), name="tfwave-reduce-read", daemon=True).start()
        threading.Thread(target=self._carry_out, args=(work,), name="tfwave-reduce", daemon=True).start()

    def say(self, report: Report) -> None:
        """Send a report, or keep it until there is a link; from any thread."""
        message = report.SerializeToString()
        with self._lock:
            if self._link is None:
                self._unsaid.append(message)
            else:
                self._link.send(message)

    def close(self) -> None:
        """Hang up."""
        self._closed.set()
        with self._lock:
            if self._link is not None:
                self._link.stop()
        self._channel.close()

    def _read(self, hello: Report) -> None:
        address, seconds = self._options.coordinator, self._options.patience
        where = f"the coordinator at {address}"
        reason = f"{where} has ended: {_WAY_OUT}"
        end = time.monotonic() + seconds
        try:
            while not self._hear(hello, end) and not self._closed.wait(_AGAIN_SECONDS):
                pass
        except _GRPC.FutureTimeoutError:
            reason = f"no coordinator came up at {address} within {seconds:g} s: is it the right address?"
        except _GRPC.RpcError as err:
            failure: Any = err
            reason = f"{where}: {failure.details()} ({failure.code().name})"
            if failure.code() == _GRPC.StatusCode.UNAVAILABLE:
                reason += f": {_WAY_OUT}"
        except DecodeError as err:
            reason = f"{where} said what is no order ({err}): {_WAY_OUT}"
        except ValueError as err:  # the channel was closed
            reason = f"{where} is left: {err}"
        finally:
            self._reason = reason
            self._orders.put(None)

    def _hear(self, hello: Report, end: float) -> bool:
        """One call, from when the coordinator is up to its last order; False if none came."""
        self._wait_until_up(end)
        hello.hello.key = secrets.token_bytes(KEY_BYTES)
        call: Any = _STUBS.ReduceStub(self._channel).Join(hello, metadata=self._metadata)
        came = False
        try:
            for order in self._orders_of(call, hello.hello.key):
                came = True
                self._notice(order)
                self._orders.put(order)
        except _GRPC.RpcError as err:
            failure: Any = err
            if came or failure.code() not in _PASSING or time.monotonic() >= end:
                raise
        return came

    def _orders_of(self, call: Any, key: bytes) -> Iterator[Order]:
        """All, from when the coordinator has called back."""
        call.add_callback(self._seat.wake)
        seconds = self._options.patience + self._options.deadline  # the coordinator gives up before
        try:
            came = self._seat.take(key, seconds, lambda: not call.is_active())
        except TimeoutError:
            yield from call  # which says why
            return
        link = Link(came, self._options.deadline)
        self._begin(link)
        yield from in_order(call, link)

    def _begin(self, link: Link) -> None:
        with self._lock:
            self._link = link
            for message in self._unsaid:
                link.send(message)
            self._unsaid.clear()
            if self._closed.is_set():
                link.stop()

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

    def _carry_out(self, work: Callable[[Order], None]) -> None:
        reason = _FAILED
        try:
            for order in iter(self._orders.get, None):
                work(order)
            reason = self._reason
        finally:
            self._lost(reason)
