"""Two jobs' graphs with barriers between their node groups, in one process and one ledger."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.cancellation import CancellationManager

from tests.grouped import grouped as planned
from tests.grouped import slots_of
from tests.waiting import wait_until
from tfwave.colocate.measure import ledger_job
from tfwave.colocate.room import open_ledger
from tfwave.errors import EnforcerError
from tfwave.graph.marks import BARRIER_OP
from tfwave.memory.colocation import Colocation
from tfwave.runtime import native
from tfwave.runtime.ledger import JobFigures, Ledger, LedgerJob

pytestmark = pytest.mark.tensorflow

LIMIT_SECONDS = 60
HELD, TRANSIENTS = (0, 40, 0), (40, 20)
"""Two jobs of these may be in their first groups at once; the second group needs all else to wait."""

Work = Callable[[int], object]
Run = Callable[[], object]


def job(name: str, priority: int = 0) -> LedgerJob:
    return LedgerJob(name, 0, HELD, TRANSIENTS, priority)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger(100, 90, LIMIT_SECONDS) as opened:
        yield opened


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def grouped(name: str, work: Work) -> tf.Tensor:
    """A step that calls `work` in each of its groups."""
    ops = native.load_ops()

    def call(group: Any) -> Any:
        work(int(group))
        return group

    last = tf.constant(0)
    for group in range(len(TRANSIENTS)):
        with tf.control_dependencies([last]):
            barrier = ops.tfwave_counter_barrier(job=name, group=group)
        with tf.control_dependencies([barrier]):
            last = tf.numpy_function(call, [tf.constant(group)], tf.int32)
    return last


def session(name: str, work: Work, config: tf.compat.v1.ConfigProto | None = None) -> tf.compat.v1.Session:
    """Runs the step as `run("step:0")`."""
    with tf.Graph().as_default() as graph:
        tf.identity(grouped(name, work), "step")
    return tf.compat.v1.Session(graph=graph, config=config)


def in_session(name: str, work: Work) -> Run:
    opened = session(name, work)
    return lambda: opened.run("step:0")


def in_callers_thread(name: str, work: Work) -> Run:
    opened = session(name, work, tf.compat.v1.ConfigProto(inter_op_parallelism_threads=-1))
    return lambda: opened.run("step:0")


def in_function(name: str, work: Work) -> Run:
    return tf.function(lambda: grouped(name, work))


def stepping(ledger: Ledger, name: str, run: Run) -> Run:
    def step() -> object:
        with ledger.step(name):
            return run()

    return step


def blocked(ledger: Ledger, threads: ThreadPoolExecutor, run: Run) -> Future[object]:
    """Runs in a thread; when this returns, a barrier of it waits."""
    waited = ledger.figures().waited
    future = threads.submit(run)
    wait_until(lambda: ledger.figures().waited > waited)
    return future


@pytest.mark.parametrize("runs", [in_session, in_callers_thread, in_function])
def test_groups_start_only_where_there_is_room(
    runs: Callable[[str, Work], Run], ledger: Ledger, threads: ThreadPoolExecutor
) -> None:
    steps = 30
    seen: list[dict[str, JobFigures]] = []
    done: list[tuple[str, int]] = []

    def worker(name: str) -> Run:
        def work(group: int) -> None:
            seen.append(dict(ledger.figures().jobs))
            done.append((name, group))

        return stepping(ledger, name, runs(name, work))

    for name in ("a", "b"):
        ledger.add(job(name))

    def loop(run: Run) -> None:
        for _ in range(steps):
            run()

    for future in [threads.submit(loop, worker(name)) for name in ("a", "b")]:
        future.result(LIMIT_SECONDS)
    for jobs in seen:
        running = [figures.group for figures in jobs.values() if figures.group is not None]
        assert sum(figures.held for figures in jobs.values()) <= (90 if len(running) > 1 else 100)
        assert 1 not in running or len(running) == 1
    for name in ("a", "b"):
        groups = [group for of, group in done if of == name]
        assert groups == [0, 1] * steps
    figures = ledger.figures()
    assert (figures.admitted, figures.released, figures.messages) == (4 * steps, 0, ())
    assert figures.jobs == {"a": JobFigures(None, 0), "b": JobFigures(None, 0)}


@pytest.mark.parametrize(("slots", "most"), [("a0 a1 b0 b1", 1), ("a0+b0 a1+b1", 2)])
def test_what_is_planned_in_turn_never_runs_at_once(
    slots: str, most: int, threads: ThreadPoolExecutor
) -> None:
    """However much room there is; else two that wait for each other in their groups do meet."""
    steps = 10
    limit = 1000
    plan = Colocation((planned("a", 40, -40), planned("b", 40, -40)), slots_of(slots), limit)
    meeting = threading.Barrier(most)
    seen: list[int] = []

    def work(_: int) -> None:
        meeting.wait(LIMIT_SECONDS)
        time.sleep(0.002)  # what may run beside it does
        seen.append(sum(figures.group is not None for figures in ledger.figures().jobs.values()))
        meeting.wait(LIMIT_SECONDS)

    def loop(run: Run) -> None:
        for _ in range(steps):
            run()

    with open_ledger(plan.jobs, limit, LIMIT_SECONDS) as ledger:
        for grouped_job in plan.jobs:
            ledger.add(ledger_job(grouped_job, 0))
        for pair in plan.turns:
            ledger.take_turns(*pair)
        loops = [threads.submit(loop, stepping(ledger, n, in_session(n, work))) for n in ("a", "b")]
        for future in loops:
            future.result(LIMIT_SECONDS)
    assert seen == [most] * (2 * 2 * steps)
    assert ledger.figures().released == 0


def test_a_job_that_is_not_known_passes() -> None:
    groups: list[int] = []
    in_session("nobody", groups.append)()
    with Ledger(10, 10):
        in_function("nobody", groups.append)()
    assert groups == [0, 1, 0, 1]


def test_a_graph_outside_of_its_steps_is_refused(ledger: Ledger) -> None:
    ledger.add(job("a"))
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"'a' starts outside .* Ledger\.step"):
        in_session("a", lambda group: None)()
    assert BARRIER_OP == "TfwaveCounterBarrier"


def holding(ledger: Ledger, threads: ThreadPoolExecutor) -> tuple[threading.Event, Future[object]]:
    """The job "holds" is in its second group until the event is set: others wait."""
    ledger.add(job("holds"))
    inside, leave = threading.Event(), threading.Event()

    def work(group: int) -> None:
        if group == 1:
            inside.set()
            leave.wait(LIMIT_SECONDS)

    future = threads.submit(stepping(ledger, "holds", in_session("holds", work)))
    assert inside.wait(LIMIT_SECONDS)
    return leave, future


def check_all_ends(ledger: Ledger, leave: threading.Event, holds: Future[object]) -> None:
    assert not holds.done()
    assert ledger.figures().jobs["killed"] == JobFigures(None, 0)
    leave.set()
    holds.result(LIMIT_SECONDS)
    stepping(ledger, "killed", in_function("killed", lambda group: None))()
    assert ledger.figures().jobs == {"holds": JobFigures(None, 0), "killed": JobFigures(None, 0)}
    assert ledger.figures().released == 0


def test_a_session_that_is_closed_while_its_step_waits(ledger: Ledger, threads: ThreadPoolExecutor) -> None:
    leave, holds = holding(ledger, threads)
    ledger.add(job("killed"))
    opened = session("killed", lambda group: None)
    future = blocked(ledger, threads, stepping(ledger, "killed", lambda: opened.run("step:0")))
    opened.close()
    with pytest.raises(tf.errors.CancelledError):
        future.result(LIMIT_SECONDS)
    check_all_ends(ledger, leave, holds)


def test_a_step_that_runs_out_of_time_while_it_waits(ledger: Ledger, threads: ThreadPoolExecutor) -> None:
    leave, holds = holding(ledger, threads)
    ledger.add(job("killed"))
    opened = session("killed", lambda group: None)
    options = tf.compat.v1.RunOptions(timeout_in_ms=50)
    with pytest.raises(tf.errors.DeadlineExceededError):
        stepping(ledger, "killed", lambda: opened.run("step:0", options=options))()
    check_all_ends(ledger, leave, holds)


def test_a_function_that_is_cancelled_while_it_waits(ledger: Ledger, threads: ThreadPoolExecutor) -> None:
    leave, holds = holding(ledger, threads)
    ledger.add(job("killed"))
    manager = CancellationManager()
    function = tf.function(lambda: grouped("killed", lambda group: None)).get_concrete_function()
    cancelable = manager.get_cancelable_function(function)
    future = blocked(ledger, threads, stepping(ledger, "killed", cancelable))
    manager.start_cancel()
    with pytest.raises(tf.errors.CancelledError):
        future.result(LIMIT_SECONDS)
    check_all_ends(ledger, leave, holds)


def test_an_op_that_fails_while_its_step_waits(ledger: Ledger, threads: ThreadPoolExecutor) -> None:
    leave, holds = holding(ledger, threads)
    ledger.add(job("killed"))

    def fail() -> Any:
        wait_until(lambda: ledger.figures().waited > 0)
        raise ValueError("no more")

    with tf.Graph().as_default() as graph:
        fetches = grouped("killed", lambda group: None), tf.numpy_function(fail, [], tf.float32)
    opened = tf.compat.v1.Session(graph=graph)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
        stepping(ledger, "killed", lambda: opened.run(fetches))()
    check_all_ends(ledger, leave, holds)


def test_a_step_that_fails_lets_the_other_go(ledger: Ledger, threads: ThreadPoolExecutor) -> None:
    ledger.add(job("killed"))
    ledger.add(job("waits"))
    other: list[Future[object]] = []
    waits = stepping(ledger, "waits", in_session("waits", lambda group: None))

    def fail(group: int) -> None:
        if group == 1:
            other.append(blocked(ledger, threads, waits))
            raise ValueError("no more")

    with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
        stepping(ledger, "killed", in_session("killed", fail))()
    other[0].result(LIMIT_SECONDS)
    assert ledger.figures().released == 0


def test_a_job_that_is_removed_goes_on(ledger: Ledger, threads: ThreadPoolExecutor) -> None:
    leave, holds = holding(ledger, threads)
    ledger.add(job("goes"))
    future = blocked(ledger, threads, stepping(ledger, "goes", in_function("goes", lambda group: None)))
    ledger.remove("goes")
    future.result(LIMIT_SECONDS)
    ledger.remove("goes")
    leave.set()
    holds.result(LIMIT_SECONDS)
    assert ledger.figures().jobs == {"holds": JobFigures(None, 0)}


def test_a_wait_that_is_too_long_is_let_through(threads: ThreadPoolExecutor) -> None:
    with Ledger(100, 90, 0.05) as ledger:
        leave, holds = holding(ledger, threads)
        ledger.add(job("waits"))
        stepping(ledger, "waits", in_function("waits", lambda group: None))()
        leave.set()
        holds.result(LIMIT_SECONDS)
    figures = ledger.figures()
    assert figures.released == len(figures.messages) == 2
    assert figures.waited >= 2
    assert figures.waited_seconds >= 0.1
    assert 0.05 <= figures.longest_wait_seconds < figures.waited_seconds
    assert figures.waited_by_job == {"holds": 0.0, "waits": figures.waited_seconds}
    assert "group 0 of the job 'waits' waited" in figures.messages[0]
    assert "'holds' holds 60 bytes and runs group 1" in figures.messages[0]


@pytest.mark.long
def test_jobs_that_come_and_go_and_are_killed(ledger: Ledger, threads: ThreadPoolExecutor) -> None:
    """Each of two jobs is there 1,000 times for some steps; each step may fail, or run out of time."""

    def visits(name: str, seed: int) -> None:
        chance = random.Random(seed)
        fails = -1

        def work(group: int) -> None:
            if group == fails:
                raise ValueError("no more")

        step = session(name, work)
        short = tf.compat.v1.RunOptions(timeout_in_ms=1)
        for _ in range(1000):
            ledger.add(job(name, priority=chance.randrange(2)))
            for _ in range(chance.randrange(3)):
                fails = chance.choice((-1, -1, 0, 1))
                options = chance.choice((None, None, short))
                with suppress(tf.errors.OpError), ledger.step(name):
                    step.run("step:0", options=options)
            ledger.remove(name)

    for future in [threads.submit(visits, name, seed) for seed, name in enumerate(("a", "b"))]:
        future.result(2 * LIMIT_SECONDS)
    figures = ledger.figures()
    assert (figures.released, figures.jobs) == (0, {})
    assert figures.admitted > 1000
    assert sum(figures.waited_by_job.values()) == pytest.approx(figures.waited_seconds)


def test_one_ledger_at_a_time() -> None:
    again = r"this process has a ledger already.* close it first"
    with Ledger(10, 10) as first, pytest.raises(EnforcerError, match=again):
        Ledger(10, 10)
    first.close()
    with pytest.raises(EnforcerError, match="is closed"):
        first.add(LedgerJob("a", 0, (0, 0), (1,)))
    Ledger(10, 10).close()


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (LedgerJob("b", 0, (0, 0), (101,)), r"'b' does not fit even alone: it takes 101 bytes of 100"),
        (
            LedgerJob("b", 61, (0, 0), (1,)),
            r"between steps hold 61 bytes, and one of them alone takes 60 more",
        ),
        (LedgerJob("a", 0, (0, 0), (1,)), "job 'a' already"),
        (LedgerJob("b", 0, (0,), ()), "at least one"),
        (LedgerJob("b", 0, (0, 0, 0), (1,)), "one more held"),
        (LedgerJob("b", -1, (0, 0), (1,)), "negative"),
    ],
)
def test_jobs_that_are_refused(refused: LedgerJob, why: str, ledger: Ledger) -> None:
    ledger.add(job("a"))
    with pytest.raises(EnforcerError, match=why):
        ledger.add(refused)
    assert list(ledger.figures().jobs) == ["a"]


def test_steps_that_are_refused(ledger: Ledger) -> None:
    ledger.add(job("a"))
    with ledger.step("a"), pytest.raises(EnforcerError, match="'a' runs already"), ledger.step("a"):
        pass
    with pytest.raises(EnforcerError, match="no job 'b'"), ledger.step("b"):
        pass


@pytest.mark.parametrize(
    "numbers", [(0, 0, 1.0), (10, 11, 1.0), (10, 0, 1.0), (1 << 61, 1, 1.0), (10, 10, 0.0), (10, 10, 1e10)]
)
def test_rooms_and_waits_that_are_refused(numbers: tuple[int, int, float]) -> None:
    with pytest.raises(EnforcerError, match="give"):
        Ledger(*numbers)
