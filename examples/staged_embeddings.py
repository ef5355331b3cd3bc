"""Tables of embeddings on parameter servers, whose rows for the next batch travel while this one computes.

Run it with `tfwave launch --ps 2 examples/staged_embeddings.py`.
"""

import os

import tensorflow as tf

import tfwave

USERS, ITEMS, WIDTH, BATCHES = 20_000, 5_000, 16, 96


def ratings() -> tf.data.Dataset:
    """Pairs: ids by table, and all else."""
    users = tf.random.stateless_uniform([64 * BATCHES], [1, 1], 0, USERS, tf.int32) // 50
    items = tf.random.stateless_uniform([64 * BATCHES, 3], [1, 2], 0, ITEMS, tf.int32) // 50
    liked = tf.cast((users + tf.reduce_sum(items, 1)) % 3 == 0, tf.float32)
    return tf.data.Dataset.from_tensor_slices(({"users": users, "items": items}, liked)).batch(64)


def main() -> None:
    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver(),
        variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=2),
    )
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        users = tf.Variable(tf.random.normal([USERS, WIDTH], stddev=0.1))
        items = tf.Variable(tf.random.normal([ITEMS, WIDTH], stddev=0.1))
        bias = tf.Variable(0.0)
    tables = {
        "users": tfwave.embedding.Table(users, tfwave.embedding.Adagrad(0.1)),
        "items": tfwave.embedding.Table(items, tfwave.embedding.SGD(0.5)),
    }

    def step(embedded, liked):
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            logits = tf.reduce_sum(embedded["users"][:, None] * embedded["items"], [1, 2]) + bias
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(liked, logits))
        rows, slope = tape.gradient(loss, (embedded, bias))
        bias.assign_sub(0.01 * slope)
        return loss, rows

    train = tfwave.embedding.staged(step, tables)
    checkpoint = tf.train.Checkpoint(bias=bias, **{name: table.module for name, table in tables.items()})
    for epoch in range(3):
        losses = [coordinator.schedule(call.function, args=call.args) for call in train.calls(ratings())]
        coordinator.join()
        print(f"epoch {epoch}: loss {losses[-1].fetch()[-1]:.4f}")
    print("saved:", checkpoint.save("embeddings"))


if __name__ == "__main__":
    if "TF_CONFIG" not in os.environ:
        raise SystemExit(f"run it on a job of this machine: tfwave launch {__file__}")
    main()
