"""Chiefs that train with `ScheduleCallback`; see `chiefs.py`."""

import contextlib
import csv
import threading
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfwave
import tfwave.distribute
import tfwave.keras
from tests.cluster.distribute.chiefs import strategy
from tests.events import told_events
from tests.waiting import wait_until

MOST_EPOCHS, STEPS = 50, 40


class Stop(Exception):
    """What a user's callback may raise."""


def data(context: Any = None) -> Any:
    del context
    random = np.random.RandomState(3)
    x = random.randn(512, 32).astype("f")
    return tf.data.Dataset.from_tensor_slices((x, x[:, :10].argmax(1))).batch(16)


def model_of(keras: Any, chosen: Any) -> Any:
    keras.utils.set_random_seed(5)
    with chosen.scope():
        hidden = [keras.layers.Dense(64, activation="relu") for _ in range(5)]
        model = keras.Sequential([keras.Input((32,)), *hidden, keras.layers.Dense(10)])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def fit(which: str, model: Any, keras: Any, callbacks: list[Any]) -> dict[str, Any]:
    if which == "keras":
        found = tfwave.keras.fit(
            model, data().repeat(), epochs=MOST_EPOCHS, steps_per_epoch=STEPS, callbacks=callbacks, verbose=0
        )
    else:
        creator = keras.utils.experimental.DatasetCreator(lambda context: data(context).repeat())
        found = model.fit(creator, epochs=MOST_EPOCHS, steps_per_epoch=STEPS, callbacks=callbacks, verbose=0)
    return {name: [float(v) for v in values] for name, values in found.history.items()}


def fitted(which: str, directory: str) -> dict[str, Any]:
    """One fit with the callback, and what it left behind."""
    keras = __import__("keras" if which == "keras" else "tf_keras")
    chosen = tfwave.distribute.wrap(strategy(), policy="tic")
    schedule = tfwave.distribute.schedule_of(chosen)
    before = schedule.settings
    log = Path(directory, "log.csv")
    model = model_of(keras, chosen)
    ordered = 0

    def stop(epoch: int, logs: Any) -> None:
        """After two whole epochs that were ordered."""
        nonlocal ordered
        del epoch, logs
        ordered = ordered + 1 if is_ordered(schedule) else 0
        model.stop_training = ordered == 3

    callbacks = [
        tfwave.keras.ScheduleCallback(trace_steps=3, report_dir=Path(directory, "report")),
        keras.callbacks.CSVLogger(str(log)),
        keras.callbacks.LambdaCallback(on_epoch_end=stop),
    ]
    history = fit(which, model, keras, callbacks)
    return {
        "history": history,
        "csv": list(csv.DictReader(log.open())),
        "restored": schedule.settings == before and schedule.plans == {},
        "plans": [tfwave.load_plan(p).policy for p in Path(directory, "report").glob("*.plan.json")],
        "pages": [path.name for path in Path(directory, "report").glob("*.html")],
        **told_events(Path(directory, "report")),
    }


def is_ordered(schedule: Any) -> bool:
    """Did the order prove itself?"""
    return set(schedule.phases.values()) == {"ordered"}


def failed(which: str) -> dict[str, Any]:
    """A fit that a callback's exception ends, after it was ordered; nothing looks after it any more."""
    keras = __import__("keras" if which == "keras" else "tf_keras")
    chosen = tfwave.distribute.wrap(strategy(), policy="tic")
    schedule = tfwave.distribute.schedule_of(chosen)
    before = schedule.settings
    seen: dict[str, Any] = {}

    def stop(epoch: int, logs: Any) -> None:
        del epoch, logs
        if is_ordered(schedule):
            seen.update(during=schedule.settings.policy, ordered=len(schedule.plans))
            raise Stop

    callbacks = [
        tfwave.keras.ScheduleCallback("tac", trace_steps=3),
        keras.callbacks.LambdaCallback(on_epoch_end=stop),
    ]
    with contextlib.suppress(Stop):
        fit(which, model_of(keras, chosen), keras, callbacks)
    wait_until(lambda: schedule.settings == before, 20)
    wait_until(lambda: all(thread.name != "tfwave-fit" for thread in threading.enumerate()), 100)
    return {**seen, "restored": schedule.settings == before}


def unwrapped() -> dict[str, Any]:
    """The callback under a strategy that is not wrapped."""
    keras = __import__("tf_keras")
    chosen = strategy()
    try:
        fit("tf_keras", model_of(keras, chosen), keras, [tfwave.keras.ScheduleCallback()])
    except tfwave.TfwaveError as err:
        return {"refused": str(err)}
    return {}


SCENARIOS = {f.__name__: f for f in (fitted, failed, unwrapped)}
