"""One shape of a job's batches: its first steps, its groups, and the step with their barriers."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from tfwave.bundle.bundle import Bundle
from tfwave.colocate.first_steps import FirstSteps
from tfwave.colocate.fitting import Placed
from tfwave.colocate.latency import check_alone
from tfwave.colocate.life import Life, Run, Stepping
from tfwave.colocate.measure import insert_barriers, measure
from tfwave.colocate.planned import ReadyJob, found, make_ready
from tfwave.colocate.profile import ProfiledStep, constant_bytes
from tfwave.errors import EnforcerError
from tfwave.memory.colocation import JobStep
from tfwave.memory.groups import levelled
from tfwave.plan.fingerprint import GraphPrint, graph_print
from tfwave.plan.groups import GroupedJob, NodeGroup, PlannedJob
from tfwave.runtime.live.batches import out_of_pool


class Shape:
    """Steps of a job with batches of one shape.

    Attributes:
        name: to the ledger: the job's, of a later shape with what its batches are.
        life: the job's.
        job: as planned, by the job's name; None until it is.
        barred: by its own name, in the groups that its barriers ask for; None until it has some.
        refusal: why it makes no other step.
    """

    def __init__(self, name: str, life: Life, planned: PlannedJob | None = None) -> None:
        """Nothing has run; a job that is `planned` needs no measuring."""
        self.name = name
        self.life = life
        self.job: GroupedJob | None = None
        self.barred: GroupedJob | None = None
        self.refusal: Exception | None = None
        self._planned = planned
        self._ready: ReadyJob | None = None
        self._runs: dict[tuple[NodeGroup, ...], Run] = {}
        self._first = FirstSteps[ProfiledStep | ReadyJob](life, _finder(planned))

    def first(self, *batch: Any) -> Any:
        """Make one of the first steps."""
        return out_of_pool(self._first.step(*batch))

    def settle(self) -> bool:
        """After each of the first steps: was it the last?"""
        if self._first.settle():
            return False
        self.refusal = self._first.refusal
        if isinstance(self._first.found, ReadyJob) and self._planned:
            self.job, self._ready = self._planned.job, self._first.found
        return True

    def close(self) -> None:
        """The job has ended."""
        self._first.close()

    @property
    def is_known(self) -> bool:
        """Have the first steps told what there was to know?"""
        return self._first.found is not None

    @cached_property
    def step(self) -> JobStep | None:
        """As measured; None where a plan was given."""
        measured = self._first.found
        return measured.step if isinstance(measured, ProfiledStep) else None

    @property
    def bundle(self) -> Bundle | None:
        """What was traced; None likewise."""
        measured = self._first.found
        return measured.bundle if isinstance(measured, ProfiledStep) else None

    @property
    def graph(self) -> GraphPrint:
        """The print of what runs."""
        if self.step is not None:
            return graph_print(self.step.view)
        assert self._planned is not None
        return self._planned.graph

    @property
    def placed(self) -> Placed | None:
        """What planning others needs to know; None before it is planned itself."""
        return Placed(self.job, self.step) if self.job else None

    @property
    def constants(self) -> int:
        """The bytes that an instance with barriers will hold."""
        return constant_bytes(self.step.view.nodes) if self.step else 0

    def place(self, job: GroupedJob) -> None:
        """Plan the shape; its next step gets the barriers, if they are others.

        Raises:
            EnforcerError: a group has no place in what TensorFlow runs.
        """
        measured = self._first.found
        if isinstance(measured, ProfiledStep) and (self.job is None or job.groups != self.job.groups):
            self._ready = found(replace(job, name=self.name), measured.made)
        self.job = job

    def keep(self) -> GroupedJob:
        """The job in one group, whose memory is kept for it.

        Raises:
            PlanError: it does not keep its promise even alone.
        """
        assert self.step is not None
        assert self.life.job.latency_at_most is not None
        job = self.step.in_groups(levelled(self.step.view, self.step.profile, self.step.costs).whole)
        check_alone(job, self.life.job.latency_at_most)
        return job

    @property
    def is_kept(self) -> bool:
        """Is its memory kept for it?"""
        return self.life.job.latency_at_most is not None

    def follow(self, job: GroupedJob) -> None:
        """The same, in groups about as large as those of the job's largest shape.

        Raises:
            EnforcerError: likewise.
        """
        if self.step is not None:
            level = levelled(self.step.view, self.step.profile, self.step.costs)
            most = max(abs(group.net) for group in job.groups)
            self.place(self.step.in_groups(level.cut(max(1, most)) if len(job.groups) > 1 else level.whole))

    @property
    def is_barred(self) -> bool:
        """Have its steps the barriers that are planned?"""
        return self._ready is not None and self.barred == self._ready.job

    def bar(self, *batch: Any) -> Any:
        """Make a step with the barriers that are planned, in an instance that has them from then on."""
        ready = self._ready  # meanwhile it may be planned again
        assert ready is not None
        groups = ready.job.groups
        if groups in self._runs:
            value = self._runs[groups](*batch)
        else:
            self._runs[groups] = run = self.life.instance()
            value, done = insert_barriers(self.life, run, ready, batch)
            self.refusal = None if done else _no_place(self.name)
        self.barred = ready.job
        return out_of_pool(value)

    def run(self, *batch: Any) -> Any:
        """Make a step whose groups ask the ledger."""
        assert self.barred is not None
        return out_of_pool(self._runs[self.barred.groups](*batch))


def _finder(planned: PlannedJob | None) -> Callable[[Stepping], ProfiledStep | ReadyJob | None]:
    return measure if planned is None else lambda life: make_ready(life, planned)


def _no_place(name: str) -> EnforcerError:
    return EnforcerError(
        f"TensorFlow optimized the step of the job '{name}' in another way the second time: "
        "its barriers have no place"
    )
