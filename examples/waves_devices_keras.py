"""Keras 3's `fit` of a model that lies on two devices, in waves: `python examples/waves_devices_keras.py`."""

import keras
import tensorflow as tf

import tfwave.keras

DEVICES = {"front": "CPU:0", "back": "CPU:1"}


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * len(DEVICES))
    front = keras.Sequential([keras.layers.LSTM(16), keras.layers.LayerNormalization()], name="front")
    back = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(1)], name="back")
    model = keras.Sequential([front, back])  # no Input: fit makes the weights, on the devices
    optimizer = keras.optimizers.Adam(gradient_accumulation_steps=2)  # an update by the batches of two calls
    model.compile(
        optimizer, "mse", metrics=["mae"], steps_per_execution=len(DEVICES)
    )  # a batch for each wave
    inputs = tf.random.stateless_normal([512, 12, 4], seed=[1, 2])
    wanted = tf.reduce_mean(inputs, axis=[1, 2])[:, None]
    waves = tfwave.keras.TickTockCallback(average="batch", devices=DEVICES)
    history = model.fit(inputs, wanted, batch_size=32, epochs=3, callbacks=[waves], verbose=0)
    for name, values in sorted(history.history.items()):
        print(name, [round(value, 4) for value in values])
    for variable in model.trainable_variables:
        print(variable.path, variable.value.device.rpartition("/device:")[2])


if __name__ == "__main__":
    main()
