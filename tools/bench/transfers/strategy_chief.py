"""The chief of a strategy that trains, one step a call or several that overlap, as a task of `strategy.py`.

Asked {"do": "start", "cluster": {job: [address]}, "control": {job: [address]} or null, "steps": int or null,
"image": int, "batch": int, "first_matrix": bool}, it builds a VGG16-like model under a ParameterServerStrategy;
where `control` is given the strategy is wrapped, its variables are cut into blocks, and `steps` steps overlap
(null: as many as are advised).
Then, as often as asked:
{"do": "settle"} runs until the schedule has ordered the function, and answers what it did;
{"do": "reset"} gives the variables their first values, and the data its first batch;
{"do": "run", "steps": n} answers {"seconds": [of each step], "losses": [of each step, as hex]};
{"do": "weights"} answers their digest; {"do": "figures"} what the schedule says.
"""

import hashlib
import logging
import time
from typing import Any

from tfwave.demo.networks import VGG16_CONVOLUTIONS
from tools.bench.obeying import obey, strategy_of

MODULE = "tools.bench.transfers.strategy_chief"
LEARNING_RATE = 1e-2
SETTLE_SECONDS = 300.0

_HEAD = (512, 512, 1000)


class Model:
    """VGG-16's convolutions, strided instead of pooled, and dense layers; kernels are kept as matrices."""

    def __init__(self, tf: Any, image: int, first_matrix: bool) -> None:
        self._tf = tf
        self.weights: list[Any] = []
        self._first = [3 * image**2] if first_matrix else []
        for units in self._first:
            self._layer(units, units)
        channels, side = 3, image
        for filters, stride in VGG16_CONVOLUTIONS:
            self._layer(9 * channels, filters)
            channels, side = filters, -(-side // stride)
        width = side * side * channels
        for units in _HEAD:
            self._layer(width, units)
            width = units

    def loss(self, images: Any, weights: list[Any]) -> Any:
        tf = self._tf
        hidden, layers = images, iter(zip(weights[::2], weights[1::2], strict=True))
        for units, (matrix, bias) in zip(self._first, layers, strict=False):
            flat = tf.nn.relu(tf.reshape(hidden, [-1, units]) @ matrix + bias)
            hidden = tf.reshape(flat, images.shape)
        for filters, stride in VGG16_CONVOLUTIONS:
            matrix, bias = next(layers)
            kernel = tf.reshape(matrix, [3, 3, hidden.shape[-1], filters])
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, kernel, stride, "SAME") + bias)
        hidden = tf.reshape(hidden, [images.shape[0], -1])
        for matrix, bias in layers:
            hidden = tf.nn.relu(hidden @ matrix + bias)
        return tf.reduce_mean(tf.square(hidden))

    def first_values(self) -> list[Any]:
        """He's initialisation, the same each time."""
        tf = self._tf
        return [
            tf.random.stateless_normal(w.shape, (i, 7)) * (2 / w.shape[0]) ** 0.5
            if len(w.shape) > 1
            else tf.zeros(w.shape)
            for i, w in enumerate(self.weights)
        ]

    def _layer(self, inputs: int, units: int) -> None:
        tf = self._tf
        self.weights += [tf.Variable(tf.zeros([inputs, units])), tf.Variable(tf.zeros([units]))]


class Chief:
    """A job that runs one call at a time."""

    def __init__(self, request: dict[str, Any]) -> None:
        import tensorflow as tf

        from tfwave.distribute import blocks, overlap, schedule_of, wrap

        self._tf: Any = tf
        wrapped = bool(request["control"])
        strategy: Any = strategy_of(request["cluster"], variable_partitioner=blocks() if wrapped else None)
        if wrapped:
            wrap(strategy, enforcer="hook", control=request["control"])
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self._model = Model(tf, request["image"], request["first_matrix"])
        self._flat = [w for weight in self._model.weights for w in _parts(weight)]
        self._batch, self._image = request["batch"], request["image"]
        self._schedule: Any = schedule_of(strategy) if wrapped else None
        self._overlap: Any = (
            overlap(self._step, request["steps"], strategy=strategy) if wrapped else overlap(self._step, 1)
        )
        self.reset()

    def _step(self, numbers: Any) -> Any:
        tf = self._tf
        images = tf.random.stateless_normal(
            [self._batch, self._image, self._image, 3], tf.stack([tf.cast(next(numbers), tf.int32), 3])
        )
        with tf.GradientTape() as tape:
            flat = [w.read_value() for w in self._flat]
            tape.watch(flat)
            loss = self._model.loss(images, self._joined(flat))
        for variable, gradient in zip(self._flat, tape.gradient(loss, flat), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    def _joined(self, flat: list[Any]) -> list[Any]:
        values = iter(flat)
        whole = ([next(values) for _ in _parts(weight)] for weight in self._model.weights)
        return [parts[0] if len(parts) == 1 else self._tf.concat(parts, 0) for parts in whole]

    def reset(self) -> dict[str, object]:
        tf = self._tf
        for weight, value in zip(self._model.weights, self._model.first_values(), strict=True):
            weight.assign(value)
        data = self._coordinator.create_per_worker_dataset(tf.data.Dataset.counter)
        self._numbers = iter(data)
        return {}

    def settle(self) -> dict[str, object]:
        end = time.monotonic() + SETTLE_SECONDS
        while not self._settled():
            if time.monotonic() > end:
                raise TimeoutError(f"not ordered: {self._schedule.phases}")
            self._call()
        plans = self._schedule.plans
        sent = [t for plan in plans.values() for order in plan.orders for t in order.transfers]
        return {
            "steps": self._overlap.steps,
            "phases": self._schedule.phases,
            "bytes": sum(int(_bytes(w)) for w in self._flat),
            "largest": max(int(_bytes(w)) for w in self._flat),
            "transfers": len(sent),
            "predicted": [vars(plan.predicted) for plan in plans.values()],
        }

    def _settled(self) -> bool:
        is_ordered = "ordered" in self._schedule.phases.values()
        return is_ordered and self._overlap.take().steps == self._overlap.steps

    def run(self, steps: int) -> dict[str, object]:
        seconds: list[float] = []
        losses: list[str] = []
        while len(losses) < steps:
            begin = time.perf_counter()
            found = self._call()
            seconds += [(time.perf_counter() - begin) / len(found)] * len(found)
            losses += [float(loss).hex() for loss in found]
        return {"seconds": seconds, "losses": losses}

    def _call(self) -> Any:
        function, _ = self._overlap.take()
        result = self._coordinator.schedule(function, args=(self._numbers,))
        self._coordinator.join()
        return result.fetch()

    def weights(self) -> dict[str, object]:
        digest = hashlib.sha256()
        for weight in self._model.weights:
            digest.update(self._tf.convert_to_tensor(weight).numpy().tobytes())
        return {"digest": digest.hexdigest()}

    def figures(self) -> dict[str, object]:
        return {"phases": self._schedule.phases, **self._schedule.figures().logs()}


def _bytes(variable: Any) -> int:
    return variable.shape.num_elements() * variable.dtype.size


def _parts(weight: Any) -> list[Any]:
    return list(getattr(weight, "variables", [weight]))


def main() -> None:
    logging.basicConfig()
    obey(Chief)


if __name__ == "__main__":
    main()
