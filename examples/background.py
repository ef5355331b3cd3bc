"""A training that waits for its data now and then, and another program, here this one again, in its gaps."""

import sys
import time
from collections.abc import Iterator

import tensorflow as tf

import tfwave

STEPS = 120


def batches() -> Iterator[tf.Tensor]:
    for number in range(STEPS):
        time.sleep(0.005)  # as from a slow disk
        yield tf.random.stateless_normal([128, 64], [1, number])


def training() -> tf.types.experimental.GenericFunction:
    weights = [tf.Variable(tf.random.stateless_normal([64, 64], [2, i], stddev=0.1)) for i in range(4)]

    @tf.function
    def step(batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = batch
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean((hidden - batch) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.5 * gradient)
        return loss

    return step


def main() -> None:
    step = training()
    if sys.argv[1:] == ["background"]:
        for number, batch in enumerate(batches()):
            print(f"background step {number}: {step(batch):.4f}", flush=True)
        return
    with tfwave.colocate.Background([__file__, "background"], slowdown_at_most=1.05) as background:
        for batch in batches():
            with background.step():
                loss = step(batch)
        report = background.report()
    slowdown = "unknown" if report.slowdown is None else f"{report.slowdown:.2f}"
    print(f"{STEPS} steps, the last {loss:.4f}; slowdown {slowdown}")
    print(
        f"background: {report.seconds:.1f} s, paused for {report.paused_seconds:.1f} s, held {report.held} times"
    )


if __name__ == "__main__":
    main()
