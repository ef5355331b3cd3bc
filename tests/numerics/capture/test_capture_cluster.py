"""Capturing steps on a cluster, also where TensorFlow loses some of what it traced."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.numerics.corpus import places
from tfwave.capture.session import EXTRA_STEPS, capture_run

v1 = tf.compat.v1


@pytest.fixture
def job():
    """A session, and a step that pulls one variable and pushes its gradient."""
    where = places.cluster()
    with tf.Graph().as_default() as graph:
        with v1.device("/job:ps/task:0"):
            weight = v1.get_variable("weight", initializer=tf.ones((8, 8)))
        with v1.device(where.worker):
            loss = tf.reduce_sum(tf.tanh(weight) ** 2)
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        v1.Session.reset(where.target)
        with v1.Session(where.target, graph=graph) as session:
            session.run(v1.global_variables_initializer())
            yield session, step


def lose(session: Any, name: str, calls: int) -> None:
    """Take what arrives from nodes called so out of the traces of the next calls."""
    run, left = session.run, iter(range(calls))

    def lossy(fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        result = run(fetches, feed_dict, options, run_metadata)
        if next(left, None) is not None:
            for device in run_metadata.step_stats.dev_stats:
                kept = [e for e in device.node_stats if f"_{name}" not in e.timeline_label]
                del device.node_stats[:]
                device.node_stats.extend(kept)
        return result

    session.run = lossy


def test_what_was_lost_is_traced_again(job: Any, tmp_path: Path) -> None:
    session, step = job
    lose(session, "gradients", calls=3)
    bundle = capture_run(session, step, out=tmp_path / "bundle", steps=2, warmup=0)
    assert [s.missing_transfers > 0 for s in bundle.manifest.steps[:3]] == [True] * 3
    assert 4 <= len(bundle.steps) < 2 + EXTRA_STEPS
    assert {t.bytes for t in bundle.transfers.data} == {8 * 8 * 4}


def test_what_never_comes_ends_the_capture_all_the_same(job: Any, tmp_path: Path) -> None:
    session, step = job
    lose(session, "gradients", calls=1000)
    bundle = capture_run(session, step, out=tmp_path / "bundle", steps=2, warmup=0)
    assert len(bundle.steps) == 2 + EXTRA_STEPS
    assert {t.bytes for t in bundle.transfers.data} == {0, 8 * 8 * 4}
