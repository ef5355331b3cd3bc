"""Transfers that wait for the arrival of earlier ones, by hand."""

from collections.abc import Sequence

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.cluster import Cluster
from tfwave.graph.names import Channel
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.discipline import Discipline
from tfwave.sim.acks import acknowledged
from tfwave.sim.job import CompiledJob, compile_job
from tfwave.sim.simulate import timeline_of

PULL = Channel(SERVERS[0], WORKER)
PULLED = (4.0, 1.0, 2.0, 3.0)
"""Seconds of each transfer, in their order; what each is used for takes half a second."""


@pytest.fixture(name="job")
def _job() -> CompiledJob:
    build = Builder()
    for i in range(len(PULLED)):
        build.op(WORKER, f"use{i}", [build.pair(build.const(SERVERS[0], f"v{i}"), SERVERS[0], WORKER)])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view)
    seconds = {t.node: PULLED[int(t.key.node[1:])] for t in transfers.data}
    ops = {name: 0.5 if name.startswith("use") else 0.0 for name in view.names}
    return compile_job(view, transfers, by_name(view, ops, seconds), Cluster(), {PULL: Discipline.COUNTER})


def _ranks(job: CompiledJob) -> list[int]:
    return [int(t.key.node[1:]) for t in job.transfers.data]


def _in_order(job: CompiledJob) -> list[int]:
    return sorted(range(len(PULLED)), key=_ranks(job).__getitem__)


def _begun(job: CompiledJob, window: int, seconds: float) -> Sequence[float]:
    told = acknowledged(job, [_in_order(job)], window, seconds)
    timeline = timeline_of(told, told.run(_ranks(job)))
    return sorted(i.begin_seconds for i in timeline.intervals if i.kind == "transfer")


def test_each_transfer_waits_for_the_one_a_window_before_it(job: CompiledJob) -> None:
    assert _begun(job, 1, 1.0) == [0, 5, 7, 10]
    assert _begun(job, 2, 2.0) == [0, 4, 6, 8]
    assert _begun(job, 3, 4.0) == [0, 4, 5, 8]


def test_what_comes_back_in_time_delays_nothing(job: CompiledJob) -> None:
    plain = job.makespan(_ranks(job))
    assert acknowledged(job, [_in_order(job)], 2, 1.0).makespan(_ranks(job)) == plain == 10.5
    assert acknowledged(job, [_in_order(job)], 4, 9.0).makespan(_ranks(job)) == plain


def test_channels_that_are_not_named_send_as_before(job: CompiledJob) -> None:
    assert acknowledged(job, [], 1, 5.0).makespan(_ranks(job)) == job.makespan(_ranks(job))
