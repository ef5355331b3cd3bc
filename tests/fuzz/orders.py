"""What a coordinator tells a member of its reduces, and what must hold whatever it is: the member hears its end."""

import random
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from tests.fuzz.any_message import any_message
from tests.fuzz.invariants import time_limit
from tests.fuzz.peers import any_address
from tests.ports import tcp_pair
from tfwave.errors import EnforcerError
from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import Order, Report
from tfwave.reduce.arrivals import call
from tfwave.reduce.link import Link
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options

PATIENCE = 60.0
_GRPC: Any = grpc
_STUBS: Any = reduce_pb2_grpc


class _Scripted(reduce_pb2_grpc.ReduceServicer):
    """Gives some orders, every other one by the link, and hangs up."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self._orders = orders
        self.links: list[Link] = []

    def Join(self, request: Report, context: Any) -> Iterator[Order]:
        del context
        link = Link(call(request.hello.address, request.hello.key, PATIENCE), PATIENCE)
        self.links.append(link)
        for turn, order in enumerate(self._orders):
            link.send(order.SerializeToString() if turn % 2 else b"")
            if turn % 2 == 0:
                yield order
        link.finish()


def any_orders(rng: random.Random) -> list[Order]:
    """Some; whom they name is on this machine, or nowhere."""
    orders = [any_message(rng, Order) for _ in range(rng.randint(1, 6))]
    for order in orders:
        for named, field in ((order.form, "next"), (order.give, "address")):
            if order.WhichOneof("kind") == ("form" if field == "next" else "give"):
                setattr(named, field, any_address(rng).encode(errors="replace").decode())
                if field == "next" and rng.random() < 0.5:
                    named.members = rng.choice((1, 2, 3))  # type: ignore[union-attr]
    return orders


def check_orders(orders: Sequence[Order]) -> None:
    """A member that is told so goes on, or says why it does not; it does not wait for what will not come."""
    server: Any = _GRPC.server(ThreadPoolExecutor(1))
    scripted = _Scripted(orders)
    _STUBS.add_ReduceServicer_to_server(scripted, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    options = Options(0, 1, f"127.0.0.1:{port}", deadline=0.05, patience=PATIENCE)
    try:
        with time_limit(), Member(options, size=4) as member:
            _go_through(member)
    except EnforcerError as error:
        said = str(error)
        assert "no weights came" not in said, "the member did not hear that its coordinator has ended"
    finally:
        server.stop(None).wait()
        for link in scripted.links:
            list(link)


def _go_through(member: Member) -> None:
    member.join(b"state of a member")
    for update in member.drain(lambda: b"state of a member"):
        assert len(update.values) == 4


def any_bytes(rng: random.Random) -> bytes:
    """Of a link: messages, whole or not, and others."""
    parts = [rng.randbytes(rng.randint(0, 12)) for _ in range(rng.randint(0, 5))]
    wild = rng.choice((b"", rng.randbytes(rng.randint(1, 9)), b"\xff" * 4))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts) + wild


def check_bytes(rng: random.Random) -> None:
    """Whatever comes by a link, it ends when the other end has, and nothing is made up."""
    sent = any_bytes(rng)
    other, end = tcp_pair()
    with time_limit(), other:
        other.sendall(sent)
        other.shutdown(socket.SHUT_WR)
        came = list(Link(end, 1.0))
    again = b"".join(len(message).to_bytes(4, "big") + message for message in came)
    assert sent.startswith(again)
