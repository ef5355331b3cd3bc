"""A step of one task, simulated as `sim.makespan` does, for transfers that wait for ops.

The simulation stops where a channel is free and it is not yet said what it sends next.
"""

from collections.abc import Iterable
from copy import copy
from heapq import heappop, heappush

from tfwave.graph.levels import natural_ranks
from tfwave.graph.view import GraphView, transposed
from tfwave.order.problem import Problem


class Step:
    """The state of one simulated step; a node is pending until all its fanins are done."""

    def __init__(self, view: GraphView, problem: Problem) -> None:
        found = problem.found
        self._transfer = {t.recv: i for i, t in enumerate(found.transfers)}
        self._recv = [t.recv for t in found.transfers]
        self._channels = problem.channels
        self._rank = natural_ranks(view, found.ops, view.levels)
        self._by_rank = list(self._rank)
        self._ticks = dict(
            zip([*found.ops, *self._recv], [*problem.ticks.ops, *problem.durations], strict=True)
        )
        fanins = [view.forward_fanins(node) for node in range(len(view))]
        self._fanouts = transposed(fanins)
        self._pending = [len(sources) for sources in fanins]
        self._running: list[tuple[int, int]] = []
        self._ready: list[int] = []
        self._computing = False
        self._sending = [False] * (max(self._channels, default=-1) + 1)
        self._queues: list[tuple[int, ...]] = [() for _ in self._sending]
        self.nodes = len(view)
        self.channel_sets = [0] * len(self._sending)
        """The set of all transfers of each channel."""
        for transfer, channel in enumerate(self._channels):
            self.channel_sets[channel] |= 1 << transfer
        self.now = 0
        self.started: tuple[int, ...] = ()
        """The transfers in the sequence in which they started."""
        self.left = (1 << len(self._recv)) - 1
        """The set of transfers that no channel was told to send yet."""
        self.work_left = sum(problem.ticks.ops)
        """Ticks of the ops that did not start yet."""
        self._done = 0
        self._waiting = self.left
        self._release([node for node, count in enumerate(self._pending) if not count])

    def makespan_of(self, order: Iterable[int]) -> int:
        """The makespan of a permutation in which blockers come first, from this state on."""
        step = self.fork()
        for transfer in order:
            step.send(transfer)
        step.advance()
        return step.now

    def fork(self) -> "Step":
        """The same state, to go on from in another way."""
        other = copy(self)
        other._pending = self._pending[:]
        other._running = self._running[:]
        other._ready = self._ready[:]
        other._sending = self._sending[:]
        other._queues = self._queues[:]
        return other

    def send(self, transfer: int) -> None:
        """Say what the transfer's channel sends next."""
        self._queues[self._channels[transfer]] += (transfer,)
        self.left &= ~(1 << transfer)

    def waits(self, transfer: int) -> bool:
        """Whether a transfer did not start yet."""
        return bool(self._waiting >> transfer & 1)

    @property
    def stuck(self) -> bool:
        """Whether something waits for what can never come; at the end only."""
        return any(self._queues)

    @property
    def state(self) -> tuple[object, ...]:
        """All that the rest of the step depends on, but for `now`."""
        running = tuple(sorted((end - self.now, node) for end, node in self._running))
        return self.left, tuple(self._queues), self._done, running

    def free_at(self) -> tuple[int, list[int]]:
        """When the compute and each channel have ended what they run now."""
        compute, channels = self.now, [self.now] * len(self._sending)
        for end, node in self._running:
            if node in self._transfer:
                channels[self._channels[self._transfer[node]]] = end
            else:
                compute = end
        return compute, channels

    def advance(self) -> int | None:
        """Run until a channel must be told what to send, and say which; to the end: None."""
        while True:
            undecided = self._settle()
            if undecided is not None:
                return undecided
            if self._ready and not self._computing:
                node = self._by_rank[heappop(self._ready)]
                self._computing = True
                self.work_left -= self._ticks[node]
                heappush(self._running, (self.now + self._ticks[node], node))
            if not self._running:
                return None
            self.now = self._running[0][0]

    def _settle(self) -> int | None:
        """End all that ends now, then start what transfers can start; again, where one takes no time."""
        while True:
            while self._running and self._running[0][0] == self.now:
                self._end(heappop(self._running)[1])
            for channel, queue in enumerate(self._queues):
                if self._sending[channel]:
                    continue
                if queue:
                    self._start_if_ready(channel, queue[0])
                elif self.left & self.channel_sets[channel]:
                    return channel
            if not (self._running and self._running[0][0] == self.now):
                return None

    def _start_if_ready(self, channel: int, transfer: int) -> None:
        node = self._recv[transfer]
        if self._pending[node]:
            return
        self._sending[channel] = True
        self._queues[channel] = self._queues[channel][1:]
        self.started += (transfer,)
        self._waiting &= ~(1 << transfer)
        heappush(self._running, (self.now + self._ticks[node], node))

    def _end(self, node: int) -> None:
        transfer = self._transfer.get(node)
        if transfer is None:
            self._computing = False
        else:
            self._sending[self._channels[transfer]] = False
        self._done |= 1 << node
        self._release(self._freed_by(node))

    def _release(self, free: list[int]) -> None:
        """Let nodes go whose fanins are done; those that take no time are done at once."""
        for node in free:
            if node in self._rank:
                heappush(self._ready, self._rank[node])
            elif node not in self._transfer:
                free += self._freed_by(node)

    def _freed_by(self, node: int) -> list[int]:
        freed: list[int] = []
        for fanout in self._fanouts[node]:
            self._pending[fanout] -= 1
            if not self._pending[fanout]:
                freed.append(fanout)
        return freed
