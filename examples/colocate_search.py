"""A search over learning rates: four trainings at once, in one process and one pool of memory."""

import tfwave

tfwave.colocate.limit_memory("16MiB")  # before TensorFlow is imported: it reads its limit then

import tensorflow as tf  # noqa: E402

STEPS = 40
BATCH = 1024
RATES = (0.003, 0.01, 0.03, 0.1)


def data() -> tuple[tf.Tensor, tf.Tensor]:
    images = tf.random.stateless_normal([BATCH, 64], [1, 2])
    return images, tf.argmax(images[:, :10], axis=1)


def training(rate: float) -> tf.types.experimental.GenericFunction:
    """A step of its own model: a `tf.function` that returns the loss."""
    sizes = ((64, 256), (256, 256), (256, 256), (256, 10))
    weights = [
        tf.Variable(tf.random.stateless_normal(size, [3, i], stddev=(2 / size[0]) ** 0.5))
        for i, size in enumerate(sizes)
    ]

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = images
            for weight in weights[:-1]:
                hidden = tf.nn.relu(hidden @ weight)
            logits = hidden @ weights[-1]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(rate * gradient)
        return loss

    return step


def main() -> None:
    batch = data()
    jobs = [tfwave.colocate.Job(f"rate {rate}", training(rate), [batch] * STEPS) for rate in RATES]
    results = tfwave.colocate.run(jobs)
    for name, result in results.items():
        waited = result.waited_seconds / result.seconds
        print(
            f"{name}: loss {result.values[-1]:.4f} after {result.steps} steps; waited {waited:.0%} of the time"
        )
    best = min(results, key=lambda name: results[name].values[-1])
    held = tf.config.experimental.get_memory_info("CPU:0")["current"]
    print(
        f"best: {best}; {results.figures.waited} of {results.figures.admitted} groups waited, {held} bytes held"
    )


if __name__ == "__main__":
    main()
