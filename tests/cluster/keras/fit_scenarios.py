"""What the chief does in the tests of tfwave.keras.fit: each function gives facts, and the test judges them."""

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfwave.keras
from grappler_passes.gather_on_server import GatherOnServer
from tests.cluster.keras.fit_models import (
    At,
    Events,
    Largest,
    OtherLogs,
    custom_model,
    id_rows,
    image_model,
    images,
    learner,
    numbered_rows,
    rows_model,
    sums,
    sums_model,
    table_model,
    validation_images,
)
from tests.cluster.scenario_chief import ask
from tests.waiting import wait_until
from tfwave.errors import TfwaveError
from tfwave.keras import flight
from tfwave.passes.pipeline import Pipeline, Stage


def distributed(strategy: Any, make: Any = image_model, *args: Any, **kwargs: Any) -> keras.Model:
    with strategy.scope():
        return make(*args, **kwargs)


def weight_distance(a: keras.Model, b: keras.Model) -> float:
    pairs = zip(a.get_weights(), b.get_weights(), strict=True)
    return float(max(np.abs(x - y).max() for x, y in pairs))


def against_model_fit(strategy: Any, optimizer: str, steps_per_execution: int) -> dict[str, Any]:
    alone = image_model(optimizer)
    expected = alone.fit(images(), epochs=3, validation_data=validation_images(), verbose=0)
    model = distributed(strategy, image_model, optimizer, steps_per_execution=steps_per_execution)
    got = tfwave.keras.fit(model, images(), epochs=3, validation_data=validation_images(), verbose=0)
    return {
        "distance": weight_distance(alone, model),
        "moved": weight_distance(alone, image_model(optimizer)),
        "expected": expected.history,
        "history": got.history,
        "epochs": got.epoch,
        "iterations": int(model.optimizer.iterations),
        "metrics": {name: float(value) for name, value in model.get_metrics_result().items()},
    }


def each_step(strategy: Any, rate: float) -> dict[str, Any]:
    """Loss after each of five steps, and weights, by Model.fit and by tfwave."""
    facts: dict[str, Any] = {}
    alone, model = sums_model(rate), distributed(strategy, sums_model, rate)
    for name, trained, fit in (("expected", alone, keras.Model.fit), ("got", model, tfwave.keras.fit)):
        losses: list[str] = []
        kept = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, losses=losses: losses.append(float(logs["loss"]).hex())
        )
        fit(trained, sums(5), callbacks=[kept], verbose=0)
        facts[name] = [losses, *(weights.tobytes().hex() for weights in trained.get_weights())]
    return facts


def all_callbacks(directory: Path) -> list[Any]:
    directory.mkdir()
    checkpoint = keras.callbacks.ModelCheckpoint
    return [
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=1, factor=0.5),
        checkpoint(directory / "{epoch}.weights.h5", save_weights_only=True),
        checkpoint(directory / "best.keras", save_best_only=True, monitor="loss"),
        keras.callbacks.CSVLogger(directory / "log.csv"),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True),
    ]


def with_callbacks(strategy: Any, directory: str) -> dict[str, Any]:
    """The same training, by Model.fit and by tfwave, each with all callbacks."""
    facts: dict[str, Any] = {}
    alone, model = image_model("adam"), distributed(strategy, image_model, "adam")
    for name, trained, fit in (("expected", alone, keras.Model.fit), ("got", model, tfwave.keras.fit)):
        events, out = Events(), Path(directory, name)
        lambdas: list[int] = []
        callbacks = [
            *all_callbacks(out),
            events,
            keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs, seen=lambdas: seen.append(epoch)),
        ]
        history = fit(
            trained, images(), epochs=9, validation_data=validation_images(), callbacks=callbacks, verbose=0
        )
        loaded = keras.models.load_model(out / "best.keras")
        loaded.load_weights(out / "1.weights.h5")
        facts[name] = {
            "events": events.seen,
            "history": history.history,
            "lambdas": lambdas,
            "csv": (out / "log.csv").read_text(),
            "files": sorted(path.name for path in out.iterdir()),
            "rate": float(trained.optimizer.learning_rate),
            "first_weights": float(np.abs(loaded.get_weights()[0]).sum()),
        }
    return {**facts, "distance": weight_distance(alone, model)}


def progress_bar(strategy: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        tfwave.keras.fit(distributed(strategy), images(), epochs=2)
    return out.getvalue()


def stopped(strategy: Any, batch: int) -> dict[str, Any]:
    model, events = distributed(strategy), Events()
    stop = At(batch, lambda model: setattr(model, "stop_training", True))
    history = tfwave.keras.fit(model, images(), epochs=3, callbacks=[events, stop], verbose=0)
    return {
        "epochs": history.epoch,
        "iterations": int(model.optimizer.iterations),
        "ends": [index[0] for name, index, _ in events.seen if name == "on_train_batch_end"],
    }


def impatient(strategy: Any) -> list[str]:
    """What is said while a step takes longer than it may."""
    patience, flight.PATIENCE_SECONDS = flight.PATIENCE_SECONDS, 1e-4
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tfwave.keras.fit(distributed(strategy), images(), verbose=0)
    finally:
        flight.PATIENCE_SECONDS = patience
    return [str(warning.message) for warning in caught]


def failed_callback(strategy: Any) -> dict[str, Any]:
    """The callback fails as the second execution ends, when a second worker has just got the third."""
    model = distributed(strategy, image_model, steps_per_execution=3)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def fail(model: Any) -> None:
        raise ZeroDivisionError("in a callback")

    raised, done = "", False
    try:
        tfwave.keras.fit(model, images().repeat(4), callbacks=[At(5, fail)], verbose=0)
    except ZeroDivisionError as err:
        raised, done = str(err), coordinator.done()
    before = int(model.optimizer.iterations)
    tfwave.keras.fit(model, images(), verbose=0)
    return {
        "raised": raised,
        "done": done,
        "steps": before,
        "steps_after": int(model.optimizer.iterations),
    }


def uneven_epochs(strategy: Any) -> dict[str, Any]:
    """Epochs of five batches, from seven."""
    model, alone = distributed(strategy), image_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = tfwave.keras.fit(model, images(), epochs=3, steps_per_epoch=5, verbose=0)
    expected = alone.fit(images(), epochs=3, steps_per_epoch=5, verbose=0)
    return {
        "distance": weight_distance(alone, model),
        "iterations": int(model.optimizer.iterations),
        "history": got.history,
        "expected": expected.history,
        "warnings": [str(w.message) for w in caught if issubclass(w.category, UserWarning)],
    }


def custom_step(strategy: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    x = {"a": rng.random((40, 3), dtype=np.float32), "b": rng.random((40, 2), dtype=np.float32)}
    y, weights = rng.random((40, 1), dtype=np.float32), rng.random((40, 1), dtype=np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(8)
    alone, model = custom_model(), distributed(strategy, custom_model)
    expected = alone.fit(data, epochs=3, verbose=0)
    with strategy.scope():
        got = tfwave.keras.fit(model, data, epochs=3, verbose=0)
    return {
        "distance": weight_distance(alone, model),
        "history": got.history,
        "expected": expected.history,
    }


def optimizer_of_its_own(strategy: Any) -> dict[str, Any]:
    rows = tf.data.Dataset.from_tensor_slices((np.eye(3, dtype="f"), np.ones((3, 1), "f"))).batch(2)
    alone, model = learner(built=True), distributed(strategy, learner, built=True)
    expected = alone.fit(rows, epochs=2, verbose=0)
    got = tfwave.keras.fit(model, rows, epochs=2, verbose=0)
    return {
        "distance": weight_distance(alone, model),
        "history": got.history,
        "expected": {name: [*map(float, values)] for name, values in expected.history.items()},
    }


def gathered_on_server(strategy: Any) -> dict[str, Any]:
    """The same training with a table that is sent whole, and with rows of it."""
    facts: dict[str, Any] = {}
    stages: list[Stage] = []
    for name, passes in (("whole", None), ("rows", Pipeline((GatherOnServer(),), (stages.append,)))):
        model = distributed(strategy, table_model)
        history = tfwave.keras.fit(
            model, id_rows(), epochs=2, validation_data=id_rows(), passes=passes, verbose=0
        ).history
        facts[name] = [history, *(weights.tobytes().hex() for weights in model.get_weights())]
    return {**facts, "rewritten": [stage.result.changed for stage in stages]}


def compiled_outside(strategy: Any) -> keras.Model:
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def refusals(strategy: Any) -> dict[str, str]:
    """What fit says to each thing it cannot do."""
    rows = tf.data.Dataset.from_tensors((tf.zeros((2, 3)), tf.zeros((2, 1))))

    def small(kind: Any = keras.Sequential, optimizer: Any = "sgd", **compiled: Any) -> keras.Model:
        with strategy.scope():
            model = kind([keras.layers.Dense(1)])
            model.compile(optimizer, "mse", **compiled)
        return model

    def uncompiled() -> keras.Model:
        with strategy.scope():
            return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

    sgd = keras.optimizers.SGD
    attempts: dict[str, Any] = {
        "class_weight": lambda: fit(small(), rows, class_weight={0: 1.0}),
        "batch_size": lambda: fit(small(), rows, batch_size=2),
        "typo": lambda: fit(small(), rows, epoch=2),
        "arrays": lambda: fit(small(), np.zeros((2, 3))),
        "validation arrays": lambda: fit(small(), rows, validation_data=(np.zeros(3), np.zeros(3))),
        "endless": lambda: fit(small(), rows.repeat()),
        "function without steps": lambda: fit(small(), lambda context: rows),
        "no steps": lambda: fit(small(), rows, steps_per_epoch=0),
        "empty": lambda: fit(small(), rows.take(0)),
        "empty on workers": lambda: fit(small(), lambda context: numbered_rows().take(0), steps_per_epoch=2),
        "made outside": lambda: fit(small(), lambda context: rows, steps_per_epoch=2),
        "no strategy": lambda: fit(image_model(), rows),
        "compiled outside": lambda: fit(compiled_outside(strategy), rows),
        "not compiled": lambda: fit(uncompiled(), rows),
        "eager": lambda: fit(small(run_eagerly=True), rows),
        "xla": lambda: fit(small(jit_compile=True), rows),
        "accumulation": lambda: fit(small(optimizer=sgd(gradient_accumulation_steps=2)), rows),
        "averages": lambda: fit(small(optimizer=sgd(use_ema=True, ema_overwrite_frequency=2)), rows),
        "metric": lambda: fit(small(metrics=[Largest()]), rows),
        "other logs": lambda: fit(small(OtherLogs), rows),
        "not built": lambda: fit(distributed(strategy, learner, built=False), rows),
        "unbuildable": lambda: fit(small(), rows.map(lambda x, y: (x[0, 0], y))),
        "not keras": lambda: fit(strategy, rows),
    }

    def fit(*args: Any, **kwargs: Any) -> None:
        tfwave.keras.fit(*args, verbose=0, **kwargs)

    return {name: refusal(attempt) for name, attempt in attempts.items()}


def refusal(attempt: Any) -> str:
    try:
        attempt()
    except (TfwaveError, TypeError) as err:
        return f"{type(err).__name__}: {err}"
    return "accepted"


def backed_up(strategy: Any, directory: str, hold_at: int | None = None) -> dict[str, Any]:
    """Four epochs; if told so, a question at a batch of the third."""
    model, alone = distributed(strategy, image_model, "adam"), image_model("adam")
    backup = keras.callbacks.BackupAndRestore(directory, delete_checkpoint=False)
    holds = [] if hold_at is None else [At(hold_at, lambda model: ask("hold"), epoch=2)]
    history = tfwave.keras.fit(model, images(), epochs=4, callbacks=[backup, *holds], verbose=0)
    expected = alone.fit(images(), epochs=4, verbose=0)
    return {
        "epochs": history.epoch,
        "history": history.history,
        "expected": expected.history,
        "distance": weight_distance(alone, model),
        "iterations": int(model.optimizer.iterations),
    }


def exact_metrics(strategy: Any) -> dict[str, Any]:
    """Weights that do not move: the logs of an epoch are those of Model.evaluate."""
    model = distributed(strategy, rows_model, 0.0)
    got = tfwave.keras.fit(
        model, numbered_rows(), epochs=2, validation_data=numbered_rows(16), validation_freq=[2], verbose=0
    )
    expected = rows_model(0.0).evaluate(numbered_rows(), return_dict=True, verbose=0)
    return {"history": got.history, "expected": expected, "iterations": int(model.optimizer.iterations)}


def learns(strategy: Any) -> dict[str, Any]:
    model = distributed(strategy, rows_model, 0.1)
    got = tfwave.keras.fit(model, numbered_rows(), epochs=3, verbose=0)
    return {"history": got.history, "iterations": int(model.optimizer.iterations)}


def learns_from_a_function(strategy: Any) -> dict[str, Any]:
    model = distributed(strategy, rows_model, 0.1)
    got = tfwave.keras.fit(
        model,
        lambda context: numbered_rows().shuffle(50).take(30),
        epochs=3,
        steps_per_epoch=50,
        verbose=0,
    )
    return {"history": got.history, "iterations": int(model.optimizer.iterations)}


def loses_workers(strategy: Any) -> dict[str, Any]:
    """The test kills the first worker, starts it again, and, when it works again, kills the second."""
    model = distributed(strategy, rows_model, 0.1)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    first = coordinator._cluster.workers[0]

    def kill_second(model: Any) -> None:
        wait_until(lambda: not first._is_dead_with_error, seconds=60)
        ask("kill the second")

    callbacks = [
        At(5, lambda model: ask("kill the first")),
        At(10, lambda model: ask("start the first")),
        At(30, kill_second),
    ]
    got = tfwave.keras.fit(model, numbered_rows(), epochs=2, callbacks=callbacks, verbose=0)
    return {"history": got.history}


def loses_a_server(strategy: Any) -> str:
    model = distributed(strategy, rows_model, 0.1)
    asks = [At(5, lambda model: ask("kill the server"))]
    return refusal(lambda: tfwave.keras.fit(model, numbered_rows(), epochs=2, callbacks=asks, verbose=0))
