"""Orders of several tasks at once, of which no counter waits for ever."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer
from tfwave.order.order import Order, Ranked


def untangled(orders: Sequence[Order], transfers: Sequence[Transfer], upstream: Sequence[int]) -> list[Order]:
    """The same orders; where counters would wait for each other, some transfers go before their turn.

    Each order is of one task, and knows nothing of the others. With X before A into one task and B before Y into
    another, where X waits for what becomes of B, and Y for what becomes of A, all is well; with A before X and Y
    before B too; but not with X before A and Y before B. Only where nothing else could go, the first goes that can,
    by channel, then by its turn.

    Args:
        orders: of each task.
        transfers: of the graph.
        upstream: what `upstream_transfers` says of them.
    """
    left = _Left.of(orders, transfers, upstream)
    placed: list[Ranked] = []
    is_tangled = False
    while left.queues:
        going = list(left.in_turn())
        is_tangled |= not going
        placed += going or [left.out_of_turn()]
    if not is_tangled:
        return list(orders)
    place = {ranked.transfer.recv: number for number, ranked in enumerate(placed)}
    return [tuple(sorted(order, key=lambda ranked: place[ranked.transfer.recv])) for order in orders]


@dataclass
class _Left:
    """What has not gone yet: by channel, the first in its turn last, and all of it as a set of bits."""

    queues: dict[Channel, list[Ranked]]
    numbers: dict[int, int]
    upstream: Sequence[int]
    outstanding: int

    @classmethod
    def of(cls, orders: Iterable[Order], transfers: Sequence[Transfer], upstream: Sequence[int]) -> "_Left":
        numbers = {transfer.recv: 1 << i for i, transfer in enumerate(transfers)}
        ranked = [ranked for order in orders for ranked in order]
        channels = sorted({each.transfer.channel for each in ranked})
        queues: dict[Channel, list[Ranked]] = {channel: [] for channel in channels}
        outstanding = 0
        for each in reversed(ranked):
            queues[each.transfer.channel].append(each)
            outstanding |= numbers[each.transfer.recv]
        return cls(queues, numbers, upstream, outstanding)

    def in_turn(self) -> Iterator[Ranked]:
        """Let all go that can, one channel after the other."""
        for channel in list(self.queues):
            while channel in self.queues and self._can_go(self.queues[channel][-1]):
                yield self._take(channel, -1)

    def out_of_turn(self) -> Ranked:
        """Let one go; there is one, as transfers wait for each other in no cycle."""
        return next(
            self._take(channel, at)
            for channel, queue in self.queues.items()
            for at in reversed(range(len(queue)))
            if self._can_go(queue[at])
        )

    def _can_go(self, ranked: Ranked) -> bool:
        recv = ranked.transfer.recv
        return self.upstream[recv] & self.outstanding == self.numbers[recv]

    def _take(self, channel: Channel, at: int) -> Ranked:
        taken = self.queues[channel].pop(at)
        if not self.queues[channel]:
            del self.queues[channel]
        self.outstanding ^= self.numbers[taken.transfer.recv]
        return taken
