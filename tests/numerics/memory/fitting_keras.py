"""`fit` of a Keras model in a pool that its step would not keep to, and where there is room; prints what came out.

python -m tests.numerics.memory.fitting_keras plain|fitted
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfwave.colocate import limit_memory

limit_memory({"plain": "256MiB", "fitted": "72MiB"}[sys.argv[1]])

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from tests.events import told_events  # noqa: E402
from tests.numerics.memory.cheap_copies import let_copies_cost_nothing  # noqa: E402
from tfwave.errors import TfwaveError  # noqa: E402
from tfwave.keras import FitMemoryCallback  # noqa: E402

WIDTH, LAYERS, ROWS, SAMPLE = 128, 8, 4096, 512


def model(**options: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    given = hidden = keras.Input((WIDTH,))
    for number in range(LAYERS):
        hidden = layers.add([layers.Dense(WIDTH, "gelu")(hidden), hidden])
        if number == LAYERS // 2:
            hidden = layers.Dropout(0.1, seed=1)(hidden)
    made = keras.Model(given, layers.Dense(1)(hidden))
    made.compile(keras.optimizers.AdamW(1e-3), "mse", metrics=["mae"], jit_compile=False, **options)
    return made


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except (TfwaveError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def until(condition: Callable[[], bool]) -> bool:
    """The end of a `fit` by an exception is noticed a little later."""
    give_up = time.monotonic() + 30
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.05)
    return condition()


class _Interrupts(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise KeyboardInterrupt


def main() -> None:
    let_copies_cost_nothing()
    left = tempfile.mkdtemp()
    generator = np.random.default_rng(1)
    inputs = generator.standard_normal((2 * ROWS + 1000, WIDTH), np.float32)
    targets = inputs[:, :1]
    trained = model()
    callback = FitMemoryCallback(sample_rows=SAMPLE, report_dir=left) if sys.argv[1] == "fitted" else None
    history = trained.fit(
        inputs,
        targets,
        batch_size=ROWS,
        epochs=3,
        shuffle=False,
        verbose=0,
        callbacks=[callback] if callback else [],
    )
    found = {
        "logs": {name: [float(value).hex() for value in values] for name, values in history.history.items()},
        "sums": [float(np.sum(v.numpy(), dtype=np.float64)).hex() for v in trained.optimizer.variables],
        "weights": [float(np.sum(value, dtype=np.float64)).hex() for value in trained.get_weights()],
        "peak": tf.config.experimental.get_memory_info("CPU:0")["peak"],
    }
    if callback:
        before, plans = trained.train_function, callback.plans
        small = {"batch_size": SAMPLE, "shuffle": False, "verbose": 0}
        stopped = FitMemoryCallback()
        interrupted = said(lambda: trained.fit(inputs, targets, callbacks=[stopped, _Interrupts()], **small))
        events = told_events(Path(left))
        pages = sorted(path.name for path in Path(left).glob("*.html"))
        found |= {
            "events": events,
            "pages": pages,
            "away": sorted(len(plan.memory.tensors) for plan in plans.values() if plan.memory),
            "moved": callback.figures.back.bytes,
            "left": callback.figures.tensors,
            "interrupted": interrupted,
            "restored": until(lambda: trained.train_function is before),
            "refusals": [
                said(
                    lambda: model(steps_per_execution=2).fit(
                        inputs, targets, callbacks=[FitMemoryCallback()], **small
                    )
                ),
                said(
                    lambda: model(run_eagerly=True).fit(
                        inputs, targets, callbacks=[FitMemoryCallback()], **small
                    )
                ),
                said(lambda: trained.fit(inputs, targets, callbacks=[FitMemoryCallback("2MiB")], **small)),
            ],
        }
    shutil.rmtree(left)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
