"""Jobs that come and go in one process under one memory limit."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tfwave.colocate.checkpoints import Checkpoints
from tfwave.colocate.handle import Handle
from tfwave.colocate.job import Job
from tfwave.colocate.life import Life
from tfwave.colocate.member import Cohort, Member
from tfwave.colocate.planned import check_names
from tfwave.colocate.sharing import STOP_SECONDS, Sharing
from tfwave.errors import CheckpointError, EnforcerError, PlanError
from tfwave.plan.given import GivenPlan, section_of
from tfwave.plan.groups import Groups
from tfwave.plan.plan import Plan
from tfwave.runtime.ledger import LedgerFigures, load_barrier_op
from tfwave.runtime.pool import pool_limit
from tfwave.sizes import in_words, parse_size

_TICK_SECONDS = 0.2
_SAY_SECONDS = 10.0
_log = logging.getLogger("tfwave")


class Pool:
    """Trains jobs in one limited pool; they come, change and go while others run (Waterwave section 4).

    1. The first steps of a job, and of each new shape of its batches, run alone: one to warm up, three that are
       traced, and one with its barriers. The others wait between their steps, and go on in between.
    2. Then it is planned beside them. They keep their groups, unless cutting all anew saves so much that it is
       worth a step of each that runs alone. A job that has no room ends with a `PlanError`, and they go on.
    3. From then on it runs in a thread of its own: only before each group it waits until the pool has room for it,
       and until no job runs with which it takes turns. A job of a higher priority takes none: it waits for memory
       only. What a job computes stays the same, bit by bit.
    4. A job that ends or fails leaves the others alone; what it left in the pool, as variables, still counts.

    With `checkpoints`, `save` writes where its jobs stand, and a job is written when it ends, unless a step of it
    failed. Jobs are known by their names: one that the directory has, in another process or later in this one, gets
    its variables' values back and goes on behind the steps that it had made. Give it the same batches: those of
    these steps are passed over. What it then computes is, bit by bit, what it would have without the break. Only
    what `Job.checkpoint` names is kept: no step from `Handle.change`, and no state outside of variables.

    Leaving the `with` block waits until all jobs have ended. On an exception, as Ctrl-C, each ends its step first.

    The process must have a limited CPU pool (`limit_memory`). What is in it when a job is planned counts as taken,
    and what the jobs hold between their steps counts once more, as the pool gives a variable's new value up to
    twice what it needs. TensorFlow's graph optimizer must be on; point 1 takes it for its time (`in_grappler`).

    Args:
        limit: bytes, or as "512MiB"; by default, and at most, that of the pool.
        wait_seconds: after which a group starts, room or not; said in `figures`. By default a minute, or what three
            steps of all jobs in turn take, if that is longer.
        checkpoints: a directory of this pool's own; it need not exist.

    Raises:
        CheckpointError: the directory has a checkpoint of a pool with another limit, or one that is not whole.
        EnforcerError: no limited pool, or there is another `Pool`.
        EnvironmentUnsupported: no compiler for the native library, or no such TensorFlow.
        PlanError: a limit above the pool's.
    """

    def __init__(
        self,
        limit: str | int | None = None,
        *,
        wait_seconds: float | None = None,
        checkpoints: str | Path | None = None,
    ) -> None:
        """Nothing runs."""
        checked = _limit(limit)
        kept = None if checkpoints is None else Checkpoints(Path(checkpoints), checked)
        load_barrier_op()
        self._sharing = Sharing(checked, wait_seconds, kept)
        self._members: list[Member] = []
        self._adding = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            self._end()

    @property
    def plan(self) -> Plan | None:
        """What was planned last; None if nothing was."""
        groups = self._sharing.plan
        return None if groups is None else Plan(groups=groups)

    @property
    def figures(self) -> LedgerFigures:
        """What was counted so far."""
        return self._sharing.room.figures()

    def add(self, job: Job) -> Handle:
        """Let a job make its steps; returns at once.

        Raises:
            CheckpointError: the pool's directory has a job of this name, and this one has no `checkpoint`.
            EnforcerError: a step that is none, or a `checkpoint` that is none for it; or behind the `with` block.
            PlanError: a job of this name runs.
        """
        return self.add_all([job])[0]

    def add_all(self, jobs: Sequence[Job], plan: GivenPlan | None = None) -> tuple[Handle, ...]:
        """The same of several, which are planned together; those that come first, by priority, have room first.

        Args:
            jobs: with different names.
            plan: with these jobs, by their names, or its file: that of an earlier pool, or of `tfwave colocate`. A
                job whose step is not what was planned fails, and the others go on.

        Raises:
            CheckpointError: as `add`.
            EnforcerError: as `add`.
            PlanError: as `add`; or a plan for other jobs, or for some of those that run.
        """
        groups = None if plan is None else section_of(plan, Groups)
        with self._adding:
            return self._add(jobs, groups)

    def save(self) -> Mapping[str, int]:
        """Write where each job with a `checkpoint` stands, as soon as all are between two steps; then they go on.

        The earlier checkpoint is replaced when all is written, and stays if this fails or the process is killed.
        Jobs that are not in the pool stay in the directory as they are, and so does one of which a step failed.

        Returns:
            How many steps each had made, by name, with those before a checkpoint; of jobs that have ended, none.

        Raises:
            CheckpointError: the pool has no directory, a job cannot be written, or writing took so long that its
                steps went on.
            EnforcerError: a step that runs does not end in time.
            TfwaveError: the directory cannot be written; names it.
        """
        if self._sharing.checkpoints is None:
            raise CheckpointError("the pool has no directory to save in: give Pool(checkpoints=...)")
        return self._sharing.save([member.life for member in self._members if not member.ended])

    def _add(self, jobs: Sequence[Job], groups: Groups | None) -> tuple[Handle, ...]:
        self._check(jobs, groups)
        lives = [Life(job) for job in jobs]
        cohort = Cohort(len(lives), partial(self._sharing.take_in, plan=groups))
        planned = {each.job.name: each for each in groups.jobs} if groups else {}
        members = [Member(life, self._sharing, cohort, planned.get(life.job.name)) for life in lives]
        self._members = [*[member for member in self._members if not member.ended], *members]
        for member in members:
            member.start()
        return tuple(members)

    def _check(self, jobs: Sequence[Job], groups: Groups | None) -> None:
        if self._sharing.is_ending:
            raise EnforcerError("the pool has ended: add jobs inside of its with block, or to another pool")
        running = [member.name for member in self._members if not member.ended]
        names = [*running, *[job.name for job in jobs]]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(f"two jobs are named '{name}': name them apart")
        if groups is not None:
            check_names(groups, names)
        saved = self._sharing.checkpoints
        for job in jobs:
            if saved and saved.find(job.name) and job.checkpoint is None:
                raise CheckpointError(
                    f"the pool's directory has a job '{job.name}', and this one has no checkpoint: give it "
                    "Job(checkpoint=...), or another name"
                )

    def _wait(self) -> None:
        """Says now and then how far they are."""
        said = time.monotonic()
        while running := [member for member in self._members if not member.ended]:
            running[0].wait(_TICK_SECONDS)
            if time.monotonic() - said > _SAY_SECONDS:
                said = time.monotonic()
                steps = ", ".join(f"{member.name} {member.steps}" for member in self._members)
                _log.info("tfwave: steps so far: %s", steps)

    def _end(self) -> None:
        """Each ends with its step."""
        with self._adding:
            self._sharing.is_ending = True
        for member in self._members:
            member.cancel()
        end = time.monotonic() + STOP_SECONDS
        stuck = [m.name for m in self._members if not m.wait(max(0.0, end - time.monotonic()))]
        self._sharing.room.close()
        if stuck:
            raise EnforcerError(f"a step of {', '.join(stuck)} does not end: it is left behind")


def _limit(wanted: str | int | None) -> int:
    pool = pool_limit()
    limit = pool if wanted is None else parse_size(wanted)
    if limit > pool:
        raise PlanError(
            f"a limit of {in_words(limit)} is above the pool's, {in_words(pool)}: set the pool up with more"
        )
    return limit
