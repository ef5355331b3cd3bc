"""`tfwave.distribute.reduce` in one process: what becomes of a custom loop, and what it refuses."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfwave.distribute
import tfwave.keras
from tests.events import told_events
from tests.ports import free_ports
from tfwave.errors import EnforcerError
from tfwave.reduce.member import Member

X = np.random.default_rng(1).normal(size=(5, 8, 3)).astype("f")
Y = X @ np.ones((3, 1), "f")


class Loop:
    """One training, of either Keras."""

    def __init__(self, kind: Any) -> None:
        kind.utils.set_random_seed(3)
        self.model = kind.Sequential([kind.Input((3,)), kind.layers.Dense(4), kind.layers.Dense(1)])
        self.optimizer = kind.optimizers.Adam()

    def step(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.model(x) - y) ** 2)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), self.model.trainable_variables, strict=True)
        )
        return loss

    def reduced(self, step: Any = None, **rules: Any) -> tfwave.distribute.Reduced:
        return tfwave.distribute.reduce(
            step or self.step,
            self.optimizer,
            self.model.trainable_variables,
            workers=[f"127.0.0.1:{free_ports(1)[0]}"],
            rank=0,
            patience=60,
            **rules,
        )

    def bits(self) -> list[bytes]:
        values = [*self.model.weights, *self.optimizer.variables]
        return [np.asarray(value).tobytes() for value in values]


@pytest.mark.parametrize("kind", [keras, tf_keras])
def test_one_worker_alone_trains_as_ever_and_tells_of_it(kind: Any, tmp_path: Path) -> None:
    ours, theirs = Loop(kind), Loop(kind)
    with ours.reduced(probes="all", report_dir=str(tmp_path)) as reduced:
        losses = [float(reduced(x, y)) for x, y in zip(X, Y, strict=True)]
        assert reduced.figures.reduces == len(X)
    plain = tf.function(theirs.step)
    assert losses == [float(plain(x, y)) for x, y in zip(X, Y, strict=True)]
    assert ours.bits() == theirs.bits()
    assert not {"apply", "apply_gradients"} & vars(ours.optimizer).keys()
    assert told_events(tmp_path / "worker_0")["scalars"]["tfwave/reduces"] == [len(X)]
    assert "* **5** reduces counted" in (tmp_path / "worker_0" / "reduces.md").read_text()


def hold_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all sums come at the end, as those do that others make when a worker has no more batches."""
    exchange, drain, held = Member.exchange, Member.drain, list[Any]()
    monkeypatch.setattr(Member, "exchange", lambda member, flat: held.extend(exchange(member, flat)) or [])
    monkeypatch.setattr(Member, "drain", lambda member, state: chain(held, drain(member, state)))


@pytest.mark.parametrize(("kind", "optimizer"), [(keras, "RMSprop"), (tf_keras, "Nadam")])
def test_sums_that_come_at_the_end_are_applied_to_the_same_bits(
    kind: Any, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule divides by a constant, of which TensorFlow makes a product in a graph; Nadam counts its traces."""

    def trained() -> list[bytes]:
        loop = Loop(kind)
        variables = loop.model.trainable_variables
        loop.optimizer = getattr(kind.optimizers, optimizer)(kind.optimizers.schedules.CosineDecay(0.1, 37))

        def step(scale: Any) -> None:
            grads = [tf.fill(variable.shape, scale) for variable in variables]
            loop.optimizer.apply_gradients(zip(grads, variables, strict=True))

        with loop.reduced(step, probes="all") as reduced:
            for scale in np.linspace(0.3, 1.7, 9, dtype="f"):
                reduced(scale)
        return loop.bits()

    expected = trained()
    hold_back(monkeypatch)
    assert trained() == expected


def test_tf_keras_may_be_told_to_aggregate_nothing() -> None:
    loop = Loop(tf_keras)
    variables = loop.model.trainable_variables

    def step() -> None:
        ones = [(tf.ones_like(each), each) for each in variables]
        loop.optimizer.apply_gradients(ones, skip_gradients_aggregation=True)

    with loop.reduced(step, probes="all") as reduced:
        reduced()
        assert reduced.figures.reduces == 1


def test_functions_that_run_eagerly_train_as_ever() -> None:
    """As they do while somebody looks for a fault in a step."""
    tf.config.run_functions_eagerly(True)
    try:
        ours, theirs = Loop(keras), Loop(keras)
        with ours.reduced(probes="all") as reduced:
            for x, y in zip(X, Y, strict=True):
                reduced(x, y)
                theirs.step(x, y)
        assert ours.bits() == theirs.bits()
    finally:
        tf.config.run_functions_eagerly(False)


def test_tf_keras_fit_trains_as_ever() -> None:
    rows, targets = X.reshape(-1, 3), Y.reshape(-1, 1)

    def trained(*callbacks: Any) -> tuple[Any, list[bytes]]:
        loop = Loop(tf_keras)
        loop.model.compile(loop.optimizer, "mse")
        history = loop.model.fit(
            rows, targets, 8, 2, verbose=0, shuffle=False, callbacks=list(callbacks)
        ).history
        return history, loop.bits()

    workers = [f"127.0.0.1:{free_ports(1)[0]}"]
    ours, bits = trained(tfwave.keras.PartialReduce("all", workers=workers, rank=0))
    theirs, expected = trained()
    assert bits == expected
    assert ours["loss"] == theirs["loss"]
    assert ours["tfwave_reduces"] == [5, 10]


def test_what_was_traced_before_is_not_passed_over() -> None:
    loop = Loop(keras)
    loop.optimizer.build(loop.model.trainable_variables)
    inner = tf.function(loop.step)
    inner(X[0], Y[0])
    with (
        pytest.raises(EnforcerError, match="has not called apply of the optimizer that reduces"),
        loop.reduced(lambda *batch: inner(*batch)[None]) as reduced,
    ):
        reduced(X[0], Y[0])


def test_a_step_may_apply_now_and_then() -> None:
    """As one that adds up the gradients of several batches does."""

    def trained(reduce: bool) -> list[bytes]:
        loop, batches = Loop(keras), tf.Variable(tf.constant(0))
        loop.optimizer.build(loop.model.trainable_variables)

        def step(x: Any, y: Any) -> None:
            if batches.assign_add(1) % 2 == 0:
                loop.step(x, y)

        with loop.reduced(step, probes="all") if reduce else nullcontext(tf.function(step)) as made:
            for x, y in zip(X, Y, strict=True):
                made(x, y)
        return loop.bits()

    assert trained(reduce=True) == trained(reduce=False)


def test_gradients_of_other_variables_are_refused() -> None:
    loop = Loop(keras)

    def step(x: Any, y: Any) -> None:
        variables = loop.model.trainable_variables[::-1]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((loop.model(x) - y) ** 2)
        loop.optimizer.apply(tape.gradient(loss, variables), variables)

    with pytest.raises(EnforcerError, match="in another order"), loop.reduced(step) as reduced:
        reduced(X[0], Y[0])


@pytest.mark.parametrize(
    ("kind", "scaling"),
    [
        (keras, keras.optimizers.LossScaleOptimizer),
        (tf_keras, tf_keras.mixed_precision.LossScaleOptimizer),
    ],
)
def test_an_optimizer_that_scales_its_loss_is_refused(kind: Any, scaling: Any) -> None:
    loop = Loop(kind)
    loop.optimizer = scaling(loop.optimizer)
    with pytest.raises(EnforcerError, match="each process by another factor"), loop.reduced():
        pass


SIGNATURE = [tf.TensorSpec([None, 3]), tf.TensorSpec([None, 1])]


class Signed(Loop):
    traces = 0

    @tf.function(input_signature=SIGNATURE)
    def signed_step(self, x: Any, y: Any) -> Any:
        self.traces += 1
        return self.step(x, y)


def test_a_step_keeps_its_signature() -> None:
    """Batches of any length have one trace, and other numbers become those of the signature."""
    ours, theirs = Signed(keras), Signed(keras)
    with ours.reduced(ours.signed_step, probes="all") as reduced:
        for count in (8, 5, 2):
            batch = X[0, :count].astype("d"), Y[0, :count]
            assert float(reduced(*batch)) == float(theirs.signed_step(*batch))
    assert ours.bits() == theirs.bits()
    assert ours.traces == 1


def test_a_step_that_xla_is_to_compile_is_refused() -> None:
    compiled = tf.function(Loop(keras).step, jit_compile=True)
    with pytest.raises(EnforcerError, match="XLA is to compile the step 'step', and cannot wait"):
        Loop(keras).reduced(compiled)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process in the background may have been started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_who_is_interrupted_does_not_wait_for_the_others() -> None:
    """The other one never gives a gradient, and would be left behind after `patience` only."""
    ours, theirs = Loop(keras), Loop(keras)
    interrupted = threading.Event()
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]

    def joined(loop: Loop, rank: int) -> tfwave.distribute.Reduced:
        variables = loop.model.trainable_variables
        return tfwave.distribute.reduce(
            loop.step, loop.optimizer, variables, probes="all", workers=workers, rank=rank, patience=20
        )

    def idle() -> None:
        with joined(theirs, 1):
            assert interrupted.wait(60)

    def interrupt(member: Member) -> None:
        while not member._held.waiting:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(2) as threads:
        other = threads.submit(idle)
        with joined(ours, 0) as reduced:
            threads.submit(interrupt, reduced._joined()._member)
            with pytest.raises(KeyboardInterrupt):
                reduced(X[0], Y[0])
            assert not reduced.figures.reduces
            interrupted.set()
        other.result(60)
    assert ours.bits() == theirs.bits()


def test_steps_are_made_within_the_context() -> None:
    with pytest.raises(EnforcerError, match="by a context"):
        Loop(keras).reduced()(X[0], Y[0])
