"""Programs of a chief whose training steps overlap; see `chiefs`."""

import json
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfwave.distribute
import tfwave.keras
from tests.cluster.distribute.chiefs import figures, until_ordered
from tfwave.distribute.blocks import BlockPartitioner
from tfwave.distribute.servers import channel_of
from tfwave.errors import EnforcerError
from tfwave.planner import overlap as planned
from tfwave.report.conformance import conformance, read_hand_offs
from tfwave.runtime.control.client import ControlClient

STEPS = 24
BLOCK_BYTES = 8 << 10


def strategy(partitioner: Any = None) -> Any:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)


@dataclass
class Training:
    """A perceptron with momentum, in a custom loop; its variables are updated where they are."""

    strategy: Any
    module: Any
    momenta: list[Any]

    @classmethod
    def make(cls, strategy: Any) -> "Training":
        random, module, momenta = np.random.RandomState(0), tf.Module(), []
        with strategy.scope():
            shapes = ((16, 96), (96, 96), (96, 10))
            module.weights = [tf.Variable((random.randn(*s) * (2 / s[0]) ** 0.5).astype("f")) for s in shapes]
            module.biases = [tf.Variable(tf.zeros(s[1])) for s in shapes]
            for variable in module.trainable_variables:
                with strategy.extended.colocate_vars_with(variable):
                    momenta.append(tf.Variable(tf.zeros(variable.shape), trainable=False))
        return cls(strategy, module, momenta)

    @property
    def blocks(self) -> Any:
        return self.module.trainable_variables

    def step(self, batches: Any) -> Any:
        return self.strategy.run(self._on_replica, args=(next(batches),))

    def _on_replica(self, batch: Any) -> Any:
        hidden, targets = batch
        with tf.GradientTape() as tape:
            for weight, bias in zip(self.module.weights, self.module.biases, strict=True):
                hidden = tf.nn.relu(hidden) @ weight + bias
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, hidden))
        gradients = tape.gradient(loss, self.blocks)
        for gradient, variable, momentum in zip(gradients, self.blocks, self.momenta, strict=True):
            with tf.device(variable.device):
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle, accum=momentum.handle, lr=0.02, grad=gradient, momentum=0.9
                )
        return loss

    def state(self) -> list[np.ndarray]:
        return [v.numpy() for v in (*self.blocks, *self.momenta)]

    def restore(self, state: list[np.ndarray]) -> None:
        for variable, value in zip((*self.blocks, *self.momenta), state, strict=True):
            variable.assign(value)


def batches(coordinator: Any) -> Any:
    def dataset() -> Any:
        random = np.random.RandomState(5)
        inputs, targets = random.randn(64, 16).astype("f"), random.randint(0, 10, 64)
        return tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(8).repeat()

    return iter(coordinator.create_per_worker_dataset(dataset))


def trained(coordinator: Any, training: Training, train: Any) -> dict[str, Any]:
    """Losses and final state of 24 steps from the start, as hex."""
    drawn, losses = batches(coordinator), []
    while len(losses) < STEPS:
        function, _ = train.take(STEPS - len(losses))
        losses += coordinator.schedule(function, args=(drawn,)).fetch().tolist()
    return {"losses": [x.hex() for x in losses], "state": [v.tobytes().hex() for v in training.state()]}


def overlapped() -> dict[str, Any]:
    """The same training by one step a call, by four, and by four in order."""
    chosen = strategy(BlockPartitioner(BLOCK_BYTES, 8))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    training = Training.make(chosen)
    start, found = training.state(), {}
    for name, steps in (("single", 1), ("unordered", 4)):
        training.restore(start)
        found[name] = trained(coordinator, training, tfwave.distribute.overlap(training.step, steps))
    schedule = tfwave.distribute.schedule_of(tfwave.distribute.wrap(chosen))
    train, drawn = tfwave.distribute.overlap(training.step, 4), batches(coordinator)

    def once() -> None:
        coordinator.schedule(train.function, args=(drawn,))
        coordinator.join()

    until_ordered(schedule, 1, once)
    schedule.figures()
    training.restore(start)
    found["ordered"] = trained(coordinator, training, train)
    found |= {"blocks": len(training.blocks), "keras": refusal(chosen)}
    return found | figures(chosen) | {"channels": channels()}


def refusal(chosen: Any) -> str:
    """What tfwave.keras.fit says to a model whose variables are in blocks."""
    import keras

    with chosen.scope():
        model = keras.Sequential([keras.Input((96,)), keras.layers.Dense(96)])
        model.compile("sgd", "mse", jit_compile=False)
    try:
        tfwave.keras.fit(model, tf.data.Dataset.from_tensors((tf.ones((4, 96)), tf.ones((4, 96)))), verbose=0)
    except tfwave.TfwaveError as err:
        return str(err)
    return ""


def advised() -> dict[str, Any]:
    """The planner chooses; two workers train at once."""
    say_all()
    planned.MOST_NODES = 1000  # what is chosen depends on the machine, but for this
    chosen = tfwave.distribute.wrap(strategy(), trace_steps=3)
    schedule = tfwave.distribute.schedule_of(chosen)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    training = Training.make(chosen)
    train, drawn = tfwave.distribute.overlap(training.step, strategy=chosen), batches(coordinator)
    results: list[Any] = []

    def once() -> None:
        results.extend(coordinator.schedule(train.take().function, args=(drawn,)) for _ in range(2))
        coordinator.join()

    until_ordered(schedule, 2, once)
    schedule.figures()
    for _ in range(10):
        once()
    shapes = [list(result.get().shape) for result in results]
    losses = [float(loss) for result in results[-20:] for loss in result.fetch()]
    return figures(chosen) | {"shapes": shapes, "losses": losses, "channels": channels()}


def overlapped_restarted(kill_at: str) -> dict[str, Any]:
    """Four steps a call on two workers while the test kills one and starts it again; it is told when by a file."""
    chosen = tfwave.distribute.wrap(strategy(), trace_steps=3)
    schedule = tfwave.distribute.schedule_of(chosen)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    training = Training.make(chosen)
    function, drawn = tfwave.distribute.overlap(training.step, 4).function, batches(coordinator)
    losses: list[float] = []

    def once() -> None:
        results = [coordinator.schedule(function, args=(drawn,)) for _ in range(4)]
        coordinator.join()
        losses.extend(float(loss) for result in results for loss in result.fetch())

    until_ordered(schedule, 1, once)
    Path(kill_at).write_text("now")
    end = time.monotonic() + 120
    while os.path.exists(kill_at):
        assert time.monotonic() < end
        once()
    seen: list[dict[str, Any]] = []
    while not seen:  # an order that is measured anew meanwhile comes again
        assert time.monotonic() < end
        until_ordered(schedule, 1, once)
        schedule.figures()
        for _ in range(5):
            once()
        with suppress(EnforcerError):  # the worker that comes back need not answer yet
            seen = channels()
    return figures(chosen) | {"losses": losses, "channels": seen}


def unrolled_fit() -> dict[str, Any]:
    """Keras 3, as many steps an execution as the planner says; then again as long, one by one and without order."""
    import keras

    say_all()
    planned.MOST_NODES = 2000
    chosen = tfwave.distribute.wrap(strategy(), trace_steps=3)
    schedule = tfwave.distribute.schedule_of(chosen)
    random = np.random.RandomState(5)
    data = tf.data.Dataset.from_tensor_slices(
        (random.randn(64, 16).astype("f"), random.randint(0, 10, 64))
    ).batch(8)

    def fit(epochs: int, ready: Callable[[], bool]) -> Any:
        keras.utils.set_random_seed(1)
        with chosen.scope():
            layers = [keras.layers.Dense(96, activation="relu"), keras.layers.BatchNormalization()]
            model = keras.Sequential([keras.Input((16,)), *layers, keras.layers.Dense(10)])
            model.compile(
                keras.optimizers.SGD(0.1, momentum=0.9),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                steps_per_execution="auto",
                jit_compile=False,
            )
        stop = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: setattr(model, "stop_training", ready())
        )
        history = tfwave.keras.fit(model, data, epochs=epochs, callbacks=[stop], verbose=0).history["loss"]
        return history, [w.tobytes().hex() for w in model.get_weights()]

    found: dict[str, Any] = {}
    epochs = 0

    def is_ordered() -> bool:
        return list(schedule.phases.values()).count("ordered") == 2

    def ordered_long_enough() -> bool:
        """Ten epochs, and what they were like is read before an order can be taken back, to be tried again."""
        nonlocal epochs
        epochs = epochs + 1 if is_ordered() else 0
        if epochs == 0:
            schedule.figures()  # of what came before
        if epochs < 10:
            return False
        found.update(figures(chosen) | {"channels": channels(), "pushed": pushed(schedule)})
        return is_ordered()

    ordered = fit(500, ordered_long_enough)
    schedule.stop()
    unordered = fit(len(ordered[0]), lambda: False)
    return found | {"ordered": ordered, "unordered": unordered}


def pushed(schedule: Any) -> list[str]:
    """The nodes of all functions whose tensors the worker sends by plan."""
    orders = [order for plan in schedule.plans.values() for order in plan.orders]
    return [t.key.node for o in orders if "/job:worker/" in o.channel.source for t in o.transfers]


def say_all() -> None:
    """On standard error, all that tfwave logs."""
    logging.getLogger("tfwave").setLevel(logging.INFO)
    logging.getLogger("tfwave").addHandler(logging.StreamHandler())


def channels() -> list[dict[str, Any]]:
    """What all tasks handed off under the plans in force, by their logs."""
    control = json.loads(os.environ["TF_CONFIG"])["tfwave"]["control"]
    found: list[dict[str, Any]] = []
    for address in (*control["ps"], *control["worker"]):
        log = read_hand_offs(ControlClient(address).hand_offs(0), channel_of)
        found += [
            {"channel": c.channel, "discipline": c.discipline, "steps": c.steps, "violations": c.violations}
            for c in conformance(log).channels
        ]
    return found


SCENARIOS = {f.__name__: f for f in (overlapped, advised, overlapped_restarted, unrolled_fit)}
