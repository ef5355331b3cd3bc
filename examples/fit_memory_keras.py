"""`fit` with a batch that plainly runs out of memory, by a callback: `python examples/fit_memory_keras.py`."""

import tfwave.colocate

tfwave.colocate.limit_memory("72MiB")  # before TensorFlow is imported, which reads its limit then

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import tfwave.keras  # noqa: E402

WIDTH, LAYERS, ROWS = 128, 10, 4096


def residual_model() -> keras.Model:
    given = hidden = keras.Input((WIDTH,))
    for _ in range(LAYERS):
        hidden = keras.layers.add([keras.layers.Dense(WIDTH, "gelu")(hidden), hidden])
    model = keras.Model(given, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(1e-4), "mse", jit_compile=False)
    return model


def main() -> None:
    keras.utils.set_random_seed(1)
    model = residual_model()
    inputs = np.random.default_rng(1).standard_normal((2 * ROWS, WIDTH), np.float32)
    options = {"batch_size": ROWS, "epochs": 2, "verbose": 0}
    try:
        model.fit(inputs, inputs[:, :1], **options)
    except tf.errors.ResourceExhaustedError:
        print("plain: out of memory")
    callback = tfwave.keras.FitMemoryCallback(sample_rows=512)  # these must fit as they are
    history = model.fit(inputs, inputs[:, :1], callbacks=[callback], **options)
    print("fitted: losses", [round(value, 4) for value in history.history["loss"]])
    for (shape, *_), plan in callback.plans.items():
        offloaded, again = (len(plan.memory.away(how)) for how in ("offload", "recompute"))
        print(f"{shape}: {offloaded} tensors are on the host between the passes, {again} are made again")
    print(
        f"{callback.figures.out.bytes / 2**20:.1f} MiB went to the host, {callback.figures.tensors} stay there"
    )


if __name__ == "__main__":
    main()
