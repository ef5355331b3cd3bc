"""Waterwave's Algorithm 1, with what is wrong in the printed one mended."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from tfwave.memory.schedule import modelled_peak
from tfwave.plan.groups import GroupedJob, Slot, Turn


def algorithm_one(jobs: Sequence[GroupedJob], limit_bytes: int) -> tuple[Slot, ...]:
    """Node groups in two streams: what is at the same place in both is a pair (Waterwave, section 4.2).

    Jobs come by the size of their largest group, largest first, then by name. A job allocates until it holds the
    most; the groups until then go to the first stream, the others to the second, with two exceptions: the first p
    groups of the second job go to the second stream, beside the last p allocating ones of the first job; and the
    last job's others go to the first stream where it has a place before the second stream's next.

    Differs from the printed algorithm:

    Case 1: each group goes to a place behind that of its job's last group. The printed one takes the next free
    place of a stream, which puts two groups of one job into a pair, or a later group before an earlier one.
    Case 2: p is the most groups with which the modelled peak stays within `limit_bytes`, never more than either
    job allocates in. The printed p = (limit - peak) / split_size - 1 takes all groups to be of one size, and can be
    below 0.

    Where not even p = 0 fits, that is what it returns: ask `modelled_peak`.

    Raises:
        PlanError: two jobs have one name.
    """
    ordered = sorted(jobs, key=lambda job: (-_largest(job), job.name))
    most = min(map(_allocating, ordered[:2])) if len(ordered) > 1 else 0
    for ahead in range(most, 0, -1):
        slots = _in_streams(ordered, ahead)
        if modelled_peak(ordered, slots) <= limit_bytes:
            return slots
    return _in_streams(ordered, 0)


def _largest(job: GroupedJob) -> int:
    return max((abs(group.net) for group in job.groups), default=0)


def _allocating(job: GroupedJob) -> int:
    """After how many of its groups it holds the most."""
    return job.held.index(max(job.held))


def _in_streams(jobs: Sequence[GroupedJob], ahead: int) -> tuple[Slot, ...]:
    """The pairs, if the second job has `ahead` groups beside the last allocating ones of the first."""
    turned = _allocating(jobs[0]) if jobs else 0
    first, second = _Stream(0), _Stream(turned)
    for number, job in enumerate(jobs):
        allocating = _allocating(job)
        is_last = number == len(jobs) - 1
        place = -1
        for group in range(len(job.groups)):
            if number == 1 and group < ahead:
                stream, place = second, turned - ahead + group
            else:
                stays = group < allocating or (is_last and first.free(place) < second.free(place))
                stream = first if stays else second
                place = stream.free(place)
            stream.turns[place] = Turn(job.name, group)
    return _pairs(first, second)


@dataclass
class _Stream:
    """The groups of a stream by place; none comes before `start`, but where it is put there on purpose."""

    start: int
    turns: dict[int, Turn] = field(default_factory=dict[int, Turn])

    def free(self, behind: int) -> int:
        """The first place that is free, behind a given one."""
        return next(place for place in count(max(self.start, behind + 1)) if place not in self.turns)


def _pairs(first: _Stream, second: _Stream) -> tuple[Slot, ...]:
    """What is at the same place in both, without the places at which there is nothing."""
    places = sorted(first.turns.keys() | second.turns.keys())
    return tuple(
        [
            tuple([stream.turns[place] for stream in (first, second) if place in stream.turns])
            for place in places
        ]
    )
