"""The gRPC handlers of the proxy: calls are passed on as raw bytes, and no thread waits for an answer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc

from tfwave.runtime.proxy import messages
from tfwave.runtime.proxy.messages import WantedTensor
from tfwave.runtime.proxy.observer import EAGER, WORKER, Observer
from tfwave.runtime.proxy.outbox import Outbox
from tfwave.runtime.proxy.pacer import Pacer
from tfwave.runtime.proxy.sequencer import Sequencer
from tfwave.runtime.proxy.step import Arrival, Go
from tfwave.runtime.proxy.wire import MalformedMessage

RECV_TENSOR = f"{WORKER}/RecvTensor"
STREAMS = frozenset({f"{EAGER}/StreamingEnqueue"})

_GRPC: Any = grpc  # untyped
_NO_DEADLINE_SECONDS = 1e8
_GRPCS_OWN = ("grpc-", "user-agent", ":")

Respond = Callable[[bytes | None], None]
"""It sends a response, or with None the status, and blocks until gRPC's buffer has room."""


@dataclass(frozen=True)
class Parts:
    """What the handlers share."""

    backend: Any
    """The channel to the server."""
    observer: Observer
    sequencer: Sequencer
    pacer: Pacer
    outbox: Outbox


class Relay(grpc.GenericRpcHandler):
    """Answers each method with a handler that passes it on."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method.

        To gRPC all are streams: one response of a stream looks on the wire like the response of a plain call, but
        only streams can be answered later, by another thread.
        """
        method = handler_call_details.method
        if method in STREAMS:
            return _GRPC.stream_stream_rpc_method_handler(_Stream(self._parts, method))
        return _GRPC.unary_stream_rpc_method_handler(_Call(self._parts, method))


class _Call:
    """One call with one request and one response."""

    experimental_non_blocking = True

    def __init__(self, parts: Parts, method: str) -> None:
        self._parts = parts
        self._method = method

    def __call__(self, request: bytes, context: Any, respond: Respond) -> None:
        self._parts.observer.asked(self._method, request)
        stub = self._parts.backend.unary_unary(self._method)
        call = stub.future(request, **_limits(context))
        _cancel_with(context, call)

        def answer(done: Any) -> None:
            self._answer(request, done, context, respond)

        call.add_done_callback(answer)

    def _answer(self, request: bytes, call: Any, context: Any, respond: Respond) -> None:
        receiver = context.peer()
        if call.code() != _GRPC.StatusCode.OK:
            self._parts.outbox.submit(receiver, lambda: _end(call, context, respond))
            return
        response = call.result()
        self._parts.observer.answered(self._method, request, response)

        def send() -> None:
            respond(response)
            _end(call, context, respond)

        wanted = _wanted(request) if self._method == RECV_TENSOR else None
        if wanted is None:
            self._parts.outbox.submit(receiver, send)
        else:
            self._in_turn(wanted, response, lambda: self._parts.outbox.submit(receiver, send))

    def _in_turn(self, wanted: WantedTensor, response: bytes, leave: Go) -> None:
        parts = self._parts
        if not parts.sequencer.orders(wanted.channel) and not parts.pacer.active:
            leave()
            return
        size, dead = _size(response)

        def paced() -> None:
            parts.pacer.submit(size, leave)

        if wanted.in_loop:
            paced()
        else:
            parts.sequencer.arrive(Arrival(wanted.step, wanted.channel, wanted.edge, size, dead), paced)


class _Stream:
    """One call with a stream of requests and one of responses."""

    experimental_non_blocking = True

    def __init__(self, parts: Parts, method: str) -> None:
        self._parts = parts
        self._method = method

    def __call__(self, requests: Iterator[bytes], context: Any, respond: Respond) -> None:
        stub = self._parts.backend.stream_stream(self._method)
        call = stub(self._observed(requests), **_limits(context))
        _cancel_with(context, call)
        pump = threading.Thread(target=_pump, args=(call, context, respond), name="tfwave-pump", daemon=True)
        pump.start()

    def _observed(self, requests: Iterator[bytes]) -> Iterator[bytes]:
        try:
            for request in requests:
                self._parts.observer.asked(self._method, request)
                yield request
        except _GRPC.RpcError:
            return  # the client is gone, and the call is cancelled with it


def _pump(call: Any, context: Any, respond: Respond) -> None:
    with suppress(_GRPC.RpcError):  # which says what the call's status says
        for response in call:
            respond(response)
    _end(call, context, respond)


def _end(call: Any, context: Any, respond: Respond) -> None:
    """Pass on the status with which a call ended."""
    context.set_code(call.code())
    context.set_details(call.details() or "")
    context.set_trailing_metadata(call.trailing_metadata())
    respond(None)


def _cancel_with(context: Any, call: Any) -> None:
    """Cancel a call to the server when the client's ends; to a call that has ended this does nothing."""
    if not context.add_callback(call.cancel):
        call.cancel()


def _limits(context: Any) -> dict[str, Any]:
    left = context.time_remaining()
    metadata = [(k, v) for k, v in context.invocation_metadata() if not k.startswith(_GRPCS_OWN)]
    return {"timeout": left if left < _NO_DEADLINE_SECONDS else None, "metadata": metadata}


def _wanted(request: bytes) -> WantedTensor | None:
    try:
        return messages.wanted_tensor(request)
    except MalformedMessage:
        return None


def _size(response: bytes) -> tuple[int, bool]:
    try:
        return messages.tensor_bytes(response)
    except MalformedMessage:
        return len(response), False
