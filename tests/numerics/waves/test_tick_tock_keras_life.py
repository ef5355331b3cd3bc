"""What the callback for waves refuses, restores and leaves in files."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.numerics.corpus.sample import same_bits
from tests.numerics.replicas import mirrored
from tests.numerics.waves.keras_waves import Around, dataset, dense, files_with, mixed, sequences
from tests.numerics.waves.waves import batches
from tests.strategies import CollectiveAllReduceStrategy
from tfwave.errors import PassError, TfwaveError
from tfwave.keras import TickTockCallback
from tfwave.keras.ready import check_one_step
from tfwave.keras.wave_ready import check_waves
from tfwave.runtime.waves.options import WaveOptions

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("doubles")]

PATIENCE_SECONDS = 30


def fit(model: Any, callback: Any, given: Any = None, epochs: int = 1, start: int = 0) -> None:
    data = dataset(batches(4)) if given is None else given
    model.fit(data, epochs=epochs, initial_epoch=start, callbacks=[callback], verbose=0)


def everything(model: Any, callback: TickTockCallback) -> list[Any]:
    """The bits of all variables of all waves."""
    state = [v.numpy() for group in (*callback.state.further, callback.state.kept) for v in group]
    return [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables), *state]


def of_words() -> Any:
    keras.utils.set_random_seed(3)
    table = keras.layers.Embedding(9, 3)
    model = keras.Sequential([keras.Input((4,), dtype="int64"), table, keras.layers.Dense(3)])
    model.compile("adam", "mse", steps_per_execution=2)
    return model


def words() -> Any:
    draw = np.random.default_rng(2)
    return tf.data.Dataset.from_tensor_slices((draw.integers(0, 9, [8, 4]), np.ones((8, 4, 3)))).batch(2)


@pytest.mark.parametrize(
    ("make", "batches_of"),
    [(mixed, lambda: dataset(sequences(4))), (of_words, words)],
    ids=["mixed", "words"],
)
def test_a_training_goes_on_from_a_checkpoint(
    make: Callable[[], Any], batches_of: Callable[[], Any], tmp_path: Path
) -> None:
    """Bit for bit, whether fits follow each other or begin in another model; the variables of all waves."""
    given = batches_of()
    straight, whole = make(), TickTockCallback()
    fit(straight, whole, given, epochs=3)

    model, callback = make(), TickTockCallback()
    fit(model, callback, given, epochs=2)
    path = tf.train.Checkpoint(model=model, waves=callback.state).save(str(tmp_path / "waves"))
    other, resumed = make(), TickTockCallback()
    other.layers[-1].kernel.assign(other.layers[-1].kernel * 2)
    status = tf.train.Checkpoint(model=other, waves=resumed.state).restore(path)
    fit(other, resumed, given, epochs=3, start=2)
    status.assert_existing_objects_matched()
    fit(model, callback, given, epochs=3, start=2)

    wanted = everything(straight, whole)
    assert same_bits(everything(other, resumed), wanted)
    assert same_bits(everything(model, callback), wanted)


def test_a_running_training_is_restored(tmp_path: Path) -> None:
    model, callback = dense("adam"), TickTockCallback()
    fit(model, callback)
    checkpoint = tf.train.Checkpoint(model=model, waves=callback.state)
    path = checkpoint.save(str(tmp_path / "waves"))
    fit(model, callback)
    wanted = everything(model, callback)
    checkpoint.restore(path).assert_consumed()
    fit(model, callback)
    assert same_bits(everything(model, callback), wanted)


def test_an_exported_model_knows_nothing_of_waves(tmp_path: Path) -> None:
    model, inputs = mixed(), sequences(1)[0][0]
    fit(model, TickTockCallback(), dataset(sequences(4)))
    model.export(str(tmp_path / "served"), verbose=False)
    model.save(str(tmp_path / "model.keras"))
    wanted = model.predict(inputs, verbose=0)
    served = tf.saved_model.load(str(tmp_path / "served"))
    loaded: Any = keras.models.load_model(str(tmp_path / "model.keras"))
    assert np.allclose(served.serve(inputs).numpy(), wanted, rtol=1e-12)
    assert same_bits([loaded.predict(inputs, verbose=0)], [wanted])
    assert files_with(tmp_path / "served", b"Dense") or files_with(tmp_path / "served", b"dense")
    assert not files_with(tmp_path, b"tick_tock") + files_with(tmp_path, b"tfwave")


class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise RuntimeError("stop")


def wait_for_plain_steps(model: Any) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while "tfwave" in type(model.train_function).__module__ and time.monotonic() < until:
        time.sleep(0.05)


def test_the_train_function_is_restored() -> None:
    model = dense("sgd")
    model.make_train_function()
    stock = model.train_function
    fit(model, TickTockCallback())
    assert model.train_function is stock
    with pytest.raises(RuntimeError, match="stop"):
        model.fit(dataset(batches(4)), callbacks=[TickTockCallback(), Fails()], verbose=0)
    wait_for_plain_steps(model)
    assert model.train_function is stock
    fresh = dense("sgd")
    fresh.set_weights(model.get_weights())
    for one in (model, fresh):
        one.fit(dataset(batches(4)), verbose=0)
    assert same_bits(model.get_weights(), fresh.get_weights())


def compiled(**options: Any) -> Any:
    model = dense("sgd")
    model.compile(**{"optimizer": "sgd", "loss": "mse", "steps_per_execution": 2, **options})
    return model


def by_xla() -> Any:
    """Keras itself lets XLA be where TensorFlow was told to be deterministic, as other tests do."""
    model = dense("sgd")
    model._jit_compile = True
    return model


def under_a_strategy() -> Any:
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        return dense("sgd")


def of_two_optimizers() -> Any:
    model = dense("sgd")
    model.other = keras.optimizers.Adam(name="second")
    return model


def around_what_is_not_built() -> Any:
    model = Around(keras.Sequential([keras.layers.Dense(3, name="inner")]))
    model.compile("sgd", steps_per_execution=2)
    return model


def accumulating_replicas() -> Any:
    with mirrored("CPU:0").scope():
        return compiled(optimizer=keras.optimizers.SGD(gradient_accumulation_steps=2))


REFUSED = {
    "steps": (
        lambda: dense("sgd", 3),
        r"has steps_per_execution=3, .* 2 batches: compile\(steps_per_execution=2\)",
    ),
    "eager": (lambda: compiled(run_eagerly=True), "runs eagerly"),
    "xla": (by_xla, "is compiled by XLA"),
    "accumulated": (
        accumulating_replicas,
        "accumulates gradients, which Keras cannot do under a MirroredStrategy",
    ),
    "averaged": (
        lambda: compiled(optimizer=keras.optimizers.SGD(use_ema=True, ema_overwrite_frequency=2)),
        "overwrites its weights",
    ),
    "scaled": (
        lambda: compiled(optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())),
        "scales its loss",
    ),
    "strategy": (under_a_strategy, "belongs to a OneDeviceStrategy"),
    "second": (of_two_optimizers, "has another optimizer, 'second', which is not built"),
    "around": (around_what_is_not_built, r"has no call\(\) to build its layer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_train_in_waves_is_refused(case: str) -> None:
    make, message = REFUSED[case]
    model = make()
    with pytest.raises(TfwaveError, match=message):
        fit(model, TickTockCallback())
    wait_for_plain_steps(model)
    if case not in ("xla", "accumulated"):
        model.fit(dataset(batches(4)), verbose=0)


class OfTfKeras(tf_keras.Model):
    """As users write them."""


def test_other_kinds_of_models_are_refused_with_the_reason() -> None:
    """Before Keras can fail on them: it asks a strategy of several machines for these."""
    model: Any = dense("sgd")
    model._distribute_strategy = CollectiveAllReduceStrategy()
    with pytest.raises(TfwaveError, match=r"trains on several machines, .* on one machine"):
        check_waves(model, WaveOptions())
    with pytest.raises(TfwaveError, match=r"OfTfKeras is of tf_keras, .*: train it in a loop of your own"):
        check_waves(OfTfKeras(), WaveOptions())
    with pytest.raises(TfwaveError, match=r"OfTfKeras is of tf_keras, .*: make the model with keras"):
        check_one_step(OfTfKeras())


def test_options_out_of_range_are_refused() -> None:
    for arguments in ((0, "wave", 0.0), (65, "wave", 0.0), (2, "mean", 0.0), (2, "wave", 1.5)):
        with pytest.raises(PassError):
            TickTockCallback(*arguments)


def test_a_callback_is_for_one_model() -> None:
    callback = TickTockCallback()
    fit(dense("sgd"), callback)
    with pytest.raises(TfwaveError, match="make one for each model"):
        fit(dense("sgd"), callback)
