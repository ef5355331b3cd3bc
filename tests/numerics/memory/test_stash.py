"""Tensors that leave TensorFlow's pool and come back, in steps that end well and in others."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.cancellation import CancellationManager

from tfwave.errors import EnforcerError
from tfwave.runtime.native import load_ops as ops
from tfwave.runtime.stash import (
    limit_stash,
    reserve_stash,
    stash_figures,
    trim_stash,
)

pytestmark = pytest.mark.tensorflow

Between = Callable[[tf.Tensor], list[Any]]
VALUE = np.arange(300 * 1000, dtype=np.float32).reshape(300, 1000)


def nothing(ticket: tf.Tensor) -> list[Any]:
    del ticket
    return []


def there_and_back(value: tf.Tensor, between: Between = nothing, slot: str = "x") -> tf.Tensor:
    ticket = ops().tfwave_stash(value=value, slot=slot)
    with tf.control_dependencies(between(ticket)):
        return ops().tfwave_fetch(ticket=ticket, T=value.dtype)


def in_function(between: Between) -> Callable[[], Any]:
    return tf.function(lambda: there_and_back(tf.identity(VALUE), between))


def in_session(between: Between) -> Callable[[], Any]:
    with tf.Graph().as_default() as graph:
        tf.identity(there_and_back(tf.identity(tf.constant(VALUE)), between), "back")
    session = tf.compat.v1.Session(graph=graph)
    return lambda: session.run("back:0")


def in_callers_thread(between: Between) -> Callable[[], Any]:
    with tf.Graph().as_default() as graph:
        tf.identity(there_and_back(tf.identity(tf.constant(VALUE)), between), "back")
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=-1)
    session = tf.compat.v1.Session(graph=graph, config=config)
    return lambda: session.run("back:0")


everywhere = pytest.mark.parametrize("made", [in_function, in_session, in_callers_thread])


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """However a test's steps end."""
    limit = stash_figures().limit_bytes
    yield
    limit_stash(limit)
    assert (stash_figures().tensors, stash_figures().held_bytes) == (0, 0)


@everywhere
def test_the_same_comes_back_and_is_counted(made: Callable[[Between], Callable[[], Any]]) -> None:
    run, before = made(nothing), stash_figures()
    for _ in range(3):
        assert np.array_equal(run(), VALUE)
    after = stash_figures()
    for then, now in ((before.out, after.out), (before.back, after.back)):
        assert now.bytes - then.bytes == 3 * VALUE.nbytes
        assert now.copies - then.copies == 3
        assert now.seconds > then.seconds
    assert after.high_water_bytes >= VALUE.nbytes


@everywhere
def test_a_step_that_fails_between_leaves_nothing(made: Callable[[Between], Callable[[], Any]]) -> None:
    seen: list[int] = []

    def fail(ticket: Any) -> Any:
        seen.append(stash_figures().tensors)
        raise RuntimeError("between")

    failing = made(lambda ticket: [tf.numpy_function(fail, [ticket], tf.int64)])
    for _ in range(2):
        with pytest.raises(tf.errors.OpError, match="between"):
            failing()
        assert stash_figures().tensors == 0
    assert seen == [1, 1]
    assert np.array_equal(made(nothing)(), VALUE)


def test_a_step_that_is_cancelled_between_leaves_nothing() -> None:
    manager = CancellationManager()

    def cancel(ticket: Any) -> Any:
        manager.start_cancel()
        return ticket

    def step() -> tf.Tensor:
        return there_and_back(tf.identity(VALUE), lambda t: [tf.numpy_function(cancel, [t], tf.int64)])

    function = manager.get_cancelable_function(tf.function(step).get_concrete_function())
    with pytest.raises(tf.errors.CancelledError):
        function()
    assert stash_figures().tensors == 0


def test_a_ticket_is_good_once() -> None:
    def twice() -> tf.Tensor:
        ticket = ops().tfwave_stash(value=tf.identity(VALUE), slot="twice")
        first = ops().tfwave_fetch(ticket=ticket, T=tf.float32)
        with tf.control_dependencies([first]):
            return first + ops().tfwave_fetch(ticket=ticket, T=tf.float32)

    with pytest.raises(
        tf.errors.FailedPreconditionError, match=r"slot 'twice': its ticket .* fetched before"
    ):
        tf.function(twice)()
    kept = tf.function(lambda: ops().tfwave_stash(value=tf.identity(VALUE), slot="kept"))()
    assert stash_figures().tensors == 1
    changed = tf.function(lambda ticket: ticket + 1)(kept)
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"no ticket {int(changed)}"):
        ops().tfwave_fetch(ticket=changed, T=tf.float32)
    assert np.array_equal(ops().tfwave_fetch(ticket=kept, T=tf.float32), VALUE)
    with pytest.raises(tf.errors.InvalidArgumentError, match="one ticket"):
        ops().tfwave_fetch(ticket=[1, 2], T=tf.float32)


def test_a_ticket_knows_its_type() -> None:
    @tf.function
    def step() -> tf.Tensor:
        return ops().tfwave_fetch(ticket=ops().tfwave_stash(value=tf.identity(VALUE), slot="x"), T=tf.int32)

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"slot 'x': TfwaveFetch of type int32 for .* float"
    ):
        step()


def test_only_plain_bytes_leave() -> None:
    for value in (tf.constant("text"), tf.Variable(1.0).handle):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"slot 'x': a tensor of type .* keep it"):
            ops().tfwave_stash(value=value, slot="x")
    for value in (tf.constant(2.5, tf.bfloat16), tf.zeros([0, 4]), tf.constant([True, False])):
        back = there_and_back(value)
        assert (back.dtype, back.shape) == (value.dtype, value.shape)
        assert np.array_equal(back.numpy(), value.numpy())


def test_the_shape_is_known_beforehand() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 7], tf.float32)])
    def step(value: tf.Tensor) -> tf.Tensor:
        back = there_and_back(value)
        assert back.shape.as_list() == [None, 7]
        return back

    assert step(tf.ones([5, 7])).shape == [5, 7]


def test_the_limit_ends_a_step_that_needs_more() -> None:
    trim_stash()
    limit_stash(VALUE.nbytes // 2)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"slot 'x': .* over its limit"):
        in_function(nothing)()
    with pytest.raises(EnforcerError, match="cannot keep"):
        reserve_stash([VALUE.nbytes])
    for size in (0, 1 << 70):
        with pytest.raises(EnforcerError, match="at most 2\\^60"):
            limit_stash(size)


def test_what_is_reserved_is_used_and_goes_with_the_session() -> None:
    trim_stash()
    mapped = stash_figures().mapped_bytes
    reserve_stash([VALUE.nbytes])
    ready = stash_figures().mapped_bytes
    assert ready - mapped >= VALUE.nbytes
    with tf.Graph().as_default() as graph:
        tf.identity(there_and_back(tf.identity(tf.constant(VALUE))), "back")
    with tf.compat.v1.Session(graph=graph) as session:
        for _ in range(3):
            session.run("back:0")
        assert stash_figures().mapped_bytes == ready
    trim_stash()
    assert stash_figures().mapped_bytes == stash_figures().held_bytes
