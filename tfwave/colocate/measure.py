"""The first steps of a job, which it makes alone."""

import logging
import statistics
from dataclasses import replace
from typing import Any

from tfwave.capture.memory.traced import TRACED_STEPS
from tfwave.colocate.first import first_step
from tfwave.colocate.job import SessionStep
from tfwave.colocate.life import Life, Run
from tfwave.colocate.profile import ProfiledStep, find_graph, profile_step
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.graph.access import VARIABLE_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.variable_bytes import resident_bytes
from tfwave.graph.view import GraphView
from tfwave.passes.text import build_pass
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.groups import GroupedJob
from tfwave.runtime.group_barriers import Insert
from tfwave.runtime.ledger import Ledger, LedgerJob
from tfwave.runtime.live.batches import bytes_of, captured_bytes
from tfwave.runtime.live.grappler import in_grappler
from tfwave.runtime.machine import with_compute_share
from tfwave.runtime.trace.memory import MemoryTrace, trace_memory

_log = logging.getLogger("tfwave")


def measure(life: Life) -> ProfiledStep | None:
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


def insert_barriers(life: Life, job: GroupedJob, item: GraphItem, ledger: Ledger) -> Run | None:
    """Add a job to the ledger and make a step with its barriers; the step with them, or None if the job ended."""
    try:
        run = _with_barriers(life, job, item, ledger)
    except TfwaveError as err:
        life.fail(err)
        return None
    return None if life.ended else run


def _measure(life: Life) -> ProfiledStep | None:
    run = life.instance()
    first = first_step(life, run)
    traces: list[MemoryTrace] = []
    shares: list[float] = []
    last: tuple[Any, ...] = ()

    def traced(*batch: Any) -> Any:
        nonlocal last
        last = batch
        (value, share), trace = trace_memory(lambda: with_compute_share(lambda: run(*batch)))
        traces.append(trace)
        shares.append(share)
        return value

    while len(traces) < TRACED_STEPS and life.advance(traced):
        pass
    if life.ended:
        return None
    job = life.job
    item = find_graph(job.name, first.optimized, traces)
    resident = bytes_of(last) + _variables(job.step, last, item)
    step = profile_step(job.name, item, traces, resident)
    step = replace(step, slowed_at_most=job.slowed_at_most, compute_share=statistics.median(shares))
    return ProfiledStep(item, step, graph_print(GraphView.of(*first.graphs)))


def _with_barriers(life: Life, job: GroupedJob, item: GraphItem, ledger: Ledger) -> Run:
    ledger.add(ledger_job(job, life.job.priority))
    groups = [list(group.ops) for group in job.groups]
    insert = Insert(build_pass("counter_barrier", {"groups": groups, "job": job.name}), item)
    run = life.instance()
    with in_grappler(insert), ledger.step(job.name):
        life.advance(run)
    if not life.ended and not insert.done:
        raise EnforcerError(
            f"TensorFlow optimized the step of the job '{job.name}' in another way the second time: "
            "its barriers have no place"
        )
    return run


def _variables(step: Any, batch: tuple[Any, ...], item: GraphItem) -> int:
    """An estimate: of what a graph does not tell the shape, nothing."""
    if not isinstance(step, SessionStep):
        return captured_bytes(step, batch)
    return sum(resident_bytes(node) for node in item.graph.node if node.op in VARIABLE_OPS)
