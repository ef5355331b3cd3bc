"""Orders in which a step can run, op after op; each leaves all results as they are."""

from collections import defaultdict
from collections.abc import Collection
from heapq import heappop, heappush

from tfwave.offload.step import Phase, TrainingStep


def traced_order(step: TrainingStep) -> tuple[int, ...]:
    """As it was traced."""
    return tuple(range(len(step.ops)))


def tried_orders(step: TrainingStep) -> tuple[tuple[int, ...], ...]:
    """Those in which a step is made to fit: as it was traced, and the lean one."""
    return traced_order(step), lean_order(step)


def lean_order(step: TrainingStep) -> tuple[int, ...]:
    """Of the ops that are ready, that which gives back most, net of what it takes.

    As if each tensor were away between its last use in the forward pass and its first in the backward pass. Of
    equals in the forward pass what was ready last, so that a branch is finished before the next is begun; in the
    backward pass that which was traced first. What may run in either runs when all else is done that an op needs
    for which it runs, but in the forward pass if it makes less than it gives back there, as a mask does.
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


def _late(step: TrainingStep) -> frozenset[int]:
    """The ops of either pass that run no sooner than they are wanted."""
    made, late = [0] * len(step.ops), set[int]()
    for buffer in step.buffers:
        made[buffer.writers[0]] += buffer.bytes
    for number, op in enumerate(step.ops):
        given = sum(step.buffers[n].bytes for n in step.used[number] if not _is_used_late(step, n, late))
        if op.phase is Phase.EITHER and (made[number] >= given or not late.isdisjoint(step.before[number])):
            late.add(number)
    return frozenset(late)


def _is_used_late(step: TrainingStep, number: int, late: Collection[int]) -> bool:
    buffer = step.buffers[number]
    return buffer.stays or any(use in late or step.ops[use].phase is Phase.BACKWARD for use in buffer.uses)


class _Lean:
    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._late = _late(step)
        self._missing, self._followers = _dependencies(step)
        self._early_missing = [len(before - self._late) for before in step.before]
        self._asleep = set(self._late)
        self._takes = [0] * len(step.ops)
        self._gives = [0] * len(step.ops)
        self._left: dict[tuple[int, bool], set[int]] = defaultdict(set)
        """The uses of a buffer that are to come, the early and the late ones."""
        for number, buffer in enumerate(step.buffers):
            self._takes[buffer.writers[0]] += buffer.bytes
            for use in buffer.uses:
                self._left[number, self._is_late(use)].add(use)
        self._heap: list[tuple[int, int, int]] = []
        self._ready: dict[int, int] = {}
        for (number, _), uses in self._left.items():
            self._give_alone(number, uses)

    def order(self) -> tuple[int, ...]:
        for op in range(len(self._missing)):
            self._look_at(op)
        order: list[int] = []
        done: set[int] = set()
        while self._heap:
            op = heappop(self._heap)[2]
            if op not in done:
                done.add(op)
                order.append(op)
                self._run(op)
        return tuple(order)

    def _is_late(self, op: int) -> bool:
        return op in self._late or self._step.ops[op].phase is Phase.BACKWARD

    def _look_at(self, op: int) -> None:
        """Offer it if nothing is missing, and wake what it waits for if nothing else is."""
        if op in self._asleep:
            return
        if not self._missing[op]:
            self._offer(op)
        elif not self._early_missing[op]:
            woken = self._step.before[op] & self._asleep
            self._asleep -= woken
            for source in sorted(woken):
                self._look_at(source)

    def _offer(self, op: int) -> None:
        ready = self._ready.setdefault(op, len(self._ready))
        tie = op if self._is_late(op) else -ready
        heappush(self._heap, (self._takes[op] - self._gives[op], tie, op))

    def _run(self, op: int) -> None:
        for number in self._step.used[op]:
            uses = self._left[number, self._is_late(op)]
            uses.discard(op)
            self._give_alone(number, uses)
        for follower in self._followers[op]:
            self._missing[follower] -= 1
            self._early_missing[follower] -= op not in self._late
            self._look_at(follower)

    def _give_alone(self, number: int, uses: set[int]) -> None:
        """The last one to use a buffer gives it back."""
        if len(uses) == 1 and not self._step.buffers[number].stays:
            (last,) = uses
            self._gives[last] += self._step.buffers[number].bytes
            if last in self._ready:
                self._offer(last)
