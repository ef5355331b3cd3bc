"""A loop of one's own for a model that lies on two devices, in waves: `python examples/waves_devices.py`."""

import itertools

import tensorflow as tf

import tfwave

RATE, WAVES = 0.002, 2


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * WAVES)
    with tf.device("CPU:0"):
        front = tf.Variable(tf.random.stateless_normal([8, 16], seed=[1, 2]))
    with tf.device("CPU:1"):
        back = tf.Variable(tf.random.stateless_normal([16, 1], seed=[3, 4]))

    def step(inputs: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:  # each op runs where its weights are, and so does its gradient
            loss = tf.reduce_mean((tf.nn.relu(inputs @ front) @ back - wanted) ** 2)
        for weight, gradient in zip((front, back), tape.gradient(loss, (front, back)), strict=True):
            weight.assign_sub(RATE * gradient)
        return loss

    inputs = tf.random.stateless_normal([512, 8], seed=[5, 6])
    data = tf.data.Dataset.from_tensor_slices((inputs, inputs[:, :1] * 0.5)).batch(32)
    train = tfwave.distribute.across_devices(step, waves=WAVES)
    batches = iter(data)
    while pair := list(itertools.islice(batches, train.waves)):
        print("losses", [round(float(loss), 4) for loss in train(*pair)])
    for variable in train.state.further[0]:
        print("of the second wave:", variable.shape, variable.device.rpartition("/device:")[2])


if __name__ == "__main__":
    main()
