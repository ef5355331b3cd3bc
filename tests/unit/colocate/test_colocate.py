"""Sizes, profiles and advice for jobs that share a memory; nothing here runs TensorFlow."""

import math
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.graphs import WORKER, by_name
from tests.grouped import graph_of, group, profile_of
from tests.memory_steps import Step, bundle_of, graph
from tfwave.capture.memory.told import step_stats
from tfwave.colocate.advice import advise, largest_scale
from tfwave.colocate.colocating import run as run_jobs
from tfwave.colocate.fitting import fit
from tfwave.colocate.job import Job, SessionStep
from tfwave.colocate.life import Life
from tfwave.colocate.pool import Pool
from tfwave.colocate.profile import captured_step, find_graph
from tfwave.errors import EnforcerError, GraphError, PlanError
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import JobStep
from tfwave.memory.profile import OpMemory
from tfwave.plan.groups import GroupedJob
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.trace.memory import Allocation, MemoryTrace
from tfwave.runtime.trace.xplane import OpRun

STEP = 7
CHAIN = graph_of(arg="", a="arg", b="a", c="b")
CHAIN.node[0].op = "_Arg"
CHAIN_VIEW = GraphView.of(CHAIN)


def run(node: str, at: float, seconds: float = 1.0, step: int = STEP) -> OpRun:
    return OpRun(step, node, "NoOp", at, seconds)


def traced(*allocations: Allocation, ops: tuple[OpRun, ...] | None = None) -> MemoryTrace:
    """Ops ``a``, ``b`` and ``c`` at 0, 10 and 20 s."""
    return MemoryTrace(ops or (run("a", 0.0), run("b", 10.0), run("c", 20.0)), allocations, ())


def profiled(*traces: MemoryTrace, resident: int = 0) -> JobStep:
    """As what runs beside other jobs is told: without what the pool held."""
    steps = [step_stats(trace, CHAIN, {"arg": resident}) for trace in traces]
    return captured_step("j", bundle_of([CHAIN], *steps))


def test_a_step_of_this_process_is_told_as_a_captured_one() -> None:
    """50 bytes of ``a`` live into ``b``; 8 are freed in ``b``; 30 outlive the step; 10 are fed."""
    trace = traced(
        Allocation(STEP, "a", 50, 0.5, 12.0),
        Allocation(STEP, "b", 8, 10.5, 10.6),
        Allocation(STEP, "c", 30, 20.5),
    )
    found = profiled(trace, resident=10)
    assert list(found.profile.ops[1:]) == [
        OpMemory("a", 50, 0, 0),
        OpMemory("b", 0, 8, 50),
        OpMemory("c", 30, 0, 0),
    ]
    assert (found.resident, found.profile.device) == (10, WORKER)


def test_what_a_called_function_allocates_is_that_of_the_op_that_runs() -> None:
    """And a cheap op is known by its allocation only."""
    ops = run("a", 0.0), run("c", 20.0)
    trace = traced(Allocation(STEP, "inner", 9, 3.0, 21.0), Allocation(STEP, "b", 4, 12.0, 13.0), ops=ops)
    assert list(profiled(trace).profile.ops) == [
        OpMemory("a", 9, 0, 0),
        OpMemory("b", 4, 0, 4),
        OpMemory("c", 0, 0, 9),
    ]


def test_other_steps_of_the_process_do_not_count() -> None:
    others = Allocation(1, "a", 1000, 0.1, 0.2), Allocation(1, "x", 9000, 0.1)
    ops = run("a", 0.0), run("b", 10.0), run("a", 11.0, step=1)
    trace = traced(Allocation(STEP, "a", 2000, 0.5, 12.0), *others, ops=ops)
    assert list(profiled(trace).profile.ops) == [OpMemory("a", 2000, 0, 0), OpMemory("b", 0, 0, 2000)]


def test_the_highest_peak_and_the_least_seconds_of_all_steps() -> None:
    low, high = (Allocation(STEP, "a", size, 0.5, 5.0) for size in (10, 20))
    found = profiled(
        traced(low, ops=(run("a", 0.0, 2.0),)),
        traced(high, ops=(run("a", 0.0, 3.0),)),
        resident=5,
    )
    assert found.profile.peak == 25
    assert found.costs.op_seconds(CHAIN_VIEW.names.index("a")) == 2.0


def test_the_graph_is_the_one_that_allocated() -> None:
    small, other = graph_of(x=""), graph_of(a="", z="")
    trace = traced(
        Allocation(STEP, "a", 50, 0.5), Allocation(STEP, "b", 50, 10.5), Allocation(1, "x", 60, 0.1)
    )
    assert find_graph("j", [other, CHAIN, small], [trace]) is CHAIN
    with pytest.raises(
        EnforcerError, match=r"no graph of the job 'j' was seen to allocate: .*do without jit_"
    ):
        find_graph("j", [small], [traced()])


def job_step(name: str, held: int, resident: int = 0) -> JobStep:
    graph = graph_of(up="", down="up")
    profile = profile_of(("up", held, 0, 0), ("down", 0, 0, held), resident=resident)
    view = GraphView.of(graph)
    return JobStep(name, view, profile, by_name(view, {"up": 1.0, "down": 1.0}, {}))


def test_what_does_not_fit_at_all_is_left_out() -> None:
    found = fit([job_step("b", 60), job_step("large", 200), job_step("a", 60)], 130)
    assert found.plan is not None
    assert [job.name for job in found.plan.jobs] == ["a", "b"]
    assert list(found.left_out) == ["large"]
    assert isinstance(found.left_out["large"], PlanError)
    assert "the job 'large' alone peaks at 200 bytes" in str(found.left_out["large"])
    assert fit([job_step("large", 200)], 130).plan is None


def test_of_jobs_that_do_not_fit_together_the_first_are_taken() -> None:
    """98 bytes are left by the margin; each holds 40 between its steps, and takes 10 more within."""
    steps = [job_step(name, 10, resident=40) for name in ("c", "a", "b")]
    found = fit(steps, 100)
    assert found.plan is not None
    assert [job.name for job in found.plan.jobs] == ["a", "c"]
    assert "take fewer jobs" in str(found.left_out["b"])
    assert fit(steps[:2], 100).left_out == {}


def test_a_step_that_cannot_be_planned_leaves_the_others_alone() -> None:
    sound = job_step("sound", 10)
    broken = JobStep("broken", sound.view, profile_of(("gone", 1, 0, 0)), sound.costs)
    found = fit([broken, sound], 100)
    assert found.plan is not None
    assert [job.name for job in found.plan.jobs] == ["sound"]
    assert isinstance(found.left_out["broken"], GraphError)


def test_a_job_that_fails_says_so_at_once(caplog: pytest.LogCaptureFixture) -> None:
    life = Life(Job("a", SessionStep(None, None), ()))
    life.fail(ValueError("no more data"))
    assert caplog.messages == ["tfwave: the job 'a' failed after 0 steps: no more data"]
    assert isinstance(life.result(0.0).error, ValueError)


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


def test_advice_keeps_what_running_the_jobs_keeps() -> None:
    """10 bytes of variables, which are in the pool, once more for their new values; and a constant."""
    constant = job_step("j", 50, resident=10)
    node = constant.view.nodes[0]
    node.op = "Const"
    node.attr["value"].tensor.tensor_content = b"1234"
    step = replace(constant, view=GraphView.of(GraphDef(node=constant.view.nodes)))
    found = advise([step], 1000)
    assert found.kept_bytes == 10 + node.attr["value"].ByteSize()
    assert found.plan is not None
    assert found.plan.limit_bytes == 1000 - found.kept_bytes
    narrow = advise([step], found.kept_bytes)
    assert (narrow.fits, "are kept for the jobs' variables and constants alone" in narrow.why) == (
        False,
        True,
    )


def test_advice_needs_jobs_with_names_of_their_own() -> None:
    with pytest.raises(PlanError, match="there is no job"):
        advise([], 100)
    with pytest.raises(PlanError, match="two jobs are named 'a'"):
        advise([job_step("a", 1), job_step("a", 1)], 100)


def test_what_is_resident_does_not_grow_with_the_batch() -> None:
    """98 bytes of 100 are left by the margin, 50 of them resident in all."""
    jobs = [GroupedJob("a", (group(0, 16),), 20), GroupedJob("b", (group(0, 8),), 30)]
    assert largest_scale(jobs, 100) == 3.0
    assert largest_scale(jobs[1:], 100) == 8.5
    assert largest_scale(jobs, 40) == 0.0
    assert largest_scale([GroupedJob("c", (), 10)], 100) == math.inf
    assert largest_scale([GroupedJob("c", (), 110)], 100) == 0.0


@pytest.mark.parametrize(("in_pool", "resident"), [(1060, 1000), (60, 0), (50, 0), (0, 0)])
def test_what_the_pool_of_a_captured_job_held_besides_is_resident(in_pool: int, resident: int) -> None:
    """More than the step made; just that; less, as what is fed is not in it; and no pool."""
    step = Step()
    step.run("a", 0, (60, 1), allocated=[60])
    step.stats.dev_stats[0].node_stats[0].memory[0].allocator_bytes_in_use = in_pool
    found = captured_step("job", bundle_of([graph(("a", "Fill", []))], step.stats))
    assert (found.name, found.resident, found.profile.peak) == ("job", resident, 60)


def test_a_job_has_a_name() -> None:
    with pytest.raises(PlanError, match="a job has no name"):
        Job("", None, ())


def test_a_limit_above_the_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwave.colocate.pool.pool_limit", lambda: 1000)
    with pytest.raises(PlanError, match=r"a limit of 2\.0 KiB is above the pool's, 1000 bytes: set"):
        run_jobs([], "2kB")


def test_jobs_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwave.colocate.pool.pool_limit", lambda: 1000)
    monkeypatch.setattr("tfwave.colocate.pool.load_barrier_op", lambda: None)
    monkeypatch.setattr("tfwave.colocate.room.Ledger", lambda *_: None)
    job = Job("twin", SessionStep(None, None), ())
    with pytest.raises(PlanError, match="two jobs are named 'twin'"):
        Pool().add_all([job, job])


def test_a_pool_that_has_ended_takes_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger would be open for good, and no other pool could be made."""
    monkeypatch.setattr("tfwave.colocate.pool.pool_limit", lambda: 1000)
    monkeypatch.setattr("tfwave.colocate.pool.load_barrier_op", lambda: None)
    monkeypatch.setattr("tfwave.colocate.room.Ledger", lambda *_: SimpleNamespace(is_open=False))
    with Pool() as pool:
        pass
    with pytest.raises(EnforcerError, match="the pool has ended: add jobs inside of its with block"):
        pool.add(Job("late", SessionStep(None, None), ()))


def test_importing_colocate_does_not_import_tensorflow() -> None:
    code = "import sys, tfwave; tfwave.colocate.run; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
