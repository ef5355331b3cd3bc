"""Several trainings in one process under one memory limit."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfwave.bundle.bundle import Bundle
from tfwave.colocate.beside import Barred, left_where_ended, train_beside
from tfwave.colocate.first import FirstStep
from tfwave.colocate.fitting import Fit, fit
from tfwave.colocate.job import Job
from tfwave.colocate.life import Life
from tfwave.colocate.measure import insert_barriers, ledger_job, measure
from tfwave.colocate.planned import ReadyJob, check_names, found, make_ready
from tfwave.colocate.profile import ProfiledStep, constant_bytes
from tfwave.colocate.results import Results
from tfwave.errors import EnforcerError, PlanError
from tfwave.memory.colocation import Colocation
from tfwave.memory.slots import Rooms, room
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.given import GivenPlan, section_of
from tfwave.plan.groups import GroupedJob, Groups
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.runtime.ledger import WAIT_SECONDS, Ledger, LedgerFigures, load_barrier_op
from tfwave.runtime.pool import pool_in_use, pool_limit
from tfwave.sizes import in_words, parse_size

_ROUNDS = 3
"""Of one step of each job, in turn: a group that has waited longer waits for a job that hangs."""
_log = logging.getLogger("tfwave")


def run(
    jobs: Sequence[Job],
    memory_limit: str | int | None = None,
    *,
    plan: GivenPlan | None = None,
    wait_seconds: float | None = None,
) -> Results:
    """Train several jobs at once, so that they never hold more than the limit together (Waterwave section 4).

    1. Each job makes its first steps alone: one to warm up, three that are traced, and one with its barriers. They
       are steps as any other.
    2. A plan cuts each step into node groups (`tfwave.memory.colocation.colocate`), or leaves them to run in turn,
       if they fit in no other way, or kept the cores too busy in point 1. If not all jobs fit, those that come
       first, by priority and then in their order, go on without those that do not fit beside them. What was planned
       is in `Results.plan`, for another run, and what was traced in `Results.bundles`; a `plan` that is given takes
       the place of the traced steps.
    3. From then on each job runs in a thread of its own, as it would alone: only before each group it waits until
       the pool has room for it. What it computes stays the same, bit by bit.
    4. A job that ends or fails leaves the others alone; what it left in the pool, as variables, still counts.

    Nothing is raised for what becomes of a job once steps are made: its result has what it returned until then, and
    in `error` why it ended: its own error, a `PlanError` that says why it has no room, or a `GraphError` that names
    the node at which its step cannot be cut. On Ctrl-C each job ends its step before `KeyboardInterrupt` goes on;
    what they returned is lost, their variables are not.

    The process must have a limited CPU pool (`limit_memory`). What is in it when point 1 is done counts as taken,
    and what the jobs hold between their steps counts once more, as the pool gives a variable's new value up to
    twice what it needs. TensorFlow's graph optimizer must be on; point 1 takes it for its time (`in_grappler`).

    Args:
        jobs: with different names.
        memory_limit: bytes, or as "512MiB"; by default, and at most, that of the pool.
        plan: with these jobs, by their names, or its file: that of an earlier run, or of `tfwave colocate`. A job
            whose step is not what was planned fails, and the others go on.
        wait_seconds: after which a group starts, room or not; said in `Results.figures`. By default a minute, or
            what three steps of all jobs in turn take, if that is longer.

    Raises:
        EnforcerError: no limited pool, a step that is none, another colocation under way.
        EnvironmentUnsupported: no compiler for the native library, or no such TensorFlow.
        PlanError: two jobs of one name, a limit above the pool's, or a plan for other jobs.
    """
    limit = _limit(memory_limit)
    groups = None if plan is None else section_of(plan, Groups)
    load_barrier_op()
    return _Colocating(jobs, limit, wait_seconds, groups).run()


def open_ledger(plan: Colocation, free: int, wait_seconds: float) -> Ledger:
    """A ledger of so many bytes, of which a part is kept: see `run`, and the margins of `Rooms`.

    There may be less than was planned with. So the largest step may take, alone, as much as one that is not cut.
    Where nothing is planned to run side by side, no two groups have room at once.
    """
    rooms = Rooms.of(plan.jobs, free)
    residents = sum(job.resident for job in plan.jobs)
    largest = residents + max(job.needs[0] for job in plan.jobs)
    alone = max(rooms.alone, min(largest, room(free, 1))) - residents
    shared = 1 if plan.is_in_turn else rooms.shared - residents
    return Ledger(max(1, alone), max(1, shared), wait_seconds)


def _limit(wanted: str | int | None) -> int:
    pool = pool_limit()
    limit = pool if wanted is None else parse_size(wanted)
    if limit > pool:
        raise PlanError(
            f"a limit of {in_words(limit)} is above the pool's, {in_words(pool)}: set the pool up with more"
        )
    return limit


@dataclass
class _Colocating:
    """One call of `run`."""

    jobs: Sequence[Job]
    limit: int
    wait_seconds: float | None
    groups: Groups | None = None
    """As planned before."""

    def __post_init__(self) -> None:
        self.lives = {job.name: Life(job) for job in self.jobs}
        self.bundles: dict[str, Bundle] = {}
        if len(self.lives) < len(self.jobs):
            names = [job.name for job in self.jobs]
            twice = next(name for name in names if names.count(name) > 1)
            raise PlanError(f"two jobs are named '{twice}': name them apart")
        if self.groups is not None:
            check_names(self.groups, self.lives)

    def run(self) -> Results:
        """The four points of `run`."""
        groups, ready, free = self._decided() if self.groups is None else self._ready(self.groups)
        if groups is None or not ready:
            return self._results(groups, None)
        plan = Colocation.of(groups)
        wait_seconds = self._wait_seconds(plan)
        with open_ledger(plan, free, wait_seconds) as ledger:
            barred = self._with_barriers(ledger, ready)
        with open_ledger(plan, self.limit - pool_in_use(), wait_seconds) as ledger:
            train_beside(ledger, self._joined(ledger, ready, barred))
        return self._results(groups, ledger.figures())

    def _wait_seconds(self, plan: Colocation) -> float:
        if self.wait_seconds is None:
            return max(WAIT_SECONDS, _ROUNDS * plan.in_turn_seconds)
        return self.wait_seconds

    def _ready(self, groups: Groups) -> tuple[Groups, list[ReadyJob], int]:
        """The jobs that run what was planned, and the bytes that are left to them; the others end."""
        ready = [make_ready(self.lives[planned.job.name], planned) for planned in groups.jobs]
        there = [each for each in ready if each is not None]
        return groups, there, min(groups.limit_bytes, self._left(each.item.graph.node for each in there))

    def _decided(self) -> tuple[Groups | None, list[ReadyJob], int]:
        """The same of what is planned now, from what is measured."""
        profiled = self._measured()
        plan = self._planned(profiled) if profiled else None
        if plan is None:
            return None, [], 0
        groups = plan.section({job.name: graph_print(profiled[job.name].step.view) for job in plan.jobs})
        ready = [self._found(job, profiled[job.name].made) for job in plan.jobs]
        return groups, [each for each in ready if each is not None], plan.limit_bytes

    def _found(self, job: GroupedJob, made: FirstStep) -> ReadyJob | None:
        try:
            return found(job, made)
        except EnforcerError as error:
            self.lives[job.name].fail(error)
            return None

    def _measured(self) -> dict[str, ProfiledStep]:
        found = {name: measure(life) for name, life in self.lives.items()}
        there = {name: step for name, step in found.items() if step is not None}
        self.bundles = {name: step.bundle for name, step in there.items()}
        return there

    def _left(self, instances: Iterable[Iterable[NodeDef]]) -> int:
        """The limit without what is in the pool, and without what instances with barriers will have."""
        return self.limit - pool_in_use() - sum(constant_bytes(nodes) for nodes in instances)

    def _planned(self, profiled: Mapping[str, ProfiledStep]) -> Colocation | None:
        """A plan for the jobs that fit; the others end."""
        begin = time.perf_counter()
        found = self._fit(profiled)
        for name, error in found.left_out.items():
            self.lives[name].fail(error)
        if found.plan is not None:
            groups = ", ".join(f"{job.name} in {len(job.groups)}" for job in found.plan.jobs)
            seconds, free = time.perf_counter() - begin, found.plan.limit_bytes
            _log.info(
                "tfwave: planned in %.1f s into %s of %s, %s; node groups: %s",
                seconds,
                in_words(free),
                in_words(self.limit),
                "in turn" if found.plan.is_in_turn else "side by side",
                groups,
            )
        return found.plan

    def _fit(self, profiled: Mapping[str, ProfiledStep]) -> Fit:
        left = self._left(each.step.view.nodes for each in profiled.values())
        if left < 1:
            taken = f"{in_words(pool_in_use())} of {in_words(self.limit)}"
            full = PlanError(f"the pool is full before any step, with {taken} taken: raise the limit")
            return Fit(None, dict.fromkeys(profiled, full))
        by_priority = sorted(profiled, key=lambda name: -self.lives[name].job.priority)
        return fit([profiled[name].step for name in by_priority], left)

    def _with_barriers(self, ledger: Ledger, ready: Sequence[ReadyJob]) -> list[Barred]:
        """The jobs with their barriers; each makes the first step with them now, beside no other.

        That makes an instance of the step, which holds constants of its own: those that TensorFlow folds on its way
        from the optimized graph to an instance are known only then.
        """
        barred: list[Barred] = []
        for each in ready:
            life = self.lives[each.job.name]
            with left_where_ended(ledger, life):
                run = insert_barriers(life, each.job, each.item, ledger)
                if run is not None:
                    barred.append(Barred(life, run))
        return barred

    def _joined(self, ledger: Ledger, ready: Sequence[ReadyJob], barred: Sequence[Barred]) -> list[Barred]:
        """Those that the ledger takes; there is less room than planned if instances hold more than was known."""
        groups = {each.job.name: each.job for each in ready}
        joined: list[Barred] = []
        for each in barred:
            job = each.life.job
            try:
                ledger.add(ledger_job(groups[job.name], job.priority))
                joined.append(each)
            except EnforcerError as error:
                each.life.fail(error)
        return joined

    def _results(self, groups: Groups | None, figures: LedgerFigures | None) -> Results:
        waited = dict(figures.waited_by_job) if figures else dict[str, float]()
        found = {name: life.result(waited.get(name, 0.0)) for name, life in self.lives.items()}
        return Results(found, None if groups is None else Plan(groups=groups), figures, self.bundles)
