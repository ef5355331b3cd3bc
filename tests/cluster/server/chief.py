"""The chief of a job of `python -m tfwave.server`: trains with a stock ClusterCoordinator, and prints the losses.

TF_CONFIG says where the servers are.
"""

import json
import os
import sys

STEPS = 6


def main() -> None:
    import tensorflow as tf

    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = [tf.Variable(tf.ones([32, 32]) * (i + 1) / 64) for i in range(4)]

    @tf.function
    def step() -> tf.Tensor:
        def replica() -> tf.Tensor:
            with tf.GradientTape() as tape:
                out = tf.ones([8, 32])
                for weight in weights:
                    out = tf.tanh(out @ weight)
                loss = tf.reduce_mean(out**2)
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(gradient)
            return loss

        return strategy.run(replica)

    losses = []
    for _ in range(STEPS):
        remote = coordinator.schedule(step)
        coordinator.join()
        losses.append(float(remote.fetch()))
    sys.stdout.write(json.dumps(losses) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a chief's own server cannot be ended


if __name__ == "__main__":
    main()
