"""Tasks with seconds, one after another on lanes, as the simulator's kernel runs them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tfwave.cost.ticks import in_ticks
from tfwave.sim.engine import Job, Lane, run


@dataclass
class TaskList:
    """Tasks on numbered lanes, added one by one; a lane with a discipline serves them in the order of adding.

    Lanes that share a port slow each other by what they ask of it: that is how waves share compute units.
    """

    lanes: Sequence[Lane]
    bandwidths: Sequence[float]
    _lane_of: list[int] = field(default_factory=list[int], init=False)
    _seconds: list[float] = field(default_factory=list[float], init=False)
    _after: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]], init=False)

    def add(self, lane: int, seconds: float, after: Iterable[int]) -> int:
        """A task that starts when the ones named are done and its lane is free; its number."""
        self._lane_of.append(lane)
        self._seconds.append(seconds)
        self._after.append(tuple(sorted(set(after))))
        return len(self._lane_of) - 1

    def ends(self) -> list[float]:
        """When each task is done, in seconds.

        Raises:
            CostError: the seconds of all tasks sum to too much or too little.
        """
        ticks = in_ticks(self._seconds, [])
        successors: list[list[int]] = [[] for _ in self._lane_of]
        for task, before in enumerate(self._after):
            for earlier in before:
                successors[earlier].append(task)
        pending = [len(before) for before in self._after]
        carried = range(len(self._lane_of))
        job = Job(self._lane_of, ticks.ops, successors, pending, [], self.lanes, [], carried, self.bandwidths)
        return [ticks.seconds(end) for end in run(job).end]
