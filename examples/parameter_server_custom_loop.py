"""A custom training loop on parameter servers, ordered by one line.

Run it with `tfwave launch --ps 2 examples/parameter_server_custom_loop.py`. On a real cluster, run
`python -m tfwave.server` for each server and worker, and this program as the chief.
"""

import os

import keras
import tensorflow as tf

import tfwave


def recommender() -> keras.Model:
    user, item = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    users, items = keras.layers.Embedding(2000, 32)(user), keras.layers.Embedding(1000, 32)(item)
    hidden = keras.layers.Dense(64, activation="relu")(keras.layers.Concatenate()([users, items]))
    return keras.Model([user, item], keras.layers.Dense(1)(keras.layers.Dense(32, activation="relu")(hidden)))


def ratings(context: tf.distribute.InputContext) -> tf.data.Dataset:
    users = tf.random.stateless_uniform([4096], [context.input_pipeline_id, 1], 0, 2000, tf.int32)
    items = tf.random.stateless_uniform([4096], [context.input_pipeline_id, 2], 0, 1000, tf.int32)
    liked = tf.cast(tf.math.floormod(users + items, 3), tf.float32)
    return tf.data.Dataset.from_tensor_slices(((users, items), liked[:, None])).repeat().batch(64)


def main() -> None:
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    strategy = tfwave.distribute.wrap(strategy, policy="tac")  # the only line that a script needs to change
    chief = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model, optimizer = recommender(), keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)

    def replica(inputs, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs) - targets))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def step(iterator):
        return strategy.run(replica, args=next(iterator))

    data = iter(chief.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(ratings)))
    for _ in range(6):
        losses = [chief.schedule(step, args=(data,)) for _ in range(50)]
        chief.join()
        print(f"loss {losses[-1].fetch():.4f}")
    schedule = tfwave.distribute.schedule_of(strategy)
    print(schedule.phases, schedule.figures())
    schedule.stop()


if __name__ == "__main__":
    if "TF_CONFIG" not in os.environ:
        raise SystemExit(f"run it on a job of this machine: tfwave launch {__file__}")
    main()
