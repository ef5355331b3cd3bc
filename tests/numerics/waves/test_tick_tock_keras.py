"""Keras 3 models that train in waves compute what Wavelet's equations say."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest

from tests.full import each
from tests.numerics.corpus.sample import Array, same_bits
from tests.numerics.waves.keras_waves import (
    OPTIMIZERS,
    Around,
    Triplets,
    attention,
    dataset,
    dense,
    mixed,
    recurrent,
    sequences,
    weights_of,
    weights_of_wave,
)
from tests.numerics.waves.waves import WIDTHS, Replica, Values, batches, gradient_of, mean
from tfwave.keras import TickTockCallback
from tfwave.keras.ready import make_variables

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("doubles")]

EPOCHS = 3


def distance(found: Values, wanted: Values) -> float:
    """The greatest error of any weight, relative to its norm."""
    return max(
        float(np.linalg.norm(found[name] - wanted[name]) / np.linalg.norm(wanted[name])) for name in wanted
    )


def losses(values: Values, inputs: Array, wanted: Array) -> tuple[float, float]:
    """The mean square and the mean absolute error."""
    error = np.tanh(inputs @ values["w1"] + values["b1"]) @ values["w2"] + values["b2"] - wanted
    return float(np.mean(error**2)), float(np.mean(np.abs(error)))


class Group:
    """The waves of a training, in NumPy."""

    def __init__(self, optimizer: str, waves: int) -> None:
        self.replicas = [Replica(optimizer) for _ in range(waves)]
        self.before: Values | None = None

    def in_waves(self, given: Sequence[tuple[Array, Array]]) -> list[tuple[float, float]]:
        """A call, by Eq. 1; gives the losses."""
        found = [losses(r.values, *batch) for r, batch in zip(self.replicas, given, strict=True)]
        for replica, batch in zip(self.replicas, given, strict=True):
            own = gradient_of(replica.values, *batch)
            replica.update(mean([own, self.before or own]))
            self.before = own
        return found

    def in_a_batch(self, given: Sequence[tuple[Array, Array]]) -> list[tuple[float, float]]:
        """A call of data parallel training."""
        found = [losses(self.replicas[0].values, *batch) for batch in given]
        average = mean([gradient_of(self.replicas[0].values, *batch) for batch in given])
        for replica in self.replicas:
            replica.update(average)
        return found

    def alone(self, batch: tuple[Array, Array], *, all_follow: bool) -> tuple[float, float]:
        """A plain step of wave 0."""
        found = losses(self.replicas[0].values, *batch)
        gradient = gradient_of(self.replicas[0].values, *batch)
        for replica in self.replicas if all_follow else self.replicas[:1]:
            replica.update(gradient)
        self.before = None
        return found


@pytest.mark.filterwarnings("ignore:the last 1 of an epoch's batches")
@pytest.mark.parametrize("count", [8, 9])
@pytest.mark.parametrize("average", ["wave", "batch"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_fit_is_what_numpy_computes(optimizer: str, average: str, count: int) -> None:
    given = batches(count)
    model, callback, group = dense(optimizer), TickTockCallback(2, average), Group(optimizer, 2)
    history = model.fit(dataset(given), epochs=EPOCHS, callbacks=[callback], verbose=0).history
    for epoch in range(EPOCHS):
        found: list[tuple[float, float]] = []
        for first in range(0, count, 2):
            call = given[first : first + 2]
            if len(call) == 1:
                found.append(group.alone(call[0], all_follow=average == "batch"))
            else:
                found += group.in_waves(call) if average == "wave" else group.in_a_batch(call)
        wanted = np.mean(found, axis=0)
        assert np.allclose([history["loss"][epoch], history["mae"][epoch]], wanted, rtol=1e-12)
    assert distance(weights_of(model), group.replicas[0].values) <= 1e-12
    assert distance(weights_of_wave(callback, 1), group.replicas[1].values) <= 1e-12
    equal = same_bits(list(weights_of(model).values()), list(weights_of_wave(callback, 1).values()))
    assert equal == (average == "batch")


def test_more_waves_and_an_offset() -> None:
    given = batches(8)
    model, callback, group = dense("adam", 4), TickTockCallback(4, offset=0.5), Group("adam", 4)
    model.fit(dataset(given), epochs=EPOCHS, callbacks=[callback], verbose=0)
    for _ in range(EPOCHS):
        group.in_waves(given[:4])
        group.in_waves(given[4:])
    found = [weights_of(model), *(weights_of_wave(callback, wave) for wave in (1, 2, 3))]
    assert all(distance(f, r.values) <= 1e-12 for f, r in zip(found, group.replicas, strict=True))


def test_equal_batches_are_single_steps() -> None:
    """The mean of two equal gradients is that gradient: an LSTM, a batch normalisation, bit for bit."""
    one = sequences(4)
    plain, waved = mixed(1, dropout=0.0), mixed(2, dropout=0.0)
    plain.fit(dataset(one), epochs=EPOCHS, shuffle=False, verbose=0)
    twice = [batch for batch in one for _ in range(2)]
    waved.fit(dataset(twice), epochs=EPOCHS, callbacks=[TickTockCallback(2, "batch")], verbose=0)
    assert same_bits(plain.get_weights(), waved.get_weights())
    assert same_bits(
        [v.numpy() for v in plain.optimizer.variables], [v.numpy() for v in waved.optimizer.variables]
    )


@pytest.mark.parametrize(
    ("make", "optimizer"),
    [
        pytest.param(recurrent, "AdamW", marks=pytest.mark.long),
        (attention, "Adafactor"),
        *(pytest.param(attention, n, marks=pytest.mark.long) for n in ("RMSprop", "Nadam", "Lamb", "Ftrl")),
    ],
)
def test_a_call_is_one_large_batch(make: Callable[[], Any], optimizer: str) -> None:
    """Whatever the layers, the loss and the optimizer: averaged are its gradients, and nothing else."""
    given = sequences(8)
    large: Any = [tuple(map(np.concatenate, zip(*given[i : i + 2], strict=True))) for i in range(0, 8, 2)]
    plain, waved = make(), make()
    plain.compile(getattr(keras.optimizers, optimizer)(0.01), "mse")
    waved.compile(getattr(keras.optimizers, optimizer)(0.01), "mse", steps_per_execution=2)
    before = plain.get_weights()
    plain.fit(dataset(large), epochs=EPOCHS, verbose=0)
    waved.fit(dataset(given), epochs=EPOCHS, callbacks=[TickTockCallback(2, "batch")], verbose=0)
    for old, one, other in zip(before, plain.get_weights(), waved.get_weights(), strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-11)
        assert not np.allclose(one, old, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("average", each(["wave", "batch"], ["batch"]))
def test_metrics_and_dropout_go_on_from_wave_to_wave(average: str) -> None:
    """With weights that stay, waves log what single steps do: each draws other numbers, in the same sequence."""
    given = [*sequences(1)] * 6
    plain, waved = mixed(1, rate=0.0), mixed(2, rate=0.0)
    wanted = plain.fit(dataset(given), epochs=EPOCHS, verbose=0).history
    callback = TickTockCallback(2, average)
    assert waved.fit(dataset(given), epochs=EPOCHS, callbacks=[callback], verbose=0).history == wanted
    assert len(set(wanted["loss"])) == EPOCHS


class Noise(keras.layers.Layer):
    """Draws from Keras's own generator, which is none of the model's."""

    def call(self, values: Any) -> Any:
        return values + keras.random.normal(keras.ops.shape(values))


def noisy(waves: int) -> Any:
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((3,)), Noise(), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.0), "mse", steps_per_execution=waves)
    return model


def logs(model: Any, seed: int, *callbacks: Any) -> Any:
    """Of a fit with another generator than those before."""
    keras.utils.set_random_seed(seed)
    given = [(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32))] * 6
    return model.fit(dataset(given), epochs=2, callbacks=list(callbacks), verbose=0).history


def test_numbers_of_kerass_own_generator_go_on_from_wave_to_wave() -> None:
    """In the second fit nothing draws before the step is traced: all is built."""
    waved = noisy(2)
    for seed in (6, 8):
        assert logs(waved, seed, TickTockCallback(2, "batch")) == logs(noisy(1), seed)


def test_the_logs_of_a_call_are_of_all_its_waves() -> None:
    given, group = batches(4), Group("sgd", 2)
    seen: list[tuple[int, float]] = []
    listen = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append((batch, logs["loss"]))
    )
    dense("sgd").fit(dataset(given), callbacks=[TickTockCallback(), listen], verbose=0)
    found = [loss for call in (given[:2], given[2:]) for loss, _ in group.in_waves(call)]
    assert [batch for batch, _ in seen] == [1, 3]
    assert np.allclose([loss for _, loss in seen], [np.mean(found[:2]), np.mean(found)], rtol=1e-12)


def test_validation_is_of_wave_0() -> None:
    given, held = batches(4), batches(6)[4:]
    model, group = dense("sgd"), Group("sgd", 2)
    fitted = model.fit(
        dataset(given), validation_data=dataset(held), callbacks=[TickTockCallback(2)], verbose=0
    )
    group.in_waves(given[:2])
    group.in_waves(given[2:])
    wanted = np.mean([losses(group.replicas[0].values, *batch) for batch in held], axis=0)
    assert np.allclose([fitted.history["val_loss"][0], fitted.history["val_mae"][0]], wanted, rtol=1e-12)


def test_a_model_without_a_call_trains_what_it_is_around() -> None:
    plain, inner = dense("adam"), keras.Sequential([keras.Input((WIDTHS[0],)), *dense("adam").layers])
    around: Any = Around(inner)
    around.compile(OPTIMIZERS["adam"](), steps_per_execution=2)
    for model in (plain, around):
        model.fit(dataset(batches(4)), epochs=EPOCHS, callbacks=[TickTockCallback()], verbose=0)
    assert same_bits(inner.get_weights(), plain.get_weights())


def test_a_step_of_its_own_takes_batches_of_its_own() -> None:
    """Without metrics in compile() nothing is left to make of inputs, targets and weights."""
    keras.utils.set_random_seed(5)
    model: Any = Triplets()
    given = [inputs for inputs, _ in batches(3)]
    model(given)
    model.compile("adam", weighted_metrics=[], steps_per_execution=2)
    before = model.get_weights()
    model.fit(dataset([tuple(given)] * 2), callbacks=[TickTockCallback()], verbose=0)
    assert not same_bits(model.get_weights(), before)


def test_a_model_without_a_call_may_have_its_optimizers_to_itself() -> None:
    around: Any = Around(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    around.compile(None)
    make_variables(around, None)


def test_batches_of_two_shapes_share_their_waves() -> None:
    """The last batch of arrays is smaller; the dataset says so, and one graph runs both."""
    given = batches(5)
    inputs, wanted = (np.concatenate(parts)[:-3] for parts in zip(*given, strict=True))
    model, group = dense("momentum"), Group("momentum", 2)
    small: Any = (inputs[-5:], wanted[-5:])
    steps = [*given[:4], small]
    with pytest.warns(UserWarning, match="the last 1 of an epoch's batches, too few for 2 waves"):
        model.fit(
            inputs, wanted, batch_size=8, epochs=2, shuffle=False, callbacks=[TickTockCallback(2)], verbose=0
        )
    for _ in range(2):
        group.in_waves(steps[:2])
        group.in_waves(steps[2:4])
        group.alone(small, all_follow=False)
    assert distance(weights_of(model), group.replicas[0].values) <= 1e-12
