"""Keras's own `fit` under a MirroredStrategy, in waves: as one device computes it of the same batches."""

from typing import Any

import numpy as np
import pytest

from tests.full import each
from tests.numerics.corpus.sample import same_bits
from tests.numerics.replicas import mirrored
from tests.numerics.waves.keras_waves import (
    dataset,
    dense,
    mixed,
    sequences,
    weights_of,
    weights_of_wave,
)
from tests.numerics.waves.test_tick_tock_keras import Group, distance, losses
from tests.numerics.waves.waves import batches
from tfwave.errors import TfwaveError
from tfwave.keras import TickTockCallback

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("doubles")]

EPOCHS = 2


@pytest.fixture(scope="module")
def strategy() -> Any:
    return mirrored("CPU:0", "CPU:1")


@pytest.mark.filterwarnings("ignore:the last 1 of an epoch's batches")
@pytest.mark.parametrize("average", each(["wave", "batch"], ["wave"]))
def test_fit_is_what_numpy_computes(strategy: Any, average: str) -> None:
    """Each replica has half of a batch; a rest at the end of each epoch, metrics, and validation."""
    given, held = batches(5), batches(6)[5:]
    with strategy.scope():
        model = dense("adam")
    callback, group = TickTockCallback(2, average), Group("adam", 2)
    history = model.fit(
        dataset(given), validation_data=dataset(held), epochs=EPOCHS, callbacks=[callback], verbose=0
    ).history
    for epoch in range(EPOCHS):
        found: list[tuple[float, float]] = []
        for call in (given[:2], given[2:4]):
            found += group.in_waves(call) if average == "wave" else group.in_a_batch(call)
        found.append(group.alone(given[4], all_follow=average == "batch"))
        told = [history["loss"][epoch], history["mae"][epoch]]
        assert np.allclose(told, np.mean(found, axis=0), rtol=1e-12)
    assert np.allclose(
        [history["val_loss"][-1], history["val_mae"][-1]],
        losses(group.replicas[0].values, *held[0]),
        rtol=1e-12,
    )
    assert distance(weights_of(model), group.replicas[0].values) <= 1e-12
    assert distance(weights_of_wave(callback, 1), group.replicas[1].values) <= 1e-12


def test_auto_is_for_one_replica(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwave.capture.wave_choice.pool_limit", lambda: 1 << 30)
    with strategy.scope():
        model = dense("sgd")
    for callback in (TickTockCallback("auto"), TickTockCallback(offset="auto")):
        with pytest.raises(
            TfwaveError, match="has 2 replicas, and 'auto' is known for one: give waves and offset"
        ):
            model.fit(dataset(batches(2)), callbacks=[callback], verbose=0)


def test_equal_batches_are_single_steps(strategy: Any) -> None:
    """An LSTM and a batch normalisation, whose statistics each replica has for itself: bit for bit, slots too."""
    one = sequences(3)
    with strategy.scope():
        plain, waved = mixed(1, dropout=0.0), mixed(2, dropout=0.0)
    plain.fit(dataset(one), epochs=EPOCHS, shuffle=False, verbose=0)
    twice = [batch for batch in one for _ in range(2)]
    waved.fit(dataset(twice), epochs=EPOCHS, callbacks=[TickTockCallback(2, "batch")], verbose=0)
    assert same_bits(plain.get_weights(), waved.get_weights())
    assert same_bits(
        [v.numpy() for v in plain.optimizer.variables], [v.numpy() for v in waved.optimizer.variables]
    )
