"""Who of a pool's jobs runs when, and in what room; nothing here runs TensorFlow."""

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.graphs import by_name
from tests.grouped import graph_of, grouped, profile_of, slots_of
from tfwave.colocate.backgrounds import Backgrounds
from tfwave.colocate.first_steps import FirstSteps
from tfwave.colocate.fitting import Placed, fit_behind, fit_beside
from tfwave.colocate.gate import Gate
from tfwave.colocate.job import Job, SessionStep
from tfwave.colocate.life import Life, Stepping, in_words_only, let_go
from tfwave.colocate.member import Cohort, Member
from tfwave.colocate.room import Room, open_ledger
from tfwave.colocate.shape import Shape
from tfwave.colocate.sharing import Sharing
from tfwave.errors import EnforcerError, PlanError, TfwaveError
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import Colocation, JobStep, colocate
from tfwave.memory.slots import room
from tfwave.passes.pipeline import Pipeline
from tfwave.plan.fingerprint import GraphPrint, graph_print
from tfwave.plan.groups import GroupedJob
from tfwave.runtime.beside import ran_out_of_memory
from tfwave.runtime.ledger import JobFigures, LedgerFigures, LedgerJob

SECONDS = 60.0
CHAIN = graph_of(up="", down="up")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


class Inside:
    """Threads that are in a gate until they are told to go."""

    def __init__(self, gate: Gate, threads: ThreadPoolExecutor) -> None:
        self.gate, self.threads = gate, threads
        self.came: list[str] = []
        self.leave: dict[str, threading.Event] = {}
        self.ended: dict[str, Future[None]] = {}

    def go(self, name: str, *, alone: bool = False) -> None:
        self.leave[name] = threading.Event()
        self.ended[name] = self.threads.submit(self._stay, name, alone=alone)
        self._settle()

    def _stay(self, name: str, *, alone: bool) -> None:
        with self.gate.alone() if alone else self.gate.beside():
            self.came.append(name)
            assert self.leave[name].wait(SECONDS)

    def end(self, *names: str) -> None:
        for name in names:
            self.leave[name].set()
        for name in names:
            self.ended[name].result(SECONDS)
        self._settle()

    def _settle(self) -> None:
        """All are in the gate, or wait in front of it."""
        waiting: Any = self.gate._changed
        end = time.monotonic() + SECONDS
        while len(self.came) + len(waiting._waiters) < len(self.leave):
            assert time.monotonic() < end
            time.sleep(0.001)


def test_steps_run_beside_each_other_or_one_alone(threads: ThreadPoolExecutor) -> None:
    inside = Inside(Gate(SECONDS), threads)
    inside.go("a")
    inside.go("b")
    inside.go("alone", alone=True)
    inside.go("c")
    assert inside.came == ["a", "b"]
    inside.end("a", "b")
    assert inside.came == ["a", "b", "alone"]
    inside.end("alone", "c")
    assert inside.came == ["a", "b", "alone", "c"]


def test_those_whom_one_alone_kept_waiting_go_before_the_next(threads: ThreadPoolExecutor) -> None:
    inside = Inside(Gate(SECONDS), threads)
    inside.go("first", alone=True)
    inside.go("second", alone=True)
    inside.go("step")
    inside.end("first")
    assert inside.came == ["first", "step"]
    inside.end("step", "second")
    assert inside.came == ["first", "step", "second"]


def test_nobody_waits_in_the_gate_for_ever(
    threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    inside = Inside(Gate(0.1), threads)
    inside.go("hangs")
    with pytest.raises(EnforcerError, match="steps that run have not ended after 0 s"), inside.gate.alone():
        pass
    inside.end("hangs")
    inside.go("alone hangs", alone=True)
    inside.go("goes on")
    while "goes on" not in inside.came:
        time.sleep(0.01)
    inside.end("alone hangs", "goes on")
    assert inside.came == ["hangs", "alone hangs", "goes on"]
    assert "a step that runs alone takes over" in caplog.messages[0]


def test_who_is_interrupted_in_the_gate_keeps_nobody_out(threads: ThreadPoolExecutor) -> None:
    """As Ctrl-C while a pool is saved, which waits until nothing runs."""
    gate = Gate(SECONDS)
    inside = Inside(gate, threads)
    inside.go("step")
    with interrupted(gate), gate.alone():
        pass
    inside.go("beside")
    assert inside.came == ["step", "beside"]
    inside.end("step", "beside")
    inside.go("alone", alone=True)
    with interrupted(gate), gate.beside():
        pass
    inside.end("alone")
    inside.go("alone again", alone=True)
    assert inside.came[2:] == ["alone", "alone again"]
    inside.end("alone again")


@contextmanager
def interrupted(gate: Gate) -> Iterator[None]:
    """While this thread waits in a gate, Ctrl-C is pressed."""
    wait_for = gate._changed.wait_for

    def wait(*_: object) -> bool:
        raise KeyboardInterrupt

    gate._changed.wait_for = wait  # type: ignore[method-assign]
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        gate._changed.wait_for = wait_for  # type: ignore[method-assign]


def life_of(name: str, priority: int = 0) -> Life:
    return Life(Job(name, SessionStep(None, None), (), priority=priority))


def test_first_steps_are_made_as_their_batches_come() -> None:
    def find(asking: Stepping) -> str:
        made: list[int] = []
        while len(made) < 2 and asking.advance(lambda batch: made.append(batch) or 10 * batch):
            pass
        return f"{asking.job.name} {made}"

    first = FirstSteps[str](life_of("a"), find)
    assert (first.step(1), first.settle(), first.found) == (10, True, None)
    assert (first.step(2), first.settle(), first.found) == (20, False, "a [1, 2]")
    first.close()


def test_first_steps_that_fail_are_refused_or_have_no_more_batches() -> None:
    def find(asking: Stepping) -> None:
        asking.advance(lambda batch: 1 // batch)
        if not asking.ended:
            asking.fail(PlanError("it cannot be planned"))

    with pytest.raises(ZeroDivisionError):
        FirstSteps[str](life_of("a"), find).step(0)
    refused = FirstSteps[str](life_of("a"), find)
    assert (refused.step(1), refused.settle()) == (1, False)
    assert str(refused.refusal) == "it cannot be planned"
    left = FirstSteps[str](life_of("a"), lambda asking: str([asking.advance(abs), asking.advance(abs)]))
    left.step(1)
    left.close()
    assert left.found == "[True, False]"


def test_a_job_of_which_no_step_can_be_made_does_not_wait_for_one() -> None:
    """As one of a session whose graph is finalized."""

    def find(asking: Stepping) -> None:
        asking.fail(EnforcerError("it has no instance"))

    first = FirstSteps[None](life_of("a"), find)
    first._asking._made.put((7, None))  # what it would wait for
    with pytest.raises(EnforcerError, match="it has no instance"):
        first.step(1)


def test_a_first_step_that_exits_does_not_leave_its_job_waiting() -> None:
    def exits(batch: int) -> None:
        raise SystemExit(batch)

    first = FirstSteps[bool](life_of("a"), lambda asking: asking.advance(exits))
    with pytest.raises(SystemExit, match="3"):
        first.step(3)
    assert not first.settle()


def test_a_job_that_exits_has_not_ended_well() -> None:
    def batches() -> Iterator[int]:
        yield 1
        raise SystemExit(3)

    life = Life(Job("a", SessionStep(None, None), batches()))
    assert life.advance(abs)
    assert not life.advance(abs)
    assert "the job 'a' ends with SystemExit(3)" in str(life.error)


def test_feeds_that_are_no_list_are_refused() -> None:
    life, one = life_of("a"), SessionStep(None, None, 7)  # type: ignore[arg-type]
    with pytest.raises(
        EnforcerError, match="the step of the job 'a' has the feeds 7: give a list of tensors"
    ):
        life.change(one)


def test_a_cohort_is_planned_once_all_have_arrived() -> None:
    planned: list[Sequence[Shape]] = []
    cohort = Cohort(2, planned.append)
    one = Shape("a", life_of("a"))
    cohort.arrive(one)
    assert (cohort.wait(0), planned) == (False, [])
    cohort.arrive()  # it has ended
    assert (cohort.wait(0), planned) == (True, [[one]])


def test_a_job_that_is_cancelled_ends_before_its_next_step() -> None:
    life = Life(Job("a", SessionStep(None, None), [1, 2]))
    assert life.advance(lambda batch: life.make(abs, (batch,)))
    life.cancel()
    assert not life.advance(abs)
    result = life.result(0.0)
    assert (result.steps, str(result.error)) == (1, "cancelled after 1 steps")
    assert isinstance(result.error, CancelledError)
    with pytest.raises(EnforcerError, match="the step of the job 'a' is 7"):
        life.change(7)


def test_what_a_failed_step_holds_is_let_go() -> None:
    class Tensor:
        pass

    held: list[weakref.ref[Tensor]] = []

    def fails(_: int) -> None:
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        raise ValueError("no")

    life = Life(Job("a", SessionStep(None, None), [1]))
    assert not life.advance(fails)
    let_go(life.error)
    assert str(life.error) == "no"
    assert [each() for each in held] == [None]
    in_words_only(life.error)
    assert life.error is not None
    assert life.error.__traceback__ is None
    assert "in fails" in life.error.__notes__[0]


def test_errors_that_come_from_each_other_are_looked_at_once() -> None:
    error, other = ValueError("no"), KeyError("neither")
    error.__cause__, other.__cause__ = other, error  # as `raise error from error` makes it of one
    let_go(error)
    in_words_only(error)
    assert not ran_out_of_memory(error)
    other.__cause__ = MemoryError()
    assert ran_out_of_memory(error)


class NotedLedger:
    """Says with which rooms it was opened, and what came of it; it may refuse a job."""

    all: ClassVar[list["NotedLedger"]] = []
    refuses: ClassVar[str] = ""

    def __init__(self, alone: int, shared: int, wait_seconds: float = 0.0) -> None:
        self.rooms, self.wait_seconds = (alone, shared), wait_seconds
        self.jobs: list[LedgerJob] = []
        self.turns: list[tuple[str, str]] = []
        self.is_open = True
        self.all.append(self)

    def add(self, job: LedgerJob) -> None:
        if job.name == self.refuses:
            raise EnforcerError(f"the job '{job.name}' does not fit even alone")
        self.jobs.append(job)

    def remove(self, name: str) -> None:
        self.jobs = [job for job in self.jobs if job.name != name]

    def take_turns(self, one: str, other: str) -> None:
        self.turns.append((one, other))

    def close(self) -> None:
        self.is_open = False

    def figures(self) -> LedgerFigures:
        return LedgerFigures(1, 0, 0.0, 0.0, 0, (), {}, {"a": 0.5})


class Known(Shape):
    """Its first steps were made, and it runs nothing."""

    def __init__(self, name: str, step: JobStep, life: Life | None = None, priority: int = 0) -> None:
        super().__init__(name, life or life_of(step.name, priority))
        self._step = step

    is_known = True
    constants = 0

    @property
    def step(self) -> JobStep:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._step

    @property
    def graph(self) -> GraphPrint:
        return graph_print(self._step.view)

    @property
    def is_barred(self) -> bool:
        return self.barred is not None

    def bar(self, *batch: Any) -> Any:
        assert self.job is not None
        self.barred = GroupedJob(self.name, self.job.groups, self.job.resident)
        return batch


def step_of(
    name: str, held: int = 50, resident: int = 10, seconds: float = 1.5, share: float = 0.5
) -> JobStep:
    profile = profile_of(("up", held, 0, 0), ("down", 0, 0, held), resident=resident)
    view = GraphView.of(CHAIN)
    costs = by_name(view, {"up": seconds, "down": seconds}, {})
    return JobStep(name, view, profile, costs, compute_share=share)


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What is in the pool, in turn; the last of them stays."""
    asked: list[int] = [100]
    monkeypatch.setattr(NotedLedger, "all", [])
    monkeypatch.setattr(NotedLedger, "refuses", "")
    monkeypatch.setattr("tfwave.colocate.room.Ledger", NotedLedger)
    for module in ("room", "sharing"):
        monkeypatch.setattr(
            f"tfwave.colocate.{module}.pool_in_use", lambda: asked.pop(0) if len(asked) > 1 else asked[0]
        )
    return asked


class Measured(Shape):
    """Its first step tells all that there is to know."""

    bundle, is_known = object(), False

    def settle(self) -> bool:
        self.is_known = True
        return True


class Unplanned:
    """In place of `Sharing`: steps give what they fetch."""

    def __init__(self) -> None:
        self.backgrounds, self.room = Backgrounds(), Room(100)

    def step(self, shape: Shape, *batch: Any) -> Any:
        return shape.life.make(lambda *_: shape.life._made[1].fetches, batch)

    def left_beside(self, shape: Shape) -> int:
        return 0

    def take_in(self, shapes: Sequence[Shape]) -> None:
        pass

    leave = take_in


@pytest.mark.parametrize("fit_slowed_at_most", [None, 1.0])
@pytest.mark.parametrize("refusal", [PlanError("no room"), EnforcerError("no place")])
@pytest.mark.parametrize("changed", ["before it is refused", "while it is made to fit", "never"])
def test_a_job_that_is_changed_makes_the_other_step_whatever_became_of_the_first(
    changed: str,
    refusal: TfwaveError,
    fit_slowed_at_most: float | None,
    in_use: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits = fit_slowed_at_most is not None and isinstance(refusal, PlanError)

    def refitted(*_: object) -> Pipeline:
        if changed == "while it is made to fit":
            life.change(SessionStep(None, "other"))
        return Pipeline(())

    def refuse(shapes: Sequence[Shape]) -> None:
        shapes[0].refusal = refusal

    monkeypatch.setattr("tfwave.colocate.member.Shape", Measured)
    monkeypatch.setattr("tfwave.colocate.member.refitted", refitted)
    life = Life(Job("a", SessionStep(None, "first"), [1, 2], fit_slowed_at_most=fit_slowed_at_most))
    cohort, sharing = Cohort(2, refuse), Unplanned()
    member = Member(life, sharing, cohort, None)  # type: ignore[arg-type]
    assert member._goes_on()
    assert life.advance(member._step)
    if changed == "before it is refused":
        member.change(SessionStep(None, "other"))
    cohort.arrive()
    while member._goes_on() and life.advance(member._step):
        pass
    others = {
        "before it is refused": ["other"],
        "while it is made to fit": ["other"] * fits,
        "never": ["first"] * fits,
    }
    result = life.result(0.0)
    assert list(result.values) == ["first", *others[changed]]
    assert result.error is (None if others[changed] else refusal)
    assert life.is_refitted == (changed == "never" and fits)


def names_in(ledger: NotedLedger) -> list[str]:
    return [job.name for job in ledger.jobs]


@pytest.mark.parametrize(
    ("free", "alone", "shared"),
    [(1000, 900, 900), (44, 40, room(44, 2)), (40, room(40, 1), room(40, 2))],
)
def test_cut_steps_have_the_room_that_was_planned_with(
    free: int, alone: int, shared: int, in_use: list[int]
) -> None:
    """Where that is less than the 40 bytes that the largest takes, one alone may take as much as a whole step."""
    open_ledger([grouped("a", 40, -40), grouped("b", 10, -10)], free, 1.0)
    assert NotedLedger.all[0].rooms == (alone, shared)


def test_what_the_instances_with_barriers_hold_is_taken_off_the_room(in_use: list[int]) -> None:
    """At each plan, and behind each first step with barriers; what is resident is kept for new values."""
    sharing = Sharing(1000, None)
    shapes = [Known(name, step_of(name)) for name in "jk"]
    sharing.take_in(shapes)
    assert [shape.refusal for shape in shapes] == [None, None]
    for used, shape in zip((300, 310), shapes, strict=True):
        in_use[:] = [used]
        sharing.step(shape)
    frees = (1000 - 300, 1000 - 310)
    assert [ledger.rooms for ledger in NotedLedger.all[1:]] == [
        (room(free, 1) - 10 * jobs, room(free, 2) - 50 - 10 * jobs) for jobs, free in enumerate(frees, 1)
    ]
    assert [names_in(ledger) for ledger in NotedLedger.all] == [[], ["j"], ["j", "k"]]
    assert sharing.room.figures().admitted == 3
    assert sharing.room.waited_seconds("a") == 1.5


def test_a_newcomer_without_room_leaves_the_others_alone(in_use: list[int]) -> None:
    sharing = Sharing(1000, None)
    there, huge = Known("there", step_of("there")), Known("huge", step_of("huge", 2000), priority=9)
    sharing.take_in([there])
    sharing.take_in([huge])
    assert there.refusal is None
    assert "the job 'huge' alone peaks at" in str(huge.refusal)
    sharing.step(there)
    late = Known("late", step_of("late"))
    sharing.take_in([late])
    NotedLedger.refuses = "late"
    sharing.step(late)
    assert isinstance(late.refusal, PlanError)
    assert "'late' does not fit even alone" in str(late.refusal)
    assert names_in(NotedLedger.all[-1]) == ["there"]


def test_a_pool_that_is_full_before_the_plan(in_use: list[int]) -> None:
    in_use[:] = [1000]
    shape = Known("j", step_of("j"))
    Sharing(1000, None).take_in([shape])
    assert "the pool is full before any step, with 1000 bytes of 1000 bytes taken" in str(shape.refusal)


@pytest.mark.parametrize(
    ("seconds", "given", "waits"), [(10.0, None, 3 * 3 * 20.0), (1.0, None, 60.0), (10.0, 5.0, 5.0)]
)
def test_a_group_waits_as_long_as_the_jobs_may_take_before_it(
    seconds: float, given: float | None, waits: float, in_use: list[int]
) -> None:
    """Three steps of all of them, and a minute at least, unless it is said."""
    sharing = Sharing(1000, given)
    shapes = [Known(name, step_of(name, seconds=seconds)) for name in "jkl"]
    sharing.take_in(shapes)
    sharing.step(shapes[0])
    assert NotedLedger.all[-1].wait_seconds == pytest.approx(waits)


def test_a_batch_that_has_no_room_is_not_fed(in_use: list[int]) -> None:
    shape = Shape("a", life_of("a"))
    with pytest.raises(
        PlanError, match=r"a batch of the job 'a' takes 3\.9 KiB, and the pool has 900 bytes left"
    ):
        Sharing(1000, None).step(shape, np.zeros(1000, np.float32))


def test_a_job_that_ends_while_others_are_measured_is_not_planned(in_use: list[int]) -> None:
    sharing = Sharing(1000, None)
    ended, other = Known("ended", step_of("ended")), Known("other", step_of("other"))
    ended.life.ended = True
    sharing.take_in([ended, other])
    assert sharing.plan is not None
    assert [each.job.name for each in sharing.plan.jobs] == ["other"]


def test_who_leaves_last_closes_the_ledger_of_a_pool_that_is_ending(in_use: list[int]) -> None:
    """Ctrl-C may be pressed again while the pool waits for its jobs; another pool may follow in that process."""
    sharing = Sharing(1000, None)
    shapes = [Known(name, step_of(name)) for name in ("a", "b")]
    sharing.take_in(shapes)
    sharing.is_ending = True
    for shape in shapes:
        assert NotedLedger.all[-1].is_open
        sharing.leave(shape.life)
    assert not any(ledger.is_open for ledger in NotedLedger.all)


def test_shapes_of_a_job_have_its_variables_once_and_the_largest_is_planned(in_use: list[int]) -> None:
    sharing = Sharing(1000, None)
    life = life_of("a")
    small, large = (Known(name, step_of("a", held), life) for name, held in (("a", 50), ("a (large)", 80)))
    other = Known("b", step_of("b"))
    sharing.take_in([small, other])
    sharing.take_in([large])
    for shape in (small, other, large):
        sharing.step(shape)
    ledger = NotedLedger.all[-1]
    assert ledger.rooms[0] == room(900, 1) - 2 * 10
    assert [job.transients for job in ledger.jobs] == [(50,), (50,), (80,)]
    assert sharing.plan is not None
    assert {each.job.name: each.job.peak for each in sharing.plan.jobs} == {"a": 90, "b": 60}
    sharing.leave(life)
    assert names_in(NotedLedger.all[-1]) == ["b"]


def test_jobs_that_save_nothing_side_by_side_take_turns_in_all_their_shapes(in_use: list[int]) -> None:
    sharing = Sharing(1000, None)
    life = life_of("busy")
    shapes = [
        Known("busy", step_of("busy", share=1.0), life),
        Known("too", step_of("too", share=1.0)),
        Known("light", step_of("light", share=0.1)),
        Known("busy (large)", step_of("busy", 60, share=1.0), life),
    ]
    sharing.take_in(shapes)
    for shape in shapes:
        sharing.step(shape)
    assert sorted(map(sorted, NotedLedger.all[-1].turns)) == [["busy", "too"], ["busy (large)", "too"]]


def rising(name: str, bytes_up: int = 10) -> JobStep:
    """Four ops that allocate, and four that free what they did, each in a second."""
    names = [f"op{number}" for number in range(8)]
    view = GraphView.of(graph_of(**dict(zip(names, ["", *names], strict=False))))
    ops = [(op, bytes_up, 0, 0) if n < 4 else (op, 0, 0, bytes_up) for n, op in enumerate(names)]
    return JobStep(name, view, profile_of(*ops), by_name(view, dict.fromkeys(names, 1.0), {}))


def test_jobs_that_run_keep_their_groups_unless_others_save_much() -> None:
    """Whole steps of 40 bytes have to take turns in 70; cut, one rises while the other falls."""
    one, two = rising("a"), rising("b")
    whole = Placed(colocate([one], 1000).jobs[0], one)
    assert len(whole.job.groups) == 1
    wide, narrow, fixed = (
        fit_beside([placed], [two], limit).plan
        for placed, limit in ((whole, 1000), (whole, 70), (Placed(whole.job, None), 70))
    )
    assert wide is not None
    assert narrow is not None
    assert fixed is not None
    assert (wide.seconds, narrow.seconds, fixed.seconds) == (8, 12, 15)
    assert [plan.jobs[0] == whole.job for plan in (wide, narrow, fixed)] == [True, False, True]
    refused = fit_beside([whole], [rising("b", 400)], 1000)
    assert (refused.plan, list(refused.left_out)) == (None, ["b"])


def test_jobs_are_not_cut_for_a_background() -> None:
    """Be it there or not; beside another job they would be, as above."""
    one, two, last = rising("a"), rising("b"), rising("z")
    beside = fit_beside([], [one, last], 70).plan
    behind = fit_behind([], [one], [], [last], 70).plan
    assert beside is not None
    assert behind is not None
    assert [job.name for job in behind.jobs] == ["a", "z"]
    assert [len(plan.jobs[0].groups) > 1 for plan in (beside, behind)] == [True, False]
    later = fit_behind([], [two], [Placed(beside.jobs[1], last)], [], 70).plan
    assert later is not None
    assert (later.jobs[0].name, len(later.jobs[0].groups)) == ("b", 1)
    refused = fit_behind([], [one], [], [rising("z", 400)], 1000)
    assert refused.plan is not None
    assert ([job.name for job in refused.plan.jobs], list(refused.left_out)) == (["a"], ["z"])


def test_a_background_that_runs_is_not_left_out_for_a_newcomer() -> None:
    """Which has room alone, but not beside what the background holds between its steps."""
    background, newcomer = step_of("z", resident=200), step_of("b", held=820)
    assert fit_behind([], [newcomer], [], [], 1000).plan is not None
    running = Placed(colocate([background], 1000).jobs[0], background)
    found = fit_behind([], [newcomer], [running], [], 1000)
    assert list(found.left_out) == ["b"]
    without = fit_behind([Placed(colocate([rising("a")], 1000).jobs[0], None)], [], [running], [], 1000).plan
    assert without is not None
    assert [job.name for job in without.jobs] == ["a", "z"]


@pytest.mark.parametrize(
    ("slots", "turns"),
    [("a0 a1 b0 b1", (("a", "b"),)), ("a0+b0 a1+b1", ())],
)
def test_jobs_take_turns_where_nothing_is_planned_side_by_side(
    slots: str, turns: tuple[tuple[str, str], ...]
) -> None:
    plan = Colocation((grouped("a", 40, -40), grouped("b", 40, -40)), slots_of(slots), 1000)
    assert plan.turns == turns


def test_figures_that_are_asked_for_as_a_ledger_closes_count_it_once(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Future[float]] = []

    class Closing(NotedLedger):
        def close(self) -> None:
            asked.append(threads.submit(lambda: of_all.waited_seconds("a")))
            time.sleep(0.1)
            super().close()

    monkeypatch.setattr("tfwave.colocate.room.Ledger", Closing)
    of_all = Room(100)
    of_all.close()
    assert asked[0].result(SECONDS) == 0.5


def test_figures_of_one_ledger_after_another() -> None:
    one = LedgerFigures(3, 2, 1.0, 0.75, 1, ("x",) * 60, {}, {"a": 1.0})
    jobs = {"b": JobFigures(None, 0)}
    both = one.then(LedgerFigures(4, 1, 0.5, 0.5, 0, ("y",) * 60, jobs, {"a": 0.25, "b": 0.25}))
    assert both == LedgerFigures(7, 3, 1.5, 0.75, 1, ("x",) * 40 + ("y",) * 60, jobs, {"a": 1.25, "b": 0.25})
