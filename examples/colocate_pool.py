"""A pool: a training, another that comes while it runs, and inference beside them that waits for neither."""

import time
from collections.abc import Iterator

import tfwave

tfwave.colocate.limit_memory("32MiB")  # before TensorFlow is imported: it reads its limit then

import tensorflow as tf  # noqa: E402

BATCHES = (1024, 768)
"""Two shapes: each is measured by itself."""


def data(steps: int) -> Iterator[tf.Tensor]:
    for step in range(steps):
        yield tf.random.stateless_normal([BATCHES[step % 2], 128], [1, step])


def weights() -> list[tf.Variable]:
    return [tf.Variable(tf.random.stateless_normal([128, 128], [2, i], stddev=0.1)) for i in range(4)]


def predicted(batch: tf.Tensor, model: list[tf.Variable]) -> tf.Tensor:
    for weight in model:
        batch = tf.tanh(batch @ weight)
    return batch


def training(model: list[tf.Variable], rate: float) -> tf.types.experimental.GenericFunction:
    @tf.function
    def step(batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((predicted(batch, model) - batch) ** 2)
        for weight, gradient in zip(model, tape.gradient(loss, model), strict=True):
            weight.assign_sub(rate * gradient)
        return loss

    return step


def main() -> None:
    model, small = weights(), tf.ones([8, 128])
    infer = tf.function(lambda batch: tf.reduce_sum(predicted(batch, model) ** 2))
    with tfwave.colocate.Pool() as pool:
        first = pool.add(tfwave.colocate.Job("first", training(model, 0.5), data(40)))
        asked = pool.add(tfwave.colocate.Job("inference", infer, [small] * 60, priority=5))
        while first.steps < 12:
            time.sleep(0.01)
        second = pool.add(tfwave.colocate.Job("second", training(weights(), 1.0), data(20)))
    for job in (first, second, asked):
        made = job.result()
        print(
            f"{job.name}: {made.steps} steps, the last {made.values[-1]:.4f}; waited {made.waited_seconds:.2f} s"
        )


if __name__ == "__main__":
    main()
