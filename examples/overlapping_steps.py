"""Training steps that overlap on parameter servers: each pulls a variable as soon as the one before has updated it.

Run it with `tfwave launch --ps 2 examples/overlapping_steps.py`. How many steps make a call is measured: one where
the network is no bottleneck, as on one machine, many where it is. `STEPS_A_CALL` says it instead.
"""

import os

import tensorflow as tf

import tfwave

STEPS, SIZES = 400, ((64, 512), (512, 512), (512, 10))
STEPS_A_CALL = int(os.environ.get("STEPS_A_CALL", "0")) or None


def digits(context: tf.distribute.InputContext) -> tf.data.Dataset:
    images = tf.random.stateless_normal([2048, 64], [context.input_pipeline_id, 1])
    return tf.data.Dataset.from_tensor_slices((images, tf.argmax(images[:, :10], axis=1))).repeat().batch(32)


def main() -> None:
    cluster, blocks = tf.distribute.cluster_resolver.TFConfigClusterResolver(), tfwave.distribute.blocks()
    strategy = tf.distribute.ParameterServerStrategy(cluster, variable_partitioner=blocks)
    strategy = tfwave.distribute.wrap(strategy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = [tf.Variable(tf.random.normal(s, stddev=(2 / s[0]) ** 0.5)) for s in SIZES]
        biases = [tf.Variable(tf.zeros(s[1])) for s in SIZES]

    def step(iterator):
        return strategy.run(replica, args=next(iterator))

    def replica(hidden, labels):
        with tf.GradientTape() as tape:
            for weight, bias in zip(weights, biases, strict=True):
                hidden = tf.nn.relu(hidden) @ weight + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, hidden)
        variables = tape.watched_variables()
        for variable, gradient in zip(variables, tape.gradient(losses, variables), strict=True):
            variable.assign_sub(1e-3 * gradient)
        return tf.reduce_mean(losses)

    data = coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(digits))
    train, iterator, done = tfwave.distribute.overlap(step, STEPS_A_CALL, strategy=strategy), iter(data), 0
    while done < STEPS:
        function, count = train.take(STEPS - done)
        losses = coordinator.schedule(function, args=(iterator,)).fetch()
        done += count
        if done % 50 < count:
            print(f"step {done}, {count} a call: loss {losses[-1]:.4f}")
    schedule = tfwave.distribute.schedule_of(strategy)
    print(schedule.phases, schedule.figures())
    schedule.stop()


if __name__ == "__main__":
    if "TF_CONFIG" not in os.environ:
        raise SystemExit(f"run it on a job of this machine: tfwave launch {__file__}")
    main()
