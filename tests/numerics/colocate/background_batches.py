"""A background in a small pool: trains the batch that it is told, and writes that and its losses into OUT."""

import sys
from pathlib import Path

import tensorflow as tf

from tfwave.colocate import background_batch, background_step

WANTED, WIDTH, STEPS = 4096, 256, 3


def main(out: Path, width: int) -> None:
    batch = background_batch(WANTED)
    with out.open("a") as told:
        told.write(f"{batch}\n")
    weights = [tf.Variable(tf.random.stateless_normal([width, width], [1, i], stddev=0.05)) for i in range(4)]

    @tf.function
    def step(number: tf.Tensor) -> tf.Tensor:
        given = tf.random.stateless_normal([batch, width], tf.stack([2, number]))
        with tf.GradientTape() as tape:
            hidden = given
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean((hidden - given) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    losses: list[str] = []
    for number in range(STEPS):
        losses.append(float(step(tf.constant(number))).hex())
        background_step()
    with out.open("a") as told:
        told.write(" ".join(losses))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else WIDTH)
