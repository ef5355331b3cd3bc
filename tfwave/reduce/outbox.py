"""A coordinator's orders to one member: those with secrets by its call, the others by its link."""

import queue
from collections.abc import Iterator

from tfwave.proto.reduce_pb2 import Order
from tfwave.reduce.link import Link

_BY_CALL = ("welcome", "form", "give", "end")
"""Those with keys, as the call may be encrypted; and the last one."""


class Outbox(queue.SimpleQueue[Order | None]):
    """A queue of what goes by the call; in place of that the link gets an empty message, which keeps its turn."""

    def __init__(self, link: Link) -> None:
        """Send by `link` what goes there."""
        super().__init__()
        self._link = link

    def put(self, item: Order | None, block: bool = True, timeout: float | None = None) -> None:
        """Send an order, from one thread at a time; or None, behind which nothing goes by the call."""
        if item is None or item.WhichOneof("kind") in _BY_CALL:
            if item is not None:
                self._link.send(b"")
            super().put(item, block, timeout)
        else:
            self._link.send(item.SerializeToString())


def in_order(call: Iterator[Order], link: Link) -> Iterator[Order]:
    """What comes out of an outbox at the member's end, until its call ends."""
    for message in link:
        order = Order.FromString(message) if message else next(call, None)
        if order is None:
            return
        yield order
    yield from call
