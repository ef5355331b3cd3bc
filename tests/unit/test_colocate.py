"""Sizes, profiles and advice for jobs that share a memory; nothing here runs TensorFlow."""

import math
import subprocess
import sys

import pytest

from tests.graphs import WORKER
from tests.grouped import graph_of, group, profile_of
from tfwave.colocate.advice import advise, largest_scale
from tfwave.colocate.colocating import run as run_jobs
from tfwave.colocate.job import Job, SessionStep
from tfwave.colocate.profile import find_graph, profile_step
from tfwave.colocate.size import parse_size
from tfwave.cost.file import FileCosts
from tfwave.errors import EnforcerError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import JobStep
from tfwave.memory.profile import OpMemory
from tfwave.memory.schedule import GroupedJob
from tfwave.runtime.trace.memory import Allocation, MemoryTrace
from tfwave.runtime.trace.xplane import OpRun

STEP = 7
CHAIN = GraphItem(graph_of(a="", b="a", c="b"))


def run(node: str, at: float, seconds: float = 1.0, step: int = STEP) -> OpRun:
    return OpRun(step, node, "NoOp", at, seconds)


def traced(*allocations: Allocation, ops: tuple[OpRun, ...] | None = None, others=()) -> MemoryTrace:
    """Ops ``a``, ``b`` and ``c`` at 0, 10 and 20 s."""
    return MemoryTrace(ops or (run("a", 0.0), run("b", 10.0), run("c", 20.0)), allocations, tuple(others))


def profiled(*traces: MemoryTrace) -> list[OpMemory]:
    return list(profile_step("j", CHAIN, traces, resident=0).step.profile.ops)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 512 << 20),
        ("1.5GB", 1_500_000_000),
        ("2 kib", 2048),
        (100, 100),
        ("7", 7),
        ("1T", 10**12),
        ("3b", 3),
    ],
)
def test_sizes_in_words(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1 mebi", "0", "0.1", "2i", "1e3", "5 5"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(PlanError, match="or a number with a unit"):
        parse_size(text)


def test_a_buffer_goes_from_its_op_to_the_last_that_had_begun() -> None:
    """Case 1 of `_ops`: 50 bytes of ``a`` live into ``b``; 8 are freed in ``b`` itself; 30 outlive the step."""
    trace = traced(
        Allocation(STEP, "a", 50, 0.5, 12.0),
        Allocation(STEP, "b", 8, 10.5, 10.6),
        Allocation(STEP, "c", 30, 20.5),
    )
    assert profiled(trace) == [OpMemory("a", 50, 0, 0), OpMemory("b", 0, 8, 50), OpMemory("c", 30, 0, 0)]


def test_scratch_is_what_is_held_at_once() -> None:
    trace = traced(
        Allocation(STEP, "b", 8, 10.1, 10.2),
        Allocation(STEP, "b", 5, 10.3, 10.6),
        Allocation(STEP, "b", 6, 10.4, 10.5),
    )
    assert profiled(trace)[1] == OpMemory("b", 0, 11, 0)


def test_scratch_of_an_op_is_held_beside_what_begins_meanwhile() -> None:
    ops = run("a", 0.0, 15.0), run("b", 10.0), run("c", 20.0)
    trace = traced(Allocation(STEP, "a", 8, 1.0, 2.0), Allocation(STEP, "b", 4, 10.5, 10.6), ops=ops)
    assert [op.most for op in profiled(trace)] == [8, 12, 0]


def test_a_new_value_takes_the_place_of_the_old_one() -> None:
    """Case 2: a variable of 64 bytes is freed, one as large stays."""
    trace = traced(
        Allocation(STEP, "c", 64, 20.1), Allocation(STEP, "c", 64, 20.2), others=[(20.5, 64), (20.5, 3)]
    )
    assert profiled(trace)[2] == OpMemory("c", 64, 64, 0)


def test_what_a_called_function_allocates_is_that_of_the_op_that_runs() -> None:
    """Case 3, and a cheap op that is known by its allocation only."""
    ops = run("a", 0.0), run("c", 20.0)
    trace = traced(Allocation(STEP, "inner", 9, 3.0, 21.0), Allocation(STEP, "b", 4, 12.0, 13.0), ops=ops)
    assert profiled(trace) == [OpMemory("a", 9, 0, 0), OpMemory("b", 0, 4, 0), OpMemory("c", 0, 0, 9)]


def test_other_steps_of_the_process_do_not_count() -> None:
    others = Allocation(1, "a", 1000, 0.1, 0.2), Allocation(1, "x", 9000, 0.1)
    ops = run("a", 0.0), run("b", 10.0), run("a", 11.0, step=1)
    trace = traced(Allocation(STEP, "a", 2000, 0.5, 12.0), *others, ops=ops)
    assert profiled(trace) == [OpMemory("a", 2000, 0, 0), OpMemory("b", 0, 0, 2000)]


def test_the_highest_peak_and_the_least_seconds_of_all_steps() -> None:
    low, high = (Allocation(STEP, "a", size, 0.5, 5.0) for size in (10, 20))
    found = profile_step(
        "j",
        CHAIN,
        [traced(low, ops=(run("a", 0.0, 2.0),)), traced(high, ops=(run("a", 0.0, 3.0),))],
        resident=5,
    )
    assert found.step.profile.peak == 25
    assert found.step.costs.op_seconds(found.step.view, 0) == 2.0


def test_the_graph_is_the_one_that_allocated() -> None:
    small, other = GraphItem(graph_of(x="")), GraphItem(graph_of(a="", z=""))
    trace = traced(
        Allocation(STEP, "a", 50, 0.5), Allocation(STEP, "b", 50, 10.5), Allocation(1, "x", 60, 0.1)
    )
    assert find_graph("j", [other, CHAIN, small], [trace]) is CHAIN
    again = GraphItem(graph_of(a="", b="a", c="b"))
    assert find_graph("j", [CHAIN, again, small], [trace]) is again
    with pytest.raises(EnforcerError, match="no graph of the job 'j' was seen to allocate"):
        find_graph("j", [small], [traced()])


def job_step(name: str, held: int, resident: int = 0) -> JobStep:
    graph = graph_of(up="", down="up")
    profile = profile_of(("up", held, 0, 0), ("down", 0, 0, held), resident=resident)
    return JobStep(name, GraphView.of(graph), profile, FileCosts({"up": 1.0, "down": 1.0}, {}))


def test_advice_on_jobs_that_fit_and_that_do_not() -> None:
    both = [job_step("a", 100), job_step("b", 100)]
    wide = advise(both, 1000)
    assert wide.fits
    assert wide.plan is not None
    assert not wide.plan.is_in_turn
    assert wide.batch_scale == pytest.approx(9.8)
    narrow = advise(both, 90)
    assert (narrow.fits, narrow.plan) == (False, None)
    assert "the job 'a' alone peaks at 100 bytes" in narrow.why
    assert narrow.batch_scale < 1


def test_advice_needs_jobs_with_names_of_their_own() -> None:
    with pytest.raises(PlanError, match="there is no job"):
        advise([], 100)
    with pytest.raises(PlanError, match="two jobs are named 'a'"):
        advise([job_step("a", 1), job_step("a", 1)], 100)


def test_what_is_resident_does_not_grow_with_the_batch() -> None:
    """98 bytes of 100 are left by the margin, 50 of them resident in all."""
    jobs = [GroupedJob("a", (group(16), group(-16)), 20), GroupedJob("b", (group(8), group(-8)), 30)]
    assert largest_scale(jobs, 100) == 3.0
    assert largest_scale(jobs[1:], 100) == 8.5
    assert largest_scale(jobs, 40) == 0.0
    assert largest_scale([GroupedJob("c", (), 10)], 100) == math.inf
    assert largest_scale([GroupedJob("c", (), 110)], 100) == 0.0


def test_a_job_has_a_name() -> None:
    with pytest.raises(PlanError, match="a job has no name"):
        Job("", None, ())


def test_a_limit_above_the_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwave.colocate.colocating.pool_limit", lambda: 1000)
    with pytest.raises(PlanError, match="a limit of 2000 bytes is above the pool's, 1000"):
        run_jobs([], "2kB")


def test_jobs_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwave.colocate.colocating.pool_limit", lambda: 1000)
    monkeypatch.setattr("tfwave.colocate.colocating.load_barrier_op", lambda: None)
    job = Job("twin", SessionStep(None, None), ())
    with pytest.raises(PlanError, match="two jobs are named 'twin'"):
        run_jobs([job, job])


def test_importing_colocate_does_not_import_tensorflow() -> None:
    code = "import sys, tfwave; tfwave.colocate.run; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_device_of_a_profile_is_that_of_its_graph() -> None:
    found = profile_step("j", CHAIN, [traced(Allocation(STEP, "a", 1, 0.5, 1.0))], resident=0)
    assert found.step.profile.device == WORKER
    assert found.constant_bytes == 0
