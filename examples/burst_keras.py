"""Keras 3's `fit` with each layer on its own number of devices: `python examples/burst_keras.py`."""

import keras
import tensorflow as tf

import tfwave.keras
from tfwave.burst.network import Network
from tfwave.burst.section import plan_layers
from tfwave.keras.bursts.times import profile_model
from tfwave.plan.plan import Plan

DEVICES, BATCH = 4, 32
layers = keras.layers


def make() -> keras.Model:
    stages = [
        layer
        for channels in (8, 16)
        for layer in (
            layers.Conv2D(channels, 3, padding="same", use_bias=False, name=f"conv{channels}"),
            layers.BatchNormalization(name=f"norm{channels}"),
            layers.ReLU(name=f"relu{channels}"),
            layers.MaxPooling2D(name=f"pool{channels}"),
        )
    ]
    head = [
        layers.Flatten(name="flat"),
        layers.Dropout(0.2, seed=1, name="drop"),
        layers.Dense(10, name="dense"),
    ]
    return keras.Sequential([keras.Input((16, 16, 3), name="images"), *stages, *head])


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)
    model = make()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

    # the same as `tfwave burst profile` and `tfwave burst plan -o plan.json`
    profile = profile_model(model, [8, 16, 32], repeats=2)
    network = Network(bandwidth=1e9, latency=20e-6)
    planned = plan_layers(profile, DEVICES, BATCH, network, limit=2.0)
    for layer in planned.layers:
        print(f"{layer.name} runs on {layer.count} of {planned.devices} devices")

    images = tf.random.stateless_normal([256, 16, 16, 3], seed=[1, 2])
    classes = tf.random.stateless_uniform([256], seed=[3, 4], maxval=10, dtype=tf.int32)
    burst = tfwave.keras.BurstCallback(Plan(layers=planned))
    history = model.fit(images, classes, batch_size=BATCH, epochs=2, callbacks=[burst], verbose=0)
    for name, values in sorted(history.history.items()):
        print(name, [round(value, 4) for value in values])


if __name__ == "__main__":
    main()
