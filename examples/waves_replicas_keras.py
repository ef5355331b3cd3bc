"""Keras 3's `fit` on the replicas of a MirroredStrategy, in waves: `python examples/waves_replicas_keras.py`."""

import keras
import tensorflow as tf

import tfwave.keras

DEVICES, WAVES = 2, 2


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(DEVICES)])
    with strategy.scope():
        layers = [keras.layers.LSTM(16), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((12, 4)), *layers])
        model.compile("adam", "mse", metrics=["mae"], steps_per_execution=WAVES)  # a batch for each wave
    inputs = tf.random.stateless_normal([512, 12, 4], seed=[1, 2])
    wanted = tf.reduce_mean(inputs, axis=[1, 2])[:, None]
    waves = tfwave.keras.TickTockCallback(WAVES, average="batch")
    history = model.fit(inputs, wanted, batch_size=32, epochs=3, callbacks=[waves], verbose=0)
    for name, values in sorted(history.history.items()):
        print(name, [round(value, 4) for value in values])


if __name__ == "__main__":
    main()
