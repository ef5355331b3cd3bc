"""Calls that are made anew update no row twice."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.embedding.embedding_job import Job, batches, dataset, waited_for
from tfwave.embedding import SGD, Call, Table, staged
from tfwave.runtime.embedding import ledger


class Counted:
    """Two calls, each of five steps: a row loses 1 by each of its ids. The third step fails when it is told to."""

    def __init__(self, **options: int) -> None:
        self.table, self.fails = Table(tf.Variable(tf.zeros([6, 2])), SGD(1.0)), tf.Variable(False)
        self.ids = np.random.default_rng(1).integers(0, 6, (10, 3)).astype(np.int32)
        train = staged(self._step, {"t": self.table}, steps=5, **options)
        data = tf.data.Dataset.from_tensor_slices(({"t": self.ids}, np.arange(10)))
        self.first, self.second = train.calls(data)

    def _step(self, embedded: Any, batch: Any) -> Any:
        right = tf.debugging.Assert(~self.fails | (batch != 2), ["the third"])
        with tf.control_dependencies([right]):
            return batch, {"t": tf.ones_like(embedded["t"])}

    def run(self, *calls: Call) -> list[float]:
        """What rows have lost by then."""
        for call in calls:
            call.function(*call.args)
        return (-self.table.shards[0].numpy()[:, 0]).tolist()

    def by(self, *numbers: int) -> list[float]:
        """What they lose by these calls."""
        own = [self.ids.reshape(2, 15)[number] for number in numbers]
        return np.bincount(np.concatenate(own), minlength=6).tolist()


@pytest.mark.parametrize("options", [{}, {"staleness": 1}, {"hot_bytes": 10**6}])
def test_a_call_that_is_made_anew_updates_no_row_twice(options: dict[str, int]) -> None:
    job = Counted(**options)
    job.fails.assign(True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the third"):
        job.run(job.first)
    assert 0 < sum(job.run()) < sum(job.by(0))
    job.fails.assign(False)
    assert job.run(job.second, job.first, job.second, job.first) == job.by(0, 1)


def test_a_call_whose_place_in_the_ledger_another_has_taken_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better twice than not at all."""
    monkeypatch.setattr(ledger, "_CALLS", 1)
    job = Counted()
    assert job.run(job.second) == job.by(1)
    assert job.run(job.first) == job.by(0, 1)
    assert job.run(job.second) == job.by(0, 1)


def test_a_push_is_looked_up_when_it_has_come_and_noted_when_its_rows_are_updated() -> None:
    """And what is noted holds up no look at the next: it is of this attempt."""
    call = next(Job(2).staged.calls(dataset(batches(2))))
    ops = call.function.get_concrete_function(*call.args).graph.get_operations()
    notes = [op for op in ops if op.type == "ResourceScatterMax"]
    gathers = [op for op in ops if op.type == "ResourceGather"]
    looks = [op for op in gathers if op.outputs[0].dtype == tf.int64]
    assert len(notes) == len(looks) == 2 * 3  # two servers; first and rest of a batch, and all of the last
    for look in looks:
        assert waited_for(look, gathers) != [look]
        assert not waited_for(look, notes)
    for note in notes:
        before = [op for op in ops[: ops.index(note)] if op.device == note.device]
        updates = [op for op in before if op.type in ("ResourceScatterNdSub", "ResourceSparseApplyAdagradV2")]
        assert waited_for(note, updates) == updates != []
