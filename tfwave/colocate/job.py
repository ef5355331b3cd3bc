"""What is to be trained beside what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tfwave.colocate.pacing import Pacing
from tfwave.errors import PlanError

_BEHIND_ALL = -(1 << 63)


@dataclass(frozen=True)
class SessionStep:
    """A step of a `tf.compat.v1.Session`.

    Attributes:
        session: in this process, with its variables initialised.
        fetches: what it runs, as for `session.run`.
        feeds: the tensors that the parts of a batch are fed to, in their order.
    """

    session: Any
    fetches: Any
    feeds: Sequence[Any] = ()


@dataclass(frozen=True)
class Job:
    """One of several trainings in this process.

    Attributes:
        name: what messages and results call it.
        step: a `tf.function` that makes one training step, called with the parts of a batch; or a `SessionStep`.
        batches: a tuple for each step, or a single value; all of one shape and type. The job ends with them.
        slowed_at_most: the most that its steps may come slower than if it ran alone, by the plan's model, as a
            share of the step; None is no limit.
        priority: of jobs that wait for memory, those of the highest go first.
        latency_at_most: seconds that 95 of 100 steps may take once they are planned, with all that they wait, as
            of inference beside training; None is no limit. The memory of its steps is kept for it: it waits for
            none, and takes no turns. Refused where its step takes longer alone, or where that memory is not there;
            what others' first steps, which run alone, delay is not promised. `JobResult` says what it came to.
        checkpoint: all that its steps change, for a `Pool` with `checkpoints`: a `tf.train.Checkpoint` of model and
            optimizer, both built; of a `SessionStep` a `tf.compat.v1.train.Saver`. None: it is not saved.
        fit_slowed_at_most: the most that its step may come slower, as a share of it, by being made to fit where it
            has no room: with tensors on the host, or made again, see `tfwave.fit_memory`. By the model of ``tfwave
            fit``; its first steps need room as they are. None: a job that has no room ends.
        background: it takes only what the other jobs leave: its threads get the cores where no other thread wants
            them, it waits for memory behind all others, and it takes turns with none (DeepPool section 5). Its step
            is a `SessionStep` of a `background_session`.
        slowdown_at_most: of a background: as 1.05, how many times as long as without it the planned steps of any
            other job may take; else it is held for some of them, as `Background` is. None: it is measured only.
            `JobResult` says what it came to.

    Raises:
        PlanError: a job without a name, a latency that is not above 0, a background with a priority or a latency,
            or a slowdown that is not above 1, or not of a background.
    """

    name: str
    step: Any
    batches: Iterable[Any]
    slowed_at_most: float | None = None
    priority: int = 0
    latency_at_most: float | None = None
    checkpoint: Any = None
    fit_slowed_at_most: float | None = None
    background: bool = False
    slowdown_at_most: float | None = None

    def __post_init__(self) -> None:
        """Refuse what messages could not name."""
        if not self.name:
            raise PlanError("a job has no name: give it one")
        if self.latency_at_most is not None and not self.latency_at_most > 0:
            raise PlanError(
                f"the job '{self.name}' has a latency_at_most of {self.latency_at_most} s: give more than 0"
            )
        if self.background and (self.priority or self.latency_at_most is not None):
            raise PlanError(
                f"the job '{self.name}' is a background, which goes behind all others: give it neither a priority "
                "nor a latency_at_most"
            )
        if self.slowdown_at_most is not None and not self.background:
            raise PlanError(
                f"the job '{self.name}' has a slowdown_at_most and is no background: give background=True, or "
                "slowed_at_most for what it puts up with itself"
            )
        Pacing(self.slowdown_at_most)

    @property
    def rank(self) -> int:
        """The priority; that of a background is below all."""
        return _BEHIND_ALL if self.background else self.priority
