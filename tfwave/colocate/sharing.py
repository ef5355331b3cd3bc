"""What the jobs of a pool share: who runs, who has what room, and the plan."""

import gc
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfwave.colocate.backgrounds import Backgrounds
from tfwave.colocate.checkpoints import Checkpoints, Standing
from tfwave.colocate.fitting import Fit, Placed, fit, fit_behind, fit_beside
from tfwave.colocate.gate import Gate
from tfwave.colocate.latency import joined, kept_bytes, no_room_kept, warn_beside
from tfwave.colocate.life import Life, let_go
from tfwave.colocate.room import Room
from tfwave.colocate.shape import Shape
from tfwave.errors import CheckpointError, PlanError, TfwaveError
from tfwave.memory.colocation import Colocation
from tfwave.plan.groups import GroupedJob, Groups
from tfwave.runtime.ledger import WAIT_SECONDS
from tfwave.runtime.live.batches import bytes_of
from tfwave.runtime.live.saved import State
from tfwave.runtime.pool import pool_in_use
from tfwave.sizes import in_words

STOP_SECONDS = 120.0
_ROUNDS = 3
"""Of one step of each job, in turn: a group that has waited longer waits for a job that hangs."""
_log = logging.getLogger("tfwave")


class Sharing:
    """Makes each step in its way.

    1. First steps of a shape run alone: nobody knows what they hold.
    2. So does the first with new barriers.
    3. All others run side by side, and their groups ask the ledger.
    4. But for those that have no room there any more, as a newcomer holds it: they run alone, until it has gone.

    Behind each step alone the ledger is opened anew, with what the pool then holds. Where jobs stand is written and
    read while none makes a step.

    Attributes:
        is_ending: no job comes any more; who leaves last closes the ledger, though nobody waits for that.
    """

    def __init__(
        self, limit: int, wait_seconds: float | None, checkpoints: Checkpoints | None = None
    ) -> None:
        """Nothing runs.

        Raises:
            EnforcerError: the process has a ledger already.
        """
        self.gate = Gate(max(STOP_SECONDS, wait_seconds or 0.0))
        self.room = Room(limit)
        self.backgrounds = Backgrounds()
        self.checkpoints = checkpoints
        self.plan: Groups | None = None
        self.is_ending = False
        self._wait_seconds = wait_seconds
        self._shapes: list[Shape] = []
        self._turns: Sequence[tuple[str, str]] = ()
        self._planning = threading.Lock()

    def step(self, shape: Shape, *batch: Any) -> Any:
        """The four cases."""
        if shape.is_known and shape.is_barred:
            with self.gate.beside():
                if self.room.has(shape):
                    with self.room.step(shape):
                        return shape.life.make(shape.run, batch)
        with self.gate.alone():
            return self._alone(shape, batch)

    def take_in(self, shapes: Sequence[Shape], plan: Groups | None = None) -> None:
        """Plan shapes whose first steps were made beside those that are there; one without room is told why."""
        with self._planning:
            try:
                self._take_in([shape for shape in shapes if shape.is_known and not shape.life.ended], plan)
            except TfwaveError as error:
                for shape in shapes:
                    shape.refusal = error

    def left_beside(self, shape: Shape) -> int:
        """Bytes that a step may hold while each of the other jobs makes one.

        Raises:
            EnforcerError: as `Gate.alone`.
            PlanError: none are left by what is in the pool.
        """
        with self._planning:
            others = [other for other in _largest(self._shapes).values() if other.life is not shape.life]
            return self._left([shape]) - sum(map(_peak, others))

    def leave(self, life: Life) -> None:
        """A job has ended, or has another step: what it had counts no more, but for what stays in the pool.

        Its instances hold constants there: what knows a `tf.function` knows itself, and goes when it is collected.
        """
        with self._planning, self.gate.alone():
            self._shapes = [shape for shape in self._shapes if shape.life is not life]
            self.room.close()
            gc.collect()
            if self._shapes or not self.is_ending:
                self._open()

    def begin(self, life: Life) -> None:
        """Before the first step of a job: it goes on from where it stood, if that is known.

        Raises:
            EnforcerError: as `Gate.alone`.
            CheckpointError: it was another job, or cannot be read.
            PlanError: its variables have no room while they are read.
        """
        saved = self.checkpoints.find(life.job.name) if self.checkpoints else None
        if saved is None or self.checkpoints is None or life.state is None:
            life.begin(0)
            return
        with self.gate.alone():
            self._check_free(f"the checkpoint of the job '{life.job.name}'", sum(saved.files.values()))
            try:
                life.state.read(self.checkpoints.prefix(saved))
            except CheckpointError as error:
                raise CheckpointError(
                    f"the job '{life.job.name}' does not go on: {error}: give it the model and optimizer that were "
                    "saved, built, or another name"
                ) from error
            finally:
                self._open()
        life.begin(saved.steps)

    def save(self, lives: Iterable[Life]) -> Mapping[str, int]:
        """Write where jobs stand; how many steps each has made, by name.

        Raises:
            EnforcerError: as `Gate.alone`.
            CheckpointError: a job cannot be written, or began a step meanwhile; the earlier checkpoint stays.
            TfwaveError: the place cannot be written; likewise.
        """
        known = [(life, life.state) for life in lives if life.state is not None]
        if self.checkpoints is None or not known:
            return {}
        with self.gate.alone():
            standing = {life.job.name: _standing(life, state) for life, state in known if life.is_whole}
            self.checkpoints.save(standing)
            self._open()
        return {name: job.steps for name, job in standing.items()}

    def _alone(self, shape: Shape, batch: tuple[Any, ...]) -> Any:
        """Cases 1, 2 and 4; what a step that failed had in the pool is let go before that is looked at."""
        newcomer = shape if shape.barred is None else None
        self.room.remove(shape)
        try:
            if shape.is_known:
                return shape.life.make(shape.run if shape.is_barred else shape.bar, batch)
            self._check_free(f"a batch of the job '{shape.life.job.name}'", bytes_of(batch))
            return shape.life.make(shape.first, batch)
        except Exception as error:  # the job's own: any
            let_go(error)
            raise
        finally:
            self._open(newcomer)

    def _check_free(self, what: str, size: int) -> None:
        """TensorFlow ends the process where what a session is fed has no room."""
        free = self.room.limit - pool_in_use()
        if size > free:
            raise PlanError(
                f"{what} takes {in_words(size)}, and the pool has {in_words(max(0, free))} left: make it smaller, "
                "or raise the limit"
            )

    def _open(self, newcomer: Shape | None = None) -> None:
        """A newcomer that has no room there, or leaves too little, has come in vain.

        That is looked at twice: models whose jobs have ended may wait to be collected.
        """
        shapes = [shape for shape in self._shapes if shape.barred]
        refused = self.room.open(shapes, self._turns, self._longest_wait())
        if newcomer in shapes and refused:
            self.room.close()
            gc.collect()
            refused = self.room.open(shapes, self._turns, self._longest_wait())
        if newcomer in shapes and refused:
            newcomer.refusal = refused.get(newcomer) or next(iter(refused.values()))
            self.room.open(
                [shape for shape in shapes if shape is not newcomer], self._turns, self._longest_wait()
            )

    def _longest_wait(self) -> float:
        if self._wait_seconds is None:
            return max(WAIT_SECONDS, _ROUNDS * (self.plan.in_turn_seconds if self.plan else 0.0))
        return self._wait_seconds

    def _take_in(self, shapes: Sequence[Shape], plan: Groups | None) -> None:
        if plan is not None:
            self._shapes += shapes
            self._decide(Colocation.of(plan), plan)
        elif shapes:
            self._plan(shapes, self._left(shapes))
            self._shapes += [shape for shape in shapes if shape.job is not None]

    def _left(self, shapes: Iterable[Shape]) -> int:
        """The limit without what is in the pool, and without what instances with barriers will have."""
        with self.gate.alone():
            in_use = pool_in_use()
        left = self.room.limit - in_use - sum(shape.constants for shape in shapes)
        if left < 1:
            taken = f"{in_words(in_use)} of {in_words(self.room.limit)}"
            raise PlanError(f"the pool is full before any step, with {taken} taken: raise the limit")
        return left

    def _plan(self, shapes: Sequence[Shape], left: int) -> None:
        """The largest shape of each job is planned; its others are cut as it is."""
        begin = time.perf_counter()
        placed = _largest(self._shapes)
        leading = _largest([*self._shapes, *shapes])
        fresh = [shape for shape in leading.values() if shape in shapes]
        fresh.sort(key=lambda shape: -shape.life.job.rank)
        stays = [shape for name, shape in placed.items() if leading[name] is shape]
        there = [shape.placed for shape in stays if shape.placed is not None and not shape.is_kept]
        kept = [shape.job for shape in stays if shape.job is not None and shape.is_kept]
        kept += _keep([shape for shape in fresh if shape.is_kept], kept, there, left)
        found = _fit(stays, fresh, left - sum(map(kept_bytes, kept)))
        for shape in fresh:
            shape.refusal = shape.refusal or found.left_out.get(shape.life.job.name)
        plan = joined(found.plan, kept, left) if fresh else None
        if plan is not None:
            _say(plan, self.room.limit, time.perf_counter() - begin)
            self._place(plan, leading)
            _warn(plan, leading)
        for shape in (*self._shapes, *shapes):
            job = leading[shape.life.job.name].job
            if shape is not leading[shape.life.job.name] and job is not None:
                shape.follow(job)

    def _place(self, plan: Colocation, leading: dict[str, Shape]) -> None:
        for job in plan.jobs:
            shape = leading[job.name]
            try:
                shape.place(job)
            except TfwaveError as error:
                if shape.job is None:
                    shape.refusal = error
        self._decide(plan, plan.section({job.name: leading[job.name].graph for job in plan.jobs}))

    def _decide(self, plan: Colocation, groups: Groups) -> None:
        self.plan, self._turns = groups, plan.turns


def _standing(life: Life, state: State) -> Standing:
    """The gate lets others in behind what takes too long."""
    steps = life.steps

    def write(prefix: str) -> None:
        try:
            state.write(prefix)
        except CheckpointError as error:
            raise CheckpointError(f"the job '{life.job.name}' is not saved: {error}") from error
        if not life.is_whole or life.steps != steps:
            raise CheckpointError(
                f"the job '{life.job.name}' is not saved: writing took so long that its steps went on meanwhile"
            )

    return Standing(steps, write)


def _fit(stays: Sequence[Shape], fresh: Sequence[Shape], rest: int) -> Fit:
    """Those whose memory is not kept, each job by one shape."""
    behind = {shape for shape in (*stays, *fresh) if shape.life.job.background}
    placed = {shape: shape.placed for shape in stays if shape.placed is not None and not shape.is_kept}
    steps = {shape: shape.step for shape in fresh if shape.step is not None and not shape.is_kept}
    if not fresh or not (placed or steps):
        return Fit(None, {})
    if not behind:
        return fit_beside(list(placed.values()), list(steps.values()), rest)
    return fit_behind(
        [each for shape, each in placed.items() if shape not in behind],
        [step for shape, step in steps.items() if shape not in behind],
        [each for shape, each in placed.items() if shape in behind],
        [step for shape, step in steps.items() if shape in behind],
        rest,
    )


def _keep(
    fresh: Iterable[Shape], kept: Sequence[GroupedJob], there: Sequence[Placed], left: int
) -> list[GroupedJob]:
    """The jobs of new shapes whose memory can be kept beside those that run; the others are told why it cannot."""
    found: list[GroupedJob] = []
    for shape in fresh:
        try:
            job = shape.keep()
            rest = left - sum(map(kept_bytes, (*kept, *found, job)))
            if rest < 0 or (there and fit([], rest, [each.job for each in there]).plan is None):
                raise no_room_kept(job, left)
            found.append(job)
        except TfwaveError as error:
            shape.refusal = error
    return found


def _warn(plan: Colocation, leading: Mapping[str, Shape]) -> None:
    for job in plan.jobs:
        most = leading[job.name].life.job.latency_at_most
        if most is not None:
            warn_beside(job, [other for other in plan.jobs if other is not job], most)


def _largest(shapes: Iterable[Shape]) -> dict[str, Shape]:
    """Of each job, the one with the highest peak, the first of equals."""
    largest: dict[str, Shape] = {}
    for shape in shapes:
        name = shape.life.job.name
        if name not in largest or _peak(shape) > _peak(largest[name]):
            largest[name] = shape
    return largest


def _peak(shape: Shape) -> int:
    if shape.step is not None:
        return shape.step.profile.peak
    return shape.job.peak if shape.job is not None else 0


def _say(plan: Colocation, limit: int, seconds: float) -> None:
    _log.info(
        "tfwave: planned in %.1f s into %s of %s, %s; node groups: %s",
        seconds,
        in_words(plan.limit_bytes),
        in_words(limit),
        "in turn" if plan.is_in_turn else "side by side",
        ", ".join(f"{job.name} in {len(job.groups)}" for job in plan.jobs),
    )
