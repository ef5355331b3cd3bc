"""Several training steps in one call give the losses and the variables of single steps, bit for bit."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.cross_step import CrossStep, step_name
from grappler_passes.cut import Cut
from tests.full import few_or
from tests.numerics.corpus import LARGE, SESSIONS, load
from tests.numerics.corpus.places import LOCAL, Places, cluster
from tests.numerics.corpus.sample import same_bits
from tests.numerics.corpus.session import SessionSample
from tests.numerics.training_graphs import Training, closed, random_training, v1
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.graph.item import GraphItem
from tfwave.passes.pipeline import Pipeline

pytestmark = pytest.mark.tensorflow

CALLS = 3


def check(training: Training, places: Places, steps: int, seed: int, *, grappler: bool) -> None:
    item = check_rewrite(CrossStep(steps), training.item).item
    batches = training.batches(CALLS * steps, seed)
    one = training.run(training.graph, batches, 1, target=places.target, grappler=grappler)
    many = training.run(graph_bytes(item), batches, steps, target=places.target, grappler=grappler)
    assert same_bits(one, many)
    width = len(training.fetches)
    assert len({value.tobytes() for value in one[: len(batches) * width : width]}) == len(batches)


@pytest.mark.parametrize("seed", range(few_or(8, 16)))
def test_random_steps_of_one_process(seed: int) -> None:
    check(random_training(seed, LOCAL), LOCAL, 2 + seed % 7, seed, grappler=(seed + seed // 4) % 2 == 0)


@pytest.mark.parametrize("seed", range(16, 20))
def test_random_steps_of_a_cluster(seed: int) -> None:
    places = cluster()
    check(random_training(seed, places), places, 2 + seed % 3, seed, grappler=True)


@pytest.mark.parametrize("seed", [1, 7])
def test_replicas_in_one_graph(seed: int) -> None:
    check(random_training(seed, LOCAL, towers=2), LOCAL, 3, seed, grappler=seed == 7)


def test_steps_that_are_cut() -> None:
    training = random_training(2, LOCAL)
    devices = tuple(f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(3))
    item = check_rewrite(Pipeline((CrossStep(3), Cut(devices))), training.item).item
    batches = training.batches(CALLS * 3, 2)
    one = training.run(training.graph, batches, 1, target="", grappler=False)
    many = training.run(graph_bytes(item), batches, 3, target="", grappler=False)
    assert same_bits(one, many)


@pytest.mark.parametrize("name", [name for name in SESSIONS if name not in LARGE])
def test_samples(name: str) -> None:
    sample = load(name)
    assert isinstance(sample, SessionSample)
    item = check_rewrite(CrossStep(3), sample.item()).item
    three = replace(
        sample,
        feeds={step_name(f, k): v for f, v in sample.feeds.items() for k in range(3)},
        fetches=tuple(step_name(f, k) for k in range(3) for f in sample.fetches),
        targets=tuple(step_name(t, k) for k in range(3) for t in sample.targets),
    )
    for grappler in (False, True):
        one = sample.run(sample.graph, grappler=grappler, steps=6)
        assert same_bits(one, three.run(graph_bytes(item), grappler=grappler))


def drawing() -> Training:
    """Random ops of all kinds, one of which waits for an update; their sums are the loss."""
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            count = v1.get_variable("count", initializer=0.0, use_resource=True)
        counted = count.assign_add(1.0, read_value=False)
        draws = [
            v1.random_uniform([3, 2], seed=1),
            v1.random_normal([70], seed=2),
            v1.truncated_normal([5], seed=3),
            v1.random_uniform([4], 0, 1000, tf.int32, seed=4),
            v1.random_gamma([3], [0.5, 2.0], seed=5),
            v1.random_poisson([2.0, 3.0], [4], seed=6),
            v1.multinomial(tf.math.log([[0.2, 0.3, 0.5]]), 9, seed=7),
        ]
        with tf.control_dependencies([counted]):
            draws.append(v1.random_shuffle(tf.range(9.0), seed=8))
            read = count.read_value()
        sums = [tf.reduce_sum(tf.cast(draw, tf.float32)) for draw in draws]
        return closed(graph, [], [tf.add_n(sums), *draws, read], draws[-1])


@pytest.mark.parametrize("grappler", [False, True])
def test_random_sequences_go_on_from_step_to_step(grappler: bool) -> None:
    training = drawing()
    check(training, LOCAL, 3, 0, grappler=grappler)


def changing(*, loops: bool) -> Training:
    """A variable that is changed within a loop, or a branch that gives something before it has changed it."""
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            weights = v1.get_variable("weights", initializer=tf.ones([40]), use_resource=True)
            count = v1.get_variable("count", initializer=0.0, use_resource=True)

        def body(i: Any, total: Any) -> Any:
            with tf.control_dependencies([weights.assign_add(tf.ones([40]))]):
                return i + 1, total + tf.reduce_sum(weights.read_value())

        def branch() -> Any:
            slow = tf.reduce_sum(tf.matmul(tf.ones([300, 300]), tf.ones([300, 300])))
            with tf.control_dependencies([weights.assign_add(tf.fill([40], slow))]):
                return tf.constant(1.0), tf.constant(2.0)

        read = count.read_value()
        before = tf.reduce_sum(weights.read_value()) + read
        if loops:
            loss = tf.while_loop(lambda i, _: i < 3, body, [0, count.read_value()], parallel_iterations=1)[1]
        else:
            with tf.control_dependencies([before]):
                loss = before + sum(tf.cond(read < 9.0, branch, lambda: (tf.constant(1.0), tf.constant(3.0))))
        with tf.control_dependencies([loss if loops else loss.op.inputs[0]]):
            counted = count.assign_add(1.0, read_value=False)
        return closed(graph, [], [loss], counted)


@pytest.mark.parametrize("loops", [False, True])
def test_variables_that_branches_and_loops_change(loops: bool) -> None:
    check(changing(loops=loops), LOCAL, 3, 0, grappler=False)


def test_workers_that_do_not_wait_for_each_other() -> None:
    """Each runs its own steps on the same variables; none of their updates is lost."""
    places, steps = cluster(), 4
    with tf.Graph().as_default() as graph:
        with tf.device(places.servers[0]):
            count = v1.get_variable("count", initializer=np.int64(0), use_resource=True)
            before = count.read_value()
        with tf.control_dependencies([before]):
            counted = count.assign_add(1, read_value=False)
        training = closed(graph, [], [before], counted)
    item = CrossStep(steps)(training.item).item
    v1.Session.reset(places.target)
    got: list[list[Any]] = [[], []]
    with open_session(item, places.target) as first, open_session(item, places.target) as second:
        first.run(training.init)
        names = [step_name(name, k) for name in training.fetches for k in range(steps)]
        targets = [step_name(training.target, k) for k in range(steps)]

        def work(session: Any, values: list[Any]) -> None:
            for _ in range(5):
                values += session.run([names, targets])[0]

        threads = [threading.Thread(target=work, args=a) for a in zip((first, second), got, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert first.run(training.variables[0]) == 2 * 5 * steps
    for values in got:
        assert values == sorted(set(values))


def open_session(item: GraphItem, target: str) -> Any:
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph_bytes(item)), name="")
    return v1.Session(target, graph=graph)
