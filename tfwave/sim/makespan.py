"""Step time of one device under an order, by simulation."""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from tfwave.cost.model import CostModel
from tfwave.cost.ticks import Ticks, ticks_of
from tfwave.errors import PlanError
from tfwave.graph.levels import longest_path_levels, natural_ranks
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer, destination_of, device_ops
from tfwave.graph.view import GraphView


def makespan(view: GraphView, transfers: Sequence[Transfer], costs: CostModel) -> float:
    """Seconds until the device that transfers go to has run all its ops and received them all, in their order.

    Each channel sends its transfers one after another in the order's sequence, each not before all that its
    `_Recv` waits for is done. One compute resource runs the device's ops and never idles while one is ready;
    of the ready ops the one of least (longest-path level, name) goes first. At one instant, all that ends
    ends before the next op is chosen. Ops of other devices, and receives outside the order, take no time.
    An empty order names no device: then only ops that name none either take time.

    Time is counted in integers (`ticks`), so the result does not depend on how nodes are numbered.

    Raises:
        PlanError: the order waits for itself: a transfer comes before one that it depends on.
        MissingCost: the model does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle, or transfers into more than one device.
    """
    ops = list(device_ops(view, destination_of(transfers)))
    ticks = ticks_of(view, ops, transfers, costs)
    run = _Run(view, ops, transfers, ticks)
    return ticks.seconds(run.finish())


class _Run:
    """The state of one simulated step: a node is pending until all its fanins are done."""

    def __init__(
        self, view: GraphView, ops: Sequence[int], transfers: Sequence[Transfer], ticks: Ticks
    ) -> None:
        self._now = 0
        self._running: list[tuple[int, int]] = []
        """Heap of (end in ticks, node)."""
        self._rank = natural_ranks(view, ops, longest_path_levels(view))
        self._by_rank = list(self._rank)
        self._ready: list[int] = []
        """Heap of ranks of ops."""
        self._computing = False
        self._channel = {t.recv: t.channel for t in transfers}
        self._queues: dict[Channel, deque[Transfer]] = defaultdict(deque)
        for transfer in transfers:
            self._queues[transfer.channel].append(transfer)
        self._sending: set[Channel] = set()
        self._woken = set(self._queues)
        nodes = [*ops, *(t.recv for t in transfers)]
        self._duration = dict(zip(nodes, [*ticks.ops, *ticks.transfers], strict=True))
        self._fanouts, self._pending = _forward_edges(view)

    def finish(self) -> int:
        """Run to the end and say when that is, in ticks."""
        self._release([node for node, count in enumerate(self._pending) if not count])
        while True:
            self._settle()
            self._start_op()
            if not self._running:
                break
            self._now = self._running[0][0]
        self._refuse_deadlock()
        return self._now

    def _settle(self) -> None:
        self._start_transfers()
        while self._running and self._running[0][0] == self._now:
            self._end(heappop(self._running)[1])
            self._start_transfers()

    def _start_op(self) -> None:
        if self._ready and not self._computing:
            self._computing = True
            self._start(self._by_rank[heappop(self._ready)])

    def _start_transfers(self) -> None:
        for channel in self._woken:
            queue = self._queues[channel]
            if queue and channel not in self._sending and not self._pending[queue[0].recv]:
                self._sending.add(channel)
                self._start(queue.popleft().recv)
        self._woken.clear()

    def _start(self, node: int) -> None:
        heappush(self._running, (self._now + self._duration[node], node))

    def _end(self, node: int) -> None:
        channel = self._channel.get(node)
        if channel is None:
            self._computing = False
        else:
            self._sending.remove(channel)
            self._woken.add(channel)
        self._release(self._freed_by(node))

    def _release(self, nodes: Iterable[int]) -> None:
        """Let nodes go whose fanins are done; those that take no time are done at once."""
        free = list(nodes)
        for node in free:
            if node in self._rank:
                heappush(self._ready, self._rank[node])
            elif node in self._channel:
                self._woken.add(self._channel[node])
            else:
                free += self._freed_by(node)

    def _freed_by(self, node: int) -> list[int]:
        """The fanouts for which this was the last fanin to be done."""
        freed: list[int] = []
        for fanout in self._fanouts[node]:
            self._pending[fanout] -= 1
            if not self._pending[fanout]:
                freed.append(fanout)
        return freed

    def _refuse_deadlock(self) -> None:
        stuck = sorted(queue[0].node for queue in self._queues.values() if queue)
        if stuck:
            raise PlanError(
                f"the order waits for itself: the transfer into '{stuck[0]}' depends on a later one; "
                "put a transfer after all that it depends on"
            )


def _forward_edges(view: GraphView) -> tuple[list[list[int]], list[int]]:
    """Fanouts and fanin counts of each node, without the back edges of while loops."""
    fanouts: list[list[int]] = [[] for _ in range(len(view))]
    counts: list[int] = []
    for node in range(len(view)):
        fanins = view.forward_fanins(node)
        counts.append(len(fanins))
        for fanin in fanins:
            fanouts[fanin].append(node)
    return fanouts, counts
