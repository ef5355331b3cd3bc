"""Orders in which a step can run, op after op; each leaves all results as they are."""

from collections import defaultdict
from heapq import heappop, heappush

from tfwave.offload.step import TrainingStep


def lean_order(step: TrainingStep) -> tuple[int, ...]:
    """Of the ops that are ready, that which gives back most, net of what it takes.

    As if each tensor were away between its last use in the forward pass and its first in the backward pass. Of
    equals in the forward pass what was ready last, so that a branch is finished before the next is begun; in the
    backward pass that which was traced first.
    """
    return _Lean(step).order()


def depth_first_order(step: TrainingStep) -> tuple[int, ...]:
    """Algorithm 2 of Dymem (4.1.1), mended: an op comes when as many have led to it as it has inputs.

    Of what an op leads to, the first in the trace is explored first; a join waits for its last branch.
    """
    missing, followers = _dependencies(step)
    stack = [op for op, count in reversed(list(enumerate(missing))) if not count]
    order: list[int] = []
    while stack:
        order.append(op := stack.pop())
        for follower in sorted(followers[op], reverse=True):
            missing[follower] -= 1
            if not missing[follower]:
                stack.append(follower)
    return tuple(order)


def _dependencies(step: TrainingStep) -> tuple[list[int], dict[int, list[int]]]:
    followers: dict[int, list[int]] = defaultdict(list)
    for op, before in enumerate(step.before):
        for source in before:
            followers[source].append(op)
    return [len(before) for before in step.before], followers


class _Lean:
    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._missing, self._followers = _dependencies(step)
        self._takes = [0] * len(step.ops)
        self._gives = [0] * len(step.ops)
        self._left: dict[tuple[int, bool], set[int]] = defaultdict(set)
        """The uses of a buffer that are to come, in the forward and in the backward pass."""
        for number, buffer in enumerate(step.buffers):
            self._takes[buffer.writers[0]] += buffer.bytes
            for use in buffer.uses:
                self._left[number, step.ops[use].is_backward].add(use)
        self._heap: list[tuple[int, int, int]] = []
        self._ready: dict[int, int] = {}
        for (number, _), uses in self._left.items():
            self._give_alone(number, uses)

    def order(self) -> tuple[int, ...]:
        for op, count in enumerate(self._missing):
            if not count:
                self._offer(op)
        order: list[int] = []
        done: set[int] = set()
        while self._heap:
            op = heappop(self._heap)[2]
            if op not in done:
                done.add(op)
                order.append(op)
                self._run(op)
        return tuple(order)

    def _offer(self, op: int) -> None:
        ready = self._ready.setdefault(op, len(self._ready))
        tie = op if self._step.ops[op].is_backward else -ready
        heappush(self._heap, (self._takes[op] - self._gives[op], tie, op))

    def _run(self, op: int) -> None:
        for number in self._step.used[op]:
            uses = self._left[number, self._step.ops[op].is_backward]
            uses.discard(op)
            self._give_alone(number, uses)
        for follower in self._followers[op]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._offer(follower)

    def _give_alone(self, number: int, uses: set[int]) -> None:
        """The last one to use a buffer gives it back."""
        if len(uses) == 1 and not self._step.buffers[number].stays:
            (last,) = uses
            self._gives[last] += self._step.buffers[number].bytes
            if last in self._ready:
                self._offer(last)
