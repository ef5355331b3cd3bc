"""Programs of a chief: `python -m tests.cluster.distribute.chiefs SCENARIO JSON`.

The last line of output is what it found. A process can be the chief of one cluster only.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfwave.distribute
from tfwave.distribute.schedule import Schedule

BATCH = 8
JUDGED_SECONDS = 2.5
"""After which the last steps are judged: nothing more comes of them."""


def strategy() -> Any:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return tf.distribute.ParameterServerStrategy(resolver)


def image_model(chosen: Any, image: int = 16) -> Any:
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(1)
    with chosen.scope():
        model = keras.Sequential(
            [
                keras.Input((image, image, 3)),
                *(layer for size in (8, 16, 32) for layer in _block(layers, size)),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(10),
            ]
        )
        compile_model(model)
    return model


def _block(layers: Any, size: int) -> list[Any]:
    return [layers.Conv2D(size, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()]


def recommender(chosen: Any) -> Any:
    """Users and items by number: two embeddings and a perceptron."""
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(2)
    with chosen.scope():
        user, item = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
        embedded = [layers.Embedding(500, 16)(user), layers.Embedding(300, 16)(item)]
        hidden = layers.Dense(32, activation="relu")(layers.Concatenate()(embedded))
        model = keras.Model([user, item], layers.Dense(10)(layers.Dense(16, activation="relu")(hidden)))
        compile_model(model)
    return model


def resnet(chosen: Any) -> Any:
    """Bottlenecks as in ResNet50, two a stage: 134 weights."""
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(3)
    with chosen.scope():
        inputs = keras.Input((32, 32, 3))
        hidden = layers.MaxPooling2D()(_convolved(layers, inputs, 8, 3, strides=2))
        for size in (8, 16, 32):
            for strides in (2, 1):
                hidden = _bottleneck(layers, hidden, size, strides)
        model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(hidden)))
        compile_model(model)
    return model


def _bottleneck(layers: Any, inputs: Any, size: int, strides: int) -> Any:
    hidden = _convolved(layers, inputs, size, 1, strides=strides)
    hidden = _convolved(layers, _convolved(layers, hidden, size, 3), 4 * size, 1)
    past = _convolved(layers, inputs, 4 * size, 1, strides=strides) if strides > 1 else inputs
    return layers.Add()([hidden, past])


def _convolved(layers: Any, inputs: Any, size: int, kernel: int, strides: int = 1) -> Any:
    hidden = layers.Conv2D(size, kernel, strides=strides, padding="same")(inputs)
    return layers.ReLU()(layers.BatchNormalization()(hidden))


def compile_model(model: Any) -> None:
    import keras

    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    model.optimizer.build(model.trainable_variables)


def batches_of(model: Any, count: int, batch: int = BATCH) -> list[Any]:
    random = np.random.RandomState(7)
    shapes = [tuple(d for d in t.shape[1:]) for t in model.inputs]
    whole = all(t.dtype == "int32" for t in model.inputs)

    def one() -> Any:
        inputs = [
            random.randint(0, 300, (batch, *s)).astype("int32")
            if whole
            else random.randn(batch, *s).astype("f")
            for s in shapes
        ]
        data = tf.constant(inputs[0]) if len(inputs) == 1 else tuple(map(tf.constant, inputs))
        return data, tf.constant(random.randint(0, 10, batch))

    return [one() for _ in range(count)]


def train_step(chosen: Any, model: Any) -> Any:
    @tf.function
    def step(data: Any) -> Any:
        def replica(data: Any) -> Any:
            inputs, targets = data
            with tf.GradientTape() as tape:
                loss = model.compute_loss(x=inputs, y=targets, y_pred=model(inputs, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)
            return loss

        return chosen.run(replica, args=(data,))

    return step


def eval_step(chosen: Any, model: Any) -> Any:
    @tf.function
    def step(data: Any) -> Any:
        def replica(data: Any) -> Any:
            inputs, targets = data
            return model.compute_loss(x=inputs, y=targets, y_pred=model(inputs, training=False))

        return chosen.run(replica, args=(data,))

    return step


def until_ordered(schedule: Schedule, functions: int, run: Callable[[], None], seconds: float = 200) -> None:
    """Run steps until so many functions are ordered."""
    end = time.monotonic() + seconds
    while list(schedule.phases.values()).count("ordered") < functions:
        assert time.monotonic() < end, f"not ordered in time: {schedule.phases}"
        run()


def scheduled(coordinator: Any, step: Any, batches: list[Any]) -> list[float]:
    results = [coordinator.schedule(step, args=(data,)) for data in batches]
    coordinator.join()
    return [float(r.fetch()) for r in results]


def losses(model: str, steps: int, wrapped: bool, policy: str = "tac") -> dict[str, Any]:
    """Losses of steps, each after the one before; a wrapped job takes so many once it is ordered."""
    tf.config.experimental.enable_op_determinism()
    chosen = strategy()
    if wrapped:
        tfwave.distribute.wrap(chosen, policy=policy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    made = MODELS[model](chosen)
    step, data = train_step(chosen, made), itertools.cycle(batches_of(made, 45))
    found: list[float] = []

    def once() -> None:
        found.extend(scheduled(coordinator, step, [next(data)]))

    if wrapped:
        until_ordered(tfwave.distribute.schedule_of(chosen), 1, once)
    for _ in range(steps):
        once()
    report: dict[str, Any] = {"losses": [x.hex() for x in found]}
    return report | (figures(chosen) if wrapped else {})


def figures(chosen: Any) -> dict[str, Any]:
    schedule = tfwave.distribute.schedule_of(chosen)
    time.sleep(JUDGED_SECONDS)
    return {"figures": schedule.figures().logs(), "phases": schedule.phases}


def mixed(steps: int) -> dict[str, Any]:
    """Two models, evaluation between the steps, another batch size: each function has a plan of its own."""
    chosen = tfwave.distribute.wrap(strategy())
    schedule = tfwave.distribute.schedule_of(chosen)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    runs: list[tuple[Any, list[Any]]] = []
    for make in (image_model, recommender):
        made = make(chosen)
        train, evaluate = train_step(chosen, made), eval_step(chosen, made)
        runs += [
            (train, batches_of(made, 4)),
            (evaluate, batches_of(made, 4)),
            (train, batches_of(made, 4, 12)),
        ]

    def once() -> None:
        for step, batches in runs:
            for data in batches:
                coordinator.schedule(step, args=(data,))
        coordinator.join()

    until_ordered(schedule, len(runs), once)
    schedule.figures()
    for _ in range(steps):
        once()
    return figures(chosen)


def restarted(kill_at: str) -> dict[str, Any]:
    """Steps while the test kills a worker and starts it again; it is told when by a file."""
    chosen = tfwave.distribute.wrap(strategy())
    schedule = tfwave.distribute.schedule_of(chosen)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    made = image_model(chosen)
    step, batches = train_step(chosen, made), batches_of(made, 8)
    until_ordered(schedule, 1, lambda: scheduled(coordinator, step, batches) and None)
    with open(kill_at, "w") as file:
        file.write("now")
    end = time.monotonic() + 200
    while os.path.exists(kill_at):
        assert time.monotonic() < end
        scheduled(coordinator, step, batches)
    for _ in range(5):
        scheduled(coordinator, step, batches)
    time.sleep(JUDGED_SECONDS)
    schedule.figures()
    for _ in range(10):
        scheduled(coordinator, step, batches)
    return figures(chosen)


def trained(steps: int, enforcer: str) -> dict[str, Any]:
    """Whether wrapping raises, and training goes on."""
    chosen = strategy()
    try:
        tfwave.distribute.wrap(chosen, enforcer=enforcer)  # type: ignore[arg-type]
    except tfwave.TfwaveError as err:
        return {"refused": str(err)}
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    made = image_model(chosen)
    found = scheduled(coordinator, train_step(chosen, made), batches_of(made, steps))
    return {"steps": len(found), "phases": tfwave.distribute.schedule_of(chosen).phases}


def checkpointed(directory: str, steps: int) -> dict[str, Any]:
    """Train on from the last checkpoint, if there is one, and leave another."""
    chosen = tfwave.distribute.wrap(strategy())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    made = image_model(chosen)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=made, optimizer=made.optimizer), directory, 1
    )
    manager.restore_or_initialize()
    began_at = int(made.optimizer.iterations.numpy())
    step, batches = train_step(chosen, made), batches_of(made, 8)
    until_ordered(
        tfwave.distribute.schedule_of(chosen), 1, lambda: scheduled(coordinator, step, batches) and None
    )
    scheduled(coordinator, step, batches_of(made, steps))
    manager.save()
    ended_at = int(made.optimizer.iterations.numpy())
    return {"began_at": began_at, "ended_at": ended_at, **figures(chosen)}


def cut(model: str) -> dict[str, Any]:
    """What arrives at a worker by the offline cut, of a function that has run."""
    from tfwave.capture.function import cut_function
    from tfwave.runtime.job_devices import job_devices

    chosen = strategy()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    made = MODELS[model](chosen)
    step, (data,) = train_step(chosen, made), batches_of(made, 1)
    scheduled(coordinator, step, [data])
    with chosen.scope():
        concrete = step.get_concrete_function(data)
    function = cut_function(concrete, job_devices(chosen))
    keys = [t.key for t in function.pulls if "/job:ps" in t.key.channel.source]
    return {"function": function.name, "transfers": [(k.channel.source, k.node) for k in keys]}


def two_devices(steps: int) -> dict[str, Any]:
    """A function of which each worker runs one half on its first CPU, and one on its second."""
    chosen = tfwave.distribute.wrap(strategy())
    schedule = tfwave.distribute.schedule_of(chosen)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    with chosen.scope():
        weights = [tf.Variable(tf.random.stateless_normal([48, 48], [i, 1])) for i in range(8)]

    @tf.function
    def step(x: Any) -> Any:
        for i, weight in enumerate(weights):
            with tf.device(f"/device:CPU:{i // 4}"):
                x = tf.tanh(x @ weight)
        return tf.reduce_sum(x)

    data, found = tf.ones([4, 48]), list[float]()
    until_ordered(schedule, 1, lambda: found.extend(scheduled(coordinator, step, [data] * 4)))
    (plan,) = schedule.plans.values()
    found += scheduled(coordinator, step, [data] * steps)
    orders = {str(order.channel): len(order.transfers) for order in plan.orders}
    return {"outputs": sorted(set(found)), "orders": orders, **figures(chosen)}


MODELS = {"image": image_model, "recommender": recommender, "resnet": resnet}
SCENARIOS = {f.__name__: f for f in (losses, mixed, restarted, checkpointed, trained, cut, two_devices)}


def main() -> str:
    from tests.cluster.distribute import callback_chiefs, overlap_chiefs

    scenario, arguments = sys.argv[1:]
    known = SCENARIOS | callback_chiefs.SCENARIOS | overlap_chiefs.SCENARIOS
    return json.dumps(known[scenario](**json.loads(arguments)))


if __name__ == "__main__":
    sys.stdout.write(main() + "\n")
    sys.stdout.flush()
    os._exit(0)  # a coordinator's threads outlive the servers they wait for
