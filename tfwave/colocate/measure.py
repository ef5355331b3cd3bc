"""The first steps of a job, which it makes alone."""

import logging
import time
from dataclasses import replace
from typing import Any

from tfwave.capture.memory.told import told_bundle
from tfwave.capture.memory.traced import TRACED_STEPS
from tfwave.capture.timed import StepTime, timed
from tfwave.colocate.first import first_step
from tfwave.colocate.life import Run, Stepping
from tfwave.colocate.planned import ReadyJob
from tfwave.colocate.profile import ProfiledStep, captured_step, find_graph
from tfwave.errors import TfwaveError
from tfwave.passes.text import build_pass
from tfwave.plan.groups import GroupedJob
from tfwave.runtime.group_barriers import Insert
from tfwave.runtime.ledger import LedgerJob
from tfwave.runtime.live.grappler import in_grappler
from tfwave.runtime.trace.memory import MemoryTrace, trace_memory

_log = logging.getLogger("tfwave")


def measure(life: Stepping) -> ProfiledStep | None:
    """Make a step that warms up, and then some that are traced; None if the job ended or failed meanwhile."""
    try:
        found = _measure(life)
    except TfwaveError as err:
        life.fail(err)
        return None
    if found is not None:
        profile = found.step.profile
        _log.info("tfwave: the job '%s' peaks at %d bytes alone", life.job.name, profile.peak)
    return found


def ledger_job(job: GroupedJob, priority: int) -> LedgerJob:
    """What is resident is taken off the ledger's room: variables stay after a job has ended."""
    return LedgerJob(job.name, 0, job.held, tuple(group.transient for group in job.groups), priority)


def insert_barriers(life: Stepping, run: Run, ready: ReadyJob, batch: tuple[Any, ...]) -> tuple[Any, bool]:
    """Make the first step of an instance, with a job's barriers; what it returns, and whether they have a place.

    That holds constants of its own: those that TensorFlow folds on its way from the optimized graph to an instance
    are known only then.
    """
    groups = [list(group.ops) for group in ready.job.groups]
    insert = Insert(build_pass("counter_barrier", {"groups": groups, "job": ready.job.name}), ready.item)
    with in_grappler(life.rewritten(insert)):
        value = run(*batch)
    return value, insert.done


def _measure(life: Stepping) -> ProfiledStep | None:
    """What else the pool holds is taken off the limit once for all jobs: the traces do not tell of it."""
    run = life.instance()
    made = first_step(life, run)
    traced: list[tuple[StepTime, MemoryTrace]] = []
    given: list[int] = []

    def trace(*batch: Any) -> Any:
        given[:] = run.given(*batch)
        (value, taken), found = trace_memory(lambda: timed(lambda: run(*batch), time.process_time))
        traced.append((taken, replace(found, pool=())))
        return value

    while len(traced) < TRACED_STEPS and life.advance(trace):
        pass
    if life.ended:
        return None
    job = life.job
    graph = find_graph(job.name, made.graphs, [found for _, found in traced])
    bundle = told_bundle(made.graphs, graph, traced, given, warmup=1)
    step = replace(captured_step(job.name, bundle), slowed_at_most=job.slowed_at_most)
    return ProfiledStep(bundle, step, made)
