"""Keras 3 models whose optimizer accumulates gradients, in waves."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from tests.numerics.waves.keras_waves import dataset, dense, weights_of
from tests.numerics.waves.test_tick_tock_keras import distance
from tests.numerics.waves.waves import RATE, Replica, Values, batches, gradient_of, mean
from tfwave.errors import PassError
from tfwave.keras import TickTockCallback

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("doubles")]

EPOCHS = 3
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "momentum": lambda **k: keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True, clipnorm=0.5, **k),
    "adam": lambda **k: keras.optimizers.Adam(0.01, global_clipnorm=0.5, **k),
    "adamw": lambda **k: keras.optimizers.AdamW(0.01, **k),
}


def trained(optimizer: Any, waves: int, together: int, count: int, average: str = "batch") -> Any:
    """The dense model after some epochs of so many batches, of which each that it sees is so many."""
    model = dense("sgd", waves)
    model.compile(optimizer, "mse", steps_per_execution=waves)
    data = dataset(batches(count)).unbatch().batch(together * len(batches(1)[0][0]))
    callbacks = [TickTockCallback(waves, average)] if waves > 1 else []
    model.fit(data, epochs=EPOCHS, callbacks=callbacks, verbose=0)
    return model


def equal(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=1e-9, atol=1e-12))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_so_many_calls_are_one_large_batch(name: str) -> None:
    waved = trained(OPTIMIZERS[name](gradient_accumulation_steps=2), 2, 1, 8)
    large = trained(OPTIMIZERS[name](), 1, 4, 8)
    assert all(map(equal, waved.get_weights(), large.get_weights()))
    found, wanted = waved.optimizer.variables[2:], large.optimizer.variables[2:]
    kept = [v for v in found if "gradient_accumulator" not in v.path]
    assert all(equal(v.numpy(), w.numpy()) for v, w in zip(kept, wanted, strict=True))
    assert not any(np.any(v.numpy()) for v in found if "gradient_accumulator" in v.path)


@pytest.mark.filterwarnings("ignore:the last 1 of an epoch's batches")
def test_what_is_added_up_outlives_a_rest_and_an_epoch() -> None:
    """Nine batches are four calls and a rest, with three of which an optimizer updates: as Keras alone does."""
    make = OPTIMIZERS["adam"]
    waved = trained(make(gradient_accumulation_steps=3, use_ema=True), 2, 1, 9)
    plain = trained(make(gradient_accumulation_steps=3, use_ema=True), 1, 2, 9)
    assert all(map(equal, waved.get_weights(), plain.get_weights()))
    pairs = zip(waved.optimizer.variables, plain.optimizer.variables, strict=True)
    assert all(equal(v.numpy(), w.numpy()) for v, w in pairs)


def test_added_up_is_the_mean_with_the_wave_before() -> None:
    """Eq. 1, in NumPy."""
    given = batches(8)
    waved = trained(keras.optimizers.SGD(RATE, gradient_accumulation_steps=2), 2, 1, 8, "wave")
    replicas, before = [Replica("sgd"), Replica("sgd")], None
    for _ in range(EPOCHS):
        for first in range(0, 8, 4):
            sums: list[list[Values]] = [[], []]
            for number, batch in enumerate(given[first : first + 4]):
                own = gradient_of(replicas[number % 2].values, *batch)
                sums[number % 2].append(mean([own, before or own]))
                before = own
            for replica, added in zip(replicas, sums, strict=True):
                replica.update(mean(added))
    assert distance(weights_of(waved), replicas[0].values) <= 1e-12


def test_rows_are_refused() -> None:
    keras.utils.set_random_seed(1)
    model: Any = keras.Sequential([keras.Input((2,), dtype="int32"), keras.layers.Embedding(5, 2)])
    model.compile(keras.optimizers.SGD(gradient_accumulation_steps=2), "mse", steps_per_execution=2)
    given = np.zeros((8, 2), "int32"), np.zeros((8, 2, 2))
    with pytest.raises(PassError, match=r"as of accumulated gradients.* make those of single rows dense"):
        model.fit(*given, batch_size=2, callbacks=[TickTockCallback(2, "batch")], verbose=0)
