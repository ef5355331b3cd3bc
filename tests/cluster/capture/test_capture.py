"""Capturing a live local session; the demo's test captures one on a cluster."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

from tfwave.bundle.bundle import load_bundle
from tfwave.capture.session import capture_run, capture_session
from tfwave.errors import BundleError

tf: Any = pytest.importorskip("tensorflow")


@pytest.fixture
def job():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4, 4], name="x")
        y = tf.identity(tf.linalg.matmul(x, x), name="y")
        z = tf.identity(x + 1.0, name="z")
        with tf.compat.v1.Session(graph=graph) as session:
            yield session, {"x:0": [[1.0] * 4] * 4}, y, z


def test_one_call_writes_a_bundle_that_loads(job, tmp_path):
    session, feed, y, _ = job
    bundle = capture_run(session, y, feed, out=tmp_path / "bundle", steps=3, warmup=1)
    assert load_bundle(tmp_path / "bundle") == bundle
    assert "run" not in vars(session)
    assert len(bundle.steps) == 3
    assert bundle.manifest.fetches == ["y:0"]
    assert bundle.manifest.tensorflow == tf.__version__
    assert any("MatMul" in op for op in bundle.view.ops)
    assert sum(s.missing_transfers for s in bundle.manifest.steps) == 0
    assert bundle.manifest.cores == os.cpu_count()
    assert all(s.core_seconds is not None and s.core_seconds >= 0 for s in bundle.manifest.steps)
    assert bundle.manifest.untraced_core_seconds is not None
    assert bundle.manifest.untraced_core_seconds >= 0


def test_the_block_traces_only_its_own_step_and_gives_the_same_results(job, tmp_path):
    session, feed, y, z = job
    plain = session.run(y, feed)
    with capture_session(session, out=tmp_path / "bundle", steps=2, warmup=0) as tracer:
        results = [session.run(y, feed) for _ in range(4)]
        session.run(z, feed)
    assert all((result == plain).all() for result in results)
    assert len(tracer.bundle().steps) == 2
    assert tracer.bundle().manifest.untraced_core_seconds is None
    assert "run" not in vars(session)


def test_a_capture_within_a_capture_leaves_the_outer_one_as_it_was(job, tmp_path):
    session, feed, y, _ = job
    with capture_session(session, out=tmp_path / "outer", steps=3, warmup=0):
        session.run(y, feed)
        with capture_session(session, out=tmp_path / "inner", steps=1, warmup=0):
            session.run(y, feed)
        for _ in range(2):
            session.run(y, feed)
    assert "run" not in vars(session)
    assert [len(load_bundle(tmp_path / name).steps) for name in ("outer", "inner")] == [3, 1]


def test_a_session_may_be_closed_in_the_block(job, tmp_path):
    session, feed, y, _ = job
    devices = [device.name for device in session.list_devices()]
    with capture_session(session, out=tmp_path / "bundle", steps=1, warmup=0):
        session.run(y, feed)
        session.close()
    assert load_bundle(tmp_path / "bundle").manifest.devices == devices


def test_a_monitored_session_is_refused_before_any_step(tmp_path):
    with tf.Graph().as_default():
        y = tf.identity(1.0, name="y")
        with tf.compat.v1.train.MonitoredSession() as monitored:
            with pytest.raises(BundleError, match="that of a MonitoredSession is what its hooks get"):
                capture_run(monitored, y, out=tmp_path / "bundle")
            assert not list(tmp_path.iterdir())


def test_a_call_beside_one_of_another_thread_passes_untouched(tmp_path):
    started, others_ran = Event(), Event()

    def first_waits():
        if not started.is_set():
            started.set()
            assert others_ran.wait(60)
        return np.float32(1)

    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        y = tf.numpy_function(first_waits, [], tf.float32, name="y")
        with (
            capture_session(session, out=tmp_path / "bundle", steps=1, warmup=0),
            ThreadPoolExecutor(1) as threads,
        ):
            traced = threads.submit(session.run, y)
            assert started.wait(60)
            try:
                assert session.run(y) == 1
            finally:
                others_ran.set()
            assert traced.result() == 1
    assert len(load_bundle(tmp_path / "bundle").steps) == 1


def test_an_exception_in_the_block_restores_the_session_and_writes_nothing(job, tmp_path):
    session, feed, y, _ = job
    with pytest.raises(ZeroDivisionError), capture_session(session, out=tmp_path / "bundle"):  # noqa: PT012
        session.run(y, feed)
        raise ZeroDivisionError
    assert "run" not in vars(session)
    assert not list(tmp_path.iterdir())


def test_too_few_runs_are_an_error_that_says_how_many_it_takes(job, tmp_path):
    session, feed, y, _ = job
    with (
        pytest.raises(BundleError, match="more than 2 times"),
        capture_session(session, out=tmp_path / "bundle", warmup=2),
    ):
        session.run(y, feed)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_refused_before_any_step(job, tmp_path):
    session, feed, y, _ = job
    (tmp_path / "notes").write_text("x")
    with pytest.raises(BundleError, match="other files"):
        capture_run(None, y, feed, out=tmp_path)
    with (
        pytest.raises(BundleError, match="is a file"),
        capture_session(session, out=tmp_path / "notes"),
    ):
        pytest.fail("the block ran")


def test_runs_with_other_fetches_than_the_first_ones_are_an_error_that_names_these(job, tmp_path):
    session, feed, y, z = job
    with (
        pytest.raises(BundleError, match=r"each time with the fetches of the first, \[z:0\], and without"),
        capture_session(session, out=tmp_path / "bundle", warmup=1),
    ):
        _ = [session.run(fetch, feed) for fetch in (z, y, y, y)]


def test_counts_out_of_range_are_refused(job, tmp_path):
    session, *_ = job
    with (
        pytest.raises(BundleError, match="steps must be >= 1"),
        capture_session(session, out=tmp_path, steps=0),
    ):
        pass
