"""What a coordinator tells a member of its reduces, and what must hold whatever it is: the member hears its end."""

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from tests.fuzz.any_message import any_message
from tests.fuzz.invariants import time_limit
from tests.fuzz.peers import any_address
from tfwave.errors import EnforcerError
from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import Order
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options

PATIENCE = 60.0
_GRPC: Any = grpc
_STUBS: Any = reduce_pb2_grpc


class _Scripted(reduce_pb2_grpc.ReduceServicer):
    """Gives some orders, and hangs up."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self._orders = orders

    def Join(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Order]:
        del context
        next(request_iterator)
        yield from self._orders


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
    _STUBS.add_ReduceServicer_to_server(_Scripted(orders), server)
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


def _go_through(member: Member) -> None:
    member.join(b"state of a member")
    for update in member.drain(lambda: b"state of a member"):
        assert len(update.values) == 4
