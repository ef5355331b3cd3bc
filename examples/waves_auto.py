"""The number of waves as a measured step tells it, with the reason: `python examples/waves_auto.py`."""

import tfwave.colocate

tfwave.colocate.limit_memory("128MiB")  # before TensorFlow is imported, which reads its limit then

import keras  # noqa: E402
import numpy as np  # noqa: E402

import tfwave.keras  # noqa: E402


def main() -> None:
    layers = [keras.layers.Dense(256, "tanh") for _ in range(6)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse", steps_per_execution=2)  # as many as there may be
    draw = np.random.default_rng(1)
    inputs = draw.standard_normal((8192, 64), np.float32)
    callback = tfwave.keras.TickTockCallback("auto", average="batch")
    history = model.fit(inputs, inputs[:, :1], batch_size=1024, epochs=2, callbacks=[callback], verbose=0)
    waves = callback.plan.waves
    print(f"waves: {waves.count}, because: {waves.verdict}")
    print("loss", [round(value, 4) for value in history.history["loss"]])
    tfwave.save_plan(callback.plan, "waves.json")  # for another run: TickTockCallback(plan="waves.json")


if __name__ == "__main__":
    main()
