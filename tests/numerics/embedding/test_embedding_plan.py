"""Steps that are staged by a plan: what it says is what is done, bit for bit like steps by themselves."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.embedding.embedding_job import Job, Plain, batches, dataset, row_sets, stepped, waited_for
from tfwave.embedding import LFU, SGD, Dynamic, Table, capture, staged
from tfwave.embedding.staged import tables_of
from tfwave.errors import CostError, PlanError, TfwaveError
from tfwave.plan.embeddings import Embeddings, RowPriorities
from tfwave.plan.io import save_plan
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.runtime.embedding.rows import LATE
from tfwave.staging.capture import read_capture, unpacked
from tfwave.staging.choice import Forecaster, plan_embeddings
from tfwave.staging.forecast import Links

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]

TOGETHER = RowPriorities(cold_push=0)


def by_plan(job: Job, **decided: Any) -> Plan:
    """Have the job's steps staged by a plan."""
    plan = Plan(embeddings=Embeddings(tables_of(job.tables), **decided))
    job.staged = staged(stepped(job.weight), job.tables, plan=plan)
    return plan


def waits(job: Job) -> int:
    """How often gradients wait for a server, in the function of the first call."""
    call = next(job.staged.calls(dataset(batches(4))))
    graph = call.function.get_concrete_function(*call.args).graph
    sent = [op for op in graph.get_operations() if op.type == "Identity" and not op.device]
    return sum(bool(before.device) for op in sent for before in op.control_inputs)


@pytest.mark.parametrize("hot_bytes", [0, 300])
@pytest.mark.parametrize("priorities", [RowPriorities(), TOGETHER])
def test_a_plan_is_obeyed_and_the_bits_are_those_of_single_steps(
    hot_bytes: int, priorities: RowPriorities
) -> None:
    job, plain = Job(1), Plain()
    by_plan(job, steps=4, hot_bytes=hot_bytes, priorities=priorities)
    found = batches(40)
    for call in job.staged.calls(dataset(found)):
        assert call.steps == 4
        keeps = sum(len(rows) for sets in row_sets(job.staged, call) for rows in sets.kept)
        assert bool(keeps) == bool(hot_bytes)
        job.take(call)
    plain.train(found)
    assert job.losses == plain.losses
    assert job.state() == plain.state()


def test_priorities_say_whether_gradients_of_cold_rows_wait() -> None:
    """For each of two servers, between each two of four batches."""
    job = Job(1)
    by_plan(job, steps=4)
    assert waits(job) == 2 * 3
    by_plan(job, steps=4, priorities=TOGETHER)
    assert waits(job) == 0


def test_rows_wait_for_the_updates_of_these_rows_alone() -> None:
    """Of a table in one variable, updates are in turn: of each batch of the first rows, then of the rest."""
    job = Job(4)
    call = next(job.staged.calls(dataset(batches(4))))
    graph = call.function.get_concrete_function(*call.args).graph
    (items,) = job.tables["items"].shards
    (handle,) = [inside for outside, inside in graph.captures if outside is items.handle]
    ops = [op for op in graph.get_operations() if op.inputs]
    updates = [op for op in ops if op.inputs[0] is handle and op.type.startswith("ResourceSparseApply")]
    assert len(updates) == 2 * 4
    gathers = [op for op in ops if op.type == "ResourceGather"]
    late = [op for op in gathers if op.inputs[0] is handle][2:]  # behind those of the first batch
    early = [
        op for op in gathers if op.inputs[0].op.type == "IdentityN" and op.inputs[0].op.inputs[0] is handle
    ]
    assert [waited_for(op, updates) for op in late] == [updates[:1], updates[:3], updates[:5]]
    assert [waited_for(op, updates) for op in early] == [[], updates[:1], updates[:3]]


def test_staleness_is_the_plans() -> None:
    job, plain = Job(1), Plain(4, old=2)
    by_plan(job, steps=4, staleness=2)
    job.train(batches(12))
    plain.train(batches(12))
    assert job.losses == plain.losses


def test_a_plan_is_refused_for_other_tables_and_beside_what_it_says(tmp_path: Path) -> None:
    job = Job(1)
    plan = by_plan(job, steps=4)
    assert plan.embeddings
    users, *others = plan.embeddings.tables
    other = replace(plan.embeddings, tables=(replace(users, rows=users.rows + 1), *others))
    save_plan(Plan(embeddings=other), tmp_path / "plan.json")
    step = stepped(job.weight)
    with pytest.raises(PlanError, match=r"'users' is \[.*by rows in 2 parts, and the plan is for"):
        staged(step, job.tables, plan=tmp_path / "plan.json")
    with pytest.raises(TfwaveError, match="the plan says steps: leave it out"):
        staged(step, job.tables, plan=plan, steps=4)
    with pytest.raises(PlanError, match="stages no steps: make one that does with `tfwave embeddings"):
        staged(step, job.tables, plan=Plan(placement=Placement(1)))


def test_a_capture_makes_a_plan_for_the_tables_that_it_saw(tmp_path: Path) -> None:
    """Its rows are those of the calls, and its times those of this process, whatever they are."""
    job = Job(1)
    found = capture(
        stepped(job.weight), job.tables, dataset(batches(9)), tmp_path / "capture.json", batches=6
    )
    assert read_capture(tmp_path / "capture.json") == found
    assert len(found.batches) == 6
    assert found.dense_bytes == (4 * 4,)  # of the weight
    assert found.core_seconds
    assert {part.server for table in found.tables for part in table.parts} == {0, 1}
    plan = plan_embeddings(found, Links(1e6))
    assert plan.steps <= 6
    rows = Forecaster(found, Links(1e6)).counted.loads(range(6), 0)[0].asked.rows
    train = Job(6).staged
    sets, *_ = row_sets(train, next(train.calls(dataset(batches(6)))))
    shards = 2  # on each server
    assert rows == sum(int(tf.reduce_sum(own[: (LATE + 1) * shards])) for own in sets.wanted)
    fresh = Job(1)
    fresh.staged = staged(stepped(fresh.weight), fresh.tables, plan=Plan(embeddings=plan))
    fresh.train(batches(3))
    plain = Plain()
    plain.train(batches(3))
    assert fresh.losses == plain.losses


def test_a_capture_reads_its_dataset_once(tmp_path: Path) -> None:
    """A stream has no second time; and ids of a dynamic table, that have their rows then, would be told twice."""
    ids = iter([[5, 5, 6], [6, 7, 5], [8]])
    data = tf.data.Dataset.from_generator(
        lambda: (({"t": some}, 1.0) for some in ids),
        output_signature=({"t": tf.TensorSpec([None], tf.int64)}, tf.TensorSpec([])),
    )
    table = Table(tf.Variable(tf.ones([9, 1])), SGD(1), dynamic=Dynamic(LFU(), np.ones, admit=2))
    found = capture(lambda embedded, batch: (batch, embedded), {"t": table}, data, tmp_path / "capture.json")
    assert [unpacked(own.rows["t"]).tolist() for own in found.batches] == [[0, 8], [0, 1, 8], [8]]
    assert [own.ids["t"] for own in found.batches] == [3, 3, 1]


def test_a_dataset_of_one_batch_is_too_short(tmp_path: Path) -> None:
    table = {"t": Table(tf.Variable(tf.ones([1, 1])), SGD(1))}
    data = tf.data.Dataset.from_tensors(({"t": [0]}, 1.0))
    with pytest.raises(CostError, match="has 1 batches: give at least 2"):
        capture(lambda embedded, batch: (batch, embedded), table, data, tmp_path / "capture.json")
