"""Small models, data and callbacks for the tests of tfwave.keras.fit."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

BATCHES = 7
LAST_BATCH = 4


def images() -> tf.data.Dataset:
    """Seven batches, the last one smaller."""
    rng = np.random.default_rng(0)
    count = 8 * (BATCHES - 1) + LAST_BATCH
    x = rng.random((count, 8, 8, 3), dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices((x, rng.integers(0, 3, count))).batch(8)


def validation_images() -> tf.data.Dataset:
    return images().take(3)


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.02),
    "still": lambda: keras.optimizers.SGD(0.0),
}


def image_model(optimizer: str = "sgd", **compiled: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Conv2D(4, 3, kernel_regularizer="l2"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(OPTIMIZERS[optimizer](), loss, metrics=["accuracy"], **compiled)
    return model


def sums(batches: int) -> tf.data.Dataset:
    """Rows in [0, 1) and weighted sums of them."""
    rng = np.random.default_rng(1)
    x = rng.random((64 * batches, 20), np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x @ rng.random((20, 1), np.float32))).batch(64)


def sums_model(rate: float) -> keras.Model:
    """Plain gradient descent, as a first program has it."""
    keras.utils.set_random_seed(1)
    hidden = keras.layers.Dense(64, activation="relu")
    model = keras.Sequential([keras.Input((20,)), hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse")
    return model


class Events(keras.callbacks.Callback):
    """Which hooks were called, in which order, with which logs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []
        for name in [n for n in dir(keras.callbacks.Callback) if n.startswith("on_")]:
            setattr(self, name, self._hook(name))

    def _hook(self, name: str) -> Any:
        def called(*args: Any, logs: Any = None) -> None:
            index = [a for a in args if isinstance(a, int)]
            values = logs or next((a for a in args if isinstance(a, dict)), {})
            self.seen.append([name, index, {key: float(value) for key, value in values.items()}])

        return called


class At(keras.callbacks.Callback):
    """Acts at the end of a batch of one epoch."""

    def __init__(self, batch: int, act: Any, epoch: int = 0) -> None:
        super().__init__()
        self.place, self.act = (epoch, batch), act
        self.epoch = -1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == self.place:
            self.act(self.model)


class Custom(keras.Model):
    """Its own train_step and metric, a dict of inputs, a loss added by the model, and built on first use."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(4, activation="relu")
        self.out = keras.layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="half")

    @property
    def metrics(self) -> list[Any]:
        return [self.tracker]

    def call(self, inputs: Any) -> Any:
        hidden = self.hidden(keras.ops.concatenate([inputs["a"], inputs["b"]], axis=1))
        self.add_loss(1e-2 * keras.ops.mean(hidden**2))
        return self.out(hidden)

    def train_step(self, data: Any) -> Any:
        x, y, weights = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weights * (self(x, training=True) - y) ** 2) + sum(self.losses)
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights, strict=True)
        )
        self.tracker.update_state(loss / 2)
        return {"half": self.tracker.result()}


def custom_model() -> keras.Model:
    keras.utils.set_random_seed(2)
    model = Custom()
    model.compile("adam")
    return model


class Learner(keras.Sequential):
    """Trains by an optimizer of its own."""

    def __init__(self) -> None:
        super().__init__([keras.Input((3,)), keras.layers.Dense(1)])
        self.own: Any = keras.optimizers.SGD(0.1, momentum=0.9, name="own")
        self.error = keras.metrics.Mean(name="error")

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x) - y) ** 2)
        self.own.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.error.update_state(loss)
        return {"error": self.error.result()}


def learner(*, built: bool) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = Learner()
    model.compile(None)
    if built:
        model.own.build(model.trainable_variables)
    return model


class Largest(keras.metrics.Metric):
    """Not a sum."""

    def __init__(self) -> None:
        super().__init__(name="largest")
        self.value = self.add_variable((), "zeros", aggregation="mean", name="value")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.value.assign(keras.ops.maximum(self.value, keras.ops.max(y_pred)))

    def result(self) -> Any:
        return self.value


class OtherLogs(keras.Sequential):
    def train_step(self, data: Any) -> Any:
        return {**super().train_step(data), "norm": tf.constant(1.0)}


SAMPLES = 400


class Seen(keras.metrics.Metric):
    """How often each sample was seen; its result holds the least and the most."""

    def __init__(self) -> None:
        super().__init__(name="seen")
        self.counts = self.add_variable((SAMPLES,), "zeros", name="counts")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        ids = keras.ops.cast(keras.ops.reshape(y_true[:, 1], (-1,)), "int32")
        self.counts.assign_add(keras.ops.sum(keras.ops.one_hot(ids, SAMPLES), axis=0))

    def result(self) -> Any:
        return {"least": keras.ops.min(self.counts), "most": keras.ops.max(self.counts)}


def first_column(loss: Any) -> Any:
    def on_targets(y_true: Any, y_pred: Any) -> Any:
        return loss(y_true[:, :1], y_pred)

    return on_targets


def rows_model(rate: float) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid")]
    )
    metrics = [Seen(), keras.metrics.MeanMetricWrapper(first_column(keras.losses.mean_absolute_error), "mae")]
    model.compile(keras.optimizers.SGD(rate), first_column(keras.losses.binary_crossentropy), metrics=metrics)
    return model


def numbered_rows(batch: int = 8) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    x = rng.random((SAMPLES, 8), dtype=np.float32)
    y = np.stack([x.sum(1) > 4, np.arange(SAMPLES)], axis=1).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)


def table_model() -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            keras.layers.Embedding(50, 4),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def id_rows() -> tf.data.Dataset:
    """Ids that repeat from batch to batch, not in one: a server adds the gradients of one id in any order."""
    ids = np.random.default_rng(0).permuted(np.tile(np.arange(50, dtype=np.int32), (8, 1)), axis=1)[:, :24]
    return tf.data.Dataset.from_tensor_slices((ids.reshape(-1, 3), np.ones((64, 1), np.float32))).batch(8)
