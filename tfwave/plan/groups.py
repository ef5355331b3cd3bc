"""The section of a plan on jobs in one memory: their steps in node groups, and whose turn it is when."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import fsum

from tfwave.errors import PlanError
from tfwave.plan.fingerprint import GraphPrint

UNKNOWN_SHARE = 0.5
"""The compute share of a step of which it is not known: two such steps do not slow each other."""


@dataclass(frozen=True)
class NodeGroup:
    """Ops that run between two barriers.

    Attributes:
        ops: their names, each once; by level, then by name.
        first_level: the longest-path level of the first, each while loop taken as one node.
        last_level: of the last.
        net: bytes that stay allocated by the group; negative where it frees more.
        transient: the most bytes that it holds at once above what was held before it; never less than `net` or 0.
        piece: the most bytes that one of its ops asks for at once.
        seconds: of its ops, one after the other, each once; 0 where no costs are given.
    """

    ops: tuple[str, ...]
    first_level: int
    last_level: int
    net: int
    transient: int
    piece: int = 0
    seconds: float = 0.0

    @property
    def allocates(self) -> bool:
        """Is it one of the paper's ANGs, which leave more allocated than they found? The others are DNGs."""
        return self.net > 0


@dataclass(frozen=True)
class GroupedJob:
    """One step of a job in node groups.

    `resident` are the bytes that the job holds between its steps. `slowed_at_most` is the most that its steps may
    come slower than if it ran alone, as a share of the step: at 0.25, at least 4 in the time of 5; None is no
    limit. `compute_share` is what the step keeps busy of the device's compute units when it runs alone.

    Raises:
        PlanError: as `check_shares`.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    resident: int
    slowed_at_most: float | None = None
    compute_share: float = UNKNOWN_SHARE

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        check_shares(self.name, self.slowed_at_most, self.compute_share)

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Bytes above `resident` before each group, and after the last."""
        return tuple(accumulate((group.net for group in self.groups), initial=0))

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """The most bytes above `resident` from each group on, and after the last."""
        peaks = (held + group.transient for held, group in zip(self.held, self.groups, strict=False))
        needs = accumulate(reversed([*peaks, self.held[-1]]), max)
        return tuple(reversed(list(needs)))

    @property
    def peak(self) -> int:
        """The most bytes that it holds at once when it runs alone, `resident` included."""
        return self.resident + self.needs[0]

    @cached_property
    def piece(self) -> int:
        """The most bytes that one of its ops asks for at once."""
        return max((group.piece for group in self.groups), default=0)

    @property
    def seconds(self) -> float:
        """Of its step when it runs alone: its ops one after the other."""
        return fsum(group.seconds for group in self.groups)


@dataclass(frozen=True, order=True)
class Turn:
    """A node group, by the name of its job and its number among the job's groups."""

    job: str
    group: int


Slot = tuple[Turn, ...]
"""Groups of different jobs that run side by side; all are done before the next slot starts."""


@dataclass(frozen=True)
class OwnStep:
    """What a step fetches, and the print of what that needs of the graph in which the program made it."""

    graph: GraphPrint
    fetches: tuple[str, ...]


@dataclass(frozen=True)
class PlannedJob:
    """A job in its groups, the print of the graph that its step runs, and its own step, where that is known."""

    job: GroupedJob
    graph: GraphPrint
    own: OwnStep | None = None


@dataclass(frozen=True)
class Groups:
    """How jobs share one memory (Waterwave section 4), and what that promises.

    Attributes:
        limit_bytes: what the jobs may hold, resident bytes included.
        jobs: by name.
        slots: in turn.
        peak_bytes: predicted: the most that the jobs hold at once.
        seconds: predicted: in which each job makes one step.
        in_turn_seconds: predicted: the same, one job after the other.

    Raises:
        PlanError: two jobs of one name, a group without its turn or out of turn.
    """

    limit_bytes: int
    jobs: tuple[PlannedJob, ...]
    slots: tuple[Slot, ...]
    peak_bytes: int
    seconds: float
    in_turn_seconds: float

    def __post_init__(self) -> None:
        """Hold what every reader relies on."""
        if self.limit_bytes < 1:
            raise PlanError(f"the plan has jobs in a limit of {self.limit_bytes} bytes: give it room")
        check_slots([planned.job for planned in self.jobs], self.slots)

    @property
    def is_in_turn(self) -> bool:
        """Does nothing run side by side?"""
        return one_at_a_time(self.slots)


def check_shares(name: str, slowed_at_most: float | None, compute_share: float) -> None:
    """Refuse shares that no job can have.

    Raises:
        PlanError: `slowed_at_most` is below 0 or not a number, or the compute share is not above 0 and at most 1.
    """
    if not 0 < compute_share <= 1:
        raise PlanError(
            f"the job '{name}' keeps a share of {compute_share} busy: give one above 0 and at most 1"
        )
    if slowed_at_most is not None and not slowed_at_most >= 0:
        raise PlanError(
            f"the job '{name}' allows to be slowed by {slowed_at_most}: give a share of 0 or more"
        )


def one_at_a_time(slots: Iterable[Slot]) -> bool:
    """Does nothing run side by side in these slots?"""
    return all(len(slot) == 1 for slot in slots)


def nothing_done(jobs: Sequence[GroupedJob]) -> dict[str, int]:
    """Of each job, how many groups are done at the start: none.

    Raises:
        PlanError: two jobs have one name.
    """
    done = {job.name: 0 for job in jobs}
    if len(done) < len(jobs):
        names = [job.name for job in jobs]
        raise PlanError(
            f"two jobs are named '{next(n for n in names if names.count(n) > 1)}': name them apart"
        )
    return done


def check_slots(jobs: Sequence[GroupedJob], slots: Iterable[Slot]) -> None:
    """Refuse slots in which not each group has its turn once, each job's in their order and in different slots.

    Raises:
        PlanError: says which group; or two jobs have one name.
    """
    done = nothing_done(jobs)
    for number, slot in enumerate(slots):
        if not slot:
            raise PlanError(f"slot {number} is empty: leave it out")
        due = {Turn(job.name, done[job.name]) for job in jobs if done[job.name] < len(job.groups)}
        for turn in slot:
            if turn not in due:
                raise PlanError(f"slot {number} has group {turn.group} of the job '{turn.job}' out of turn")
            due.remove(turn)
            done[turn.job] += 1
    for job in jobs:
        if done[job.name] != len(job.groups):
            raise PlanError(f"group {done[job.name]} of the job '{job.name}' has no slot")
