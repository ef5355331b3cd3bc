"""The best order of transfers that wait for ops or for each other: branch and bound on the simulation."""

from collections.abc import Iterable

from tfwave.errors import TfwaveError
from tfwave.graph.view import GraphView
from tfwave.order.baselines import place
from tfwave.order.deps import bits
from tfwave.order.device_step import Step
from tfwave.order.floors import find_floors, queued_tails
from tfwave.order.problem import Problem
from tfwave.order.tac import tac_sequence

STATES = 200_000
"""So many states of a step are told apart before giving up: some 10 seconds."""


def best_sequence(view: GraphView, problem: Problem) -> list[int]:
    """A permutation of least makespan.

    Each time a channel is free, one branch for each transfer that it can send next, ready or not. A branch
    is cut where its floor is not under the best makespan so far, or where the same state was reached as early.

    Raises:
        TfwaveError: more than `STATES` states.
    """
    return _Branches(view, problem).best()


class _Branches:
    def __init__(self, view: GraphView, problem: Problem) -> None:
        self._problem = problem
        self._start = Step(view, problem)
        self._floor = max(find_floors(view, problem.load).values())
        tails = queued_tails(view, problem.load)
        self._tails = [tails[t.recv] for t in problem.found.transfers]
        self._longest_first = sorted(range(len(self._tails)), key=lambda i: -self._tails[i])
        self._rank: list[int] = []
        self._reached: dict[tuple[object, ...], int] = {}
        self._best: list[int] = []
        self._makespan = 0

    def best(self) -> list[int]:
        self._start_from(self._first_guesses())
        pending = [self._start]
        while pending and self._makespan > self._floor:
            self._branch(pending)
        return self._best

    def _first_guesses(self) -> Iterable[list[int]]:
        problem = self._problem
        work = {needs: ticks for needs, ticks in problem.work.items() if needs}
        yield tac_sequence(work, problem.durations, problem.found.blockers)
        yield place(range(len(problem.durations)), problem.found.blockers)

    def _start_from(self, guesses: Iterable[list[int]]) -> None:
        timed = [(self._start.makespan_of(guess), guess) for guess in guesses]
        self._makespan, self._best = min(timed)
        self._rank = [self._best.index(i) for i in range(len(self._best))]

    def _branch(self, pending: list[Step]) -> None:
        """Go on from the last of the pending steps; what is to be tried first is put last."""
        step = pending.pop()
        channel = step.advance()
        if channel is None:
            if step.now < self._makespan and not step.stuck:
                self._makespan, self._best = step.now, list(step.started)
            return
        if self._cut(step):
            return
        left = step.left & step.channel_sets[channel]
        blockers = self._problem.found.blockers
        choices = [i for i in bits(left) if not blockers[i] & left]
        for i in sorted(choices, key=self._rank.__getitem__, reverse=True):
            branch = step.fork()
            branch.send(i)
            pending.append(branch)

    def _cut(self, step: Step) -> bool:
        if self._floor_of(step) >= self._makespan:
            return True
        state = step.state
        if self._reached.get(state, step.now + 1) <= step.now:
            return True
        self._reached[state] = step.now
        if len(self._reached) > STATES:
            raise TfwaveError(
                f"the policy 'exact' told {STATES} cases apart and found no proof that an order is the best: "
                "use the policy 'search'"
            )
        return False

    def _floor_of(self, step: Step) -> int:
        """No way to go on ends before this: the work and each channel, what has the longest tail first."""
        compute, channels = step.free_at()
        floor = compute + step.work_left
        for i in self._longest_first:
            if step.waits(i):
                channel = self._problem.channels[i]
                channels[channel] += self._problem.durations[i]
                floor = max(floor, channels[channel] + self._tails[i])
        return floor
