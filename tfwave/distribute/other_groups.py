"""Other groups of workers, as a worker's variables have to do with them (sec. 5.2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfwave.reduce.groups import Progress
from tfwave.reduce.held import Vector
from tfwave.reduce.meeting import Meeting
from tfwave.reduce.meeting_place import MeetingPlace
from tfwave.reduce.options import Options
from tfwave.reduce.place import Place
from tfwave.runtime.reduced_gradients import size_of


class OtherGroups:
    """What they did is added to the variables that are trained; what this one did, they are told."""

    def __init__(self, place: Place, options: Options, layout: str, variables: Sequence[Any]) -> None:
        """Nothing is called before `begin`.

        Args:
            place: which worker this is, and of which groups.
            options: the rules.
            layout: a print of what must be the same in all workers.
            variables: what is trained, of one float type.

        Raises:
            EnforcerError: as `Meeting`.
        """
        self._variables = variables
        self.share = len(place.group) / len(place.workers)
        """Of a step of all workers, that of a reduce of this group."""
        is_first = place.rank == 0
        self.place = MeetingPlace(place.groups, options.deadline, options.patience) if is_first else None
        """Where groups meet, if it is in this process."""
        dtype, size = np.asarray(variables[0]).dtype, sum(map(size_of, variables))
        self.meeting = Meeting(
            place.workers[0],
            options.credentials,
            options.patience,
            place.rank,
            f"{place.groups} {layout}",
            size,
            dtype,
        )
        self._progress = Progress(np.zeros(size, dtype), np.zeros(size, dtype))
        self._has_ended = False

    @property
    def base(self) -> Vector:
        """What the variables would be without what this group did."""
        return self._progress.base

    def begin(self) -> None:
        """The variables are those that all groups begin with."""
        begun = self._flat()
        self._progress = Progress(begun, begun)

    def go_on(self, base: Vector) -> None:
        """The variables are those of another worker of the group, with this base."""
        self._progress.base = base

    def own(self) -> Vector:
        """What this group did, by its variables."""
        return self._progress.own(self._flat())

    def step_to(self, others: Vector) -> Vector:
        """By how much variables move that get what the others did since the beginning."""
        return self._progress.step_to(others)

    def end(self, version: int, left: int) -> None:
        """Wait for the other groups, and give the variables the values that all of them end with.

        Args:
            version: the reduces that are in them.
            left: how many workers of the group there are.
        """
        weights = self._progress.ended(self.meeting.end(version, self.own(), left))
        start = 0
        for variable in self._variables:
            size = size_of(variable)
            variable.assign(weights[start : start + size].reshape(variable.shape))
            start += size
        self._has_ended = True

    def close(self) -> None:
        """Leave; who left before the end, and has the place where groups meet, ends the training for all."""
        if self.place is not None and not self._has_ended:
            self.place.close()
        self.meeting.close()

    def _flat(self) -> Vector:
        return np.concatenate([np.asarray(variable).ravel() for variable in self._variables])
