"""The coordinator as a service: a call of gRPC for each member, guarded as the control service is, and a link."""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from tfwave.errors import EnforcerError
from tfwave.proto import reduce_pb2, reduce_pb2_grpc
from tfwave.reduce.arrivals import KEY_BYTES, call
from tfwave.reduce.coordinator import Inbox, coordinate
from tfwave.reduce.link import Link
from tfwave.reduce.meeting_place import MeetingPlace
from tfwave.reduce.options import LONGEST_SECONDS, MOST_WORKERS
from tfwave.reduce.outbox import Outbox
from tfwave.reduce.peer import Peer
from tfwave.runtime.control.address import split_address
from tfwave.runtime.control.client import check_reach
from tfwave.runtime.control.credentials import Credentials
from tfwave.runtime.control.gate import BURST, CALLS_PER_SECOND, Gate, RateLimit, RefusalLog

LAST_WORDS_SECONDS = 20.0
"""So long a coordinator that ends may take to tell its members so."""
CHANNEL_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),  # the coordinator of the next training is found soon
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)
"""Either end notices within a minute that the other's machine is gone."""

_AGAIN_SECONDS = 0.2
_CALLS = 2 * MOST_WORKERS
"""A member's, and one to where groups meet."""

_GRPC: Any = grpc  # untyped
_STUBS: Any = reduce_pb2_grpc


class Coordinator:
    """Coordinates the reduces of the members that come, one training after the other, until `stop`."""

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        credentials: Credentials | None = None,
        *,
        once: bool = False,
        place: MeetingPlace | None = None,
    ) -> None:
        """Listen.

        Args:
            address: ``host:port``; port 0: the system chooses. Without credentials, the host must be loopback.
            credentials: what a member must prove. What members sum among each other is not encrypted: it goes
                over connections that begin with a secret of the coordinator's, on a network that is trusted.
            once: listen no more when the first training has ended; who comes then waits for the next coordinator.
            place: where groups meet, at the same address; the coordinator stays until all have ended there.

        Raises:
            EnforcerError: the address is open to other machines without credentials, malformed or in use; or a
                file of the credentials is not as it should be.
        """
        check_reach(address, credentials)
        self._inbox: Inbox = Inbox()
        gate = Gate(credentials and credentials.token, RateLimit(CALLS_PER_SECOND, BURST), RefusalLog())
        self._server: Any = _GRPC.server(
            ThreadPoolExecutor(_CALLS, thread_name_prefix="tfwave-reduce"),
            interceptors=(gate,),
            options=CHANNEL_OPTIONS,
            maximum_concurrent_rpcs=_CALLS,
        )
        self._service = _Service(self._inbox)
        _STUBS.add_ReduceServicer_to_server(self._service, self._server)
        self._place = place
        if place is not None:
            _STUBS.add_MeetServicer_to_server(place, self._server)
        port = _bind(self._server, address, credentials and credentials.for_server())
        self.address = f"{address.rpartition(':')[0]}:{port}"
        self._server.start()
        self._thread = threading.Thread(
            target=coordinate,
            args=(self._inbox, self._close),
            kwargs={"once": once},
            name="tfwave-coordinator",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End it, when members have heard that their training has ended, or that it cannot go on."""
        self._inbox.put((None, None))
        self._thread.join()

    def _close(self) -> None:
        if self._place is not None:
            self._place.wait()
        stopped = self._server.stop(LAST_WORDS_SECONDS)
        self._service.close()
        stopped.wait()

    def __enter__(self) -> "Coordinator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _bind(server: Any, address: str, tls: Any) -> int:
    try:
        port = server.add_secure_port(address, tls) if tls else server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if port == 0:
        raise EnforcerError(f"coordinator address '{address}' is in use or not of this machine: give another")
    return port


class _Service(reduce_pb2_grpc.ReduceServicer):
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._numbers = itertools.count(1)
        self._closed = False

    def Join(self, request: reduce_pb2.Report, context: Any) -> Iterator[Any]:  # noqa: N802
        hello = request.hello
        fault = fault_of(hello)
        if fault:
            context.abort(_GRPC.StatusCode.INVALID_ARGUMENT, fault)
        try:
            link = _call_back(hello, context.is_active)
        except OSError as err:
            why = f"the coordinator cannot reach worker {hello.rank} at {hello.address} ({err})"
            context.abort(_GRPC.StatusCode.FAILED_PRECONDITION, f"{why}: is that the worker's own address?")
            raise
        peer = Peer(next(self._numbers), hello, Outbox(link))

        ended = partial(self._lose, peer)
        self._inbox.put((peer, request))
        if self._closed:  # perhaps too late for `close` to see
            peer.orders.put(None)
        if not context.add_callback(ended):
            ended()
        listener = threading.Thread(
            target=self._listen, args=(peer, link), name="tfwave-reduce-peer", daemon=True
        )
        listener.start()
        yield from iter(peer.orders.get, None)
        link.finish()
        listener.join(LAST_WORDS_SECONDS)  # who was stopped does not hang up
        link.stop()

    def close(self) -> None:
        """Hang up, without an order, on those that nobody coordinates any more."""
        self._closed = True
        with suppress(queue.Empty):
            while True:
                peer, _ = self._inbox.get_nowait()
                if peer is not None:
                    peer.orders.put(None)

    def _listen(self, peer: Peer, link: Link) -> None:
        for message in link:
            try:
                report = reduce_pb2.Report.FromString(message)
            except DecodeError:
                link.stop()
                break
            report.ClearField("hello")  # it has been said
            self._inbox.put((peer, report))
        self._lose(peer)

    def _lose(self, peer: Peer) -> None:
        """Its call or its link has ended."""
        self._inbox.put((peer, None))
        peer.orders.put(None)


def _call_back(hello: reduce_pb2.Hello, is_there: Callable[[], bool]) -> Link:
    """The link to a member; a name of the network may not resolve yet when its process starts.

    Raises:
        OSError: it could not be made before the deadline, or the member is not there any more.
    """
    seconds = hello.deadline_seconds
    end = time.monotonic() + seconds
    while True:
        try:
            return Link(call(hello.address, hello.key, seconds), seconds)
        except OSError:
            if time.monotonic() >= end or not is_there():
                raise
        time.sleep(_AGAIN_SECONDS)


def fault_of(hello: reduce_pb2.Hello) -> str | None:
    """Why a member's first words are not taken; None if they are."""
    limits = (hello.deadline_seconds, hello.patience_seconds)
    if not all(0 < seconds <= LONGEST_SECONDS for seconds in limits):
        return f"deadline and patience must be seconds above 0, at most {LONGEST_SECONDS:g}"
    if not 1 <= hello.workers <= MOST_WORKERS:
        return f"{hello.workers} workers cannot be coordinated: give 1 to {MOST_WORKERS}"
    if len(hello.key) != KEY_BYTES:
        return f"a member's key has {len(hello.key)} bytes, not {KEY_BYTES}: run one version of tfwave everywhere"
    try:
        split_address(hello.address)
    except ValueError as err:
        return str(err)
    return None
