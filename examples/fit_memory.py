"""A batch that does not fit is made to fit, by its step as a `tf.function`: `python examples/fit_memory.py`."""

import tfwave

tfwave.colocate.limit_memory("64MiB")  # before TensorFlow is imported, which reads its limit then

import tensorflow as tf  # noqa: E402

WIDTH, LAYERS = 128, 10


def layer() -> tf.Variable:
    return tf.Variable(tf.random.stateless_normal([WIDTH, WIDTH], seed=[1, 2], stddev=0.05))


weights = [layer() for _ in range(LAYERS)]


@tf.function
def train_step(batch: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        hidden = batch
        for weight in weights:
            hidden = tf.nn.gelu(hidden @ weight) + hidden
        loss = tf.reduce_mean(hidden * hidden)
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(0.1 * gradient)
    return loss


def main() -> None:
    batch = tf.random.stateless_normal([4096, WIDTH], seed=[3, 4])
    try:
        train_step(batch)
    except tf.errors.ResourceExhaustedError:
        print("plain: out of memory")
    fitted = tfwave.fit_memory(train_step, sample_rows=512)  # these must fit as they are
    print("fitted: losses", [round(float(fitted(batch)), 4) for _ in range(5)])
    (plan,) = fitted.plans.values()
    offloaded, again = (len(plan.memory.away(how)) for how in ("offload", "recompute"))
    print(f"{offloaded} tensors are on the host between the passes, {again} are made again;", end=" ")
    print(f"predicted: up to {plan.memory.peak_bytes / 2**20:.1f} MiB are held")
    print(f"{fitted.figures.out.bytes / 2**20:.1f} MiB went to the host, {fitted.figures.tensors} stay there")


if __name__ == "__main__":
    main()
