"""Traced steps of any kind run in waves: what each gets, gives, carries on and keeps."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.corpus.sample import Array
from tests.numerics.waves.waves import (
    BATCH,
    RATE,
    WIDTHS,
    Replica,
    Values,
    batches,
    first_values,
    gradient_of,
    mean,
)
from tfwave.errors import EnforcerError, PassError
from tfwave.runtime.waves.function import WaveFunction
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.state import WaveState
from tfwave.runtime.waves.step import TracedStep, trace_step

pytestmark = pytest.mark.tensorflow

SPEC = {
    "inputs": tf.TensorSpec((BATCH, WIDTHS[0]), tf.float64),
    "wanted": tf.TensorSpec((BATCH, WIDTHS[2]), tf.float64),
}


class Dense:
    """The model of `tests.numerics.waves.waves`, with plain gradient descent, as a user would write it."""

    def __init__(self) -> None:
        self.weights = {name: tf.Variable(tf.constant(value)) for name, value in first_values().items()}

    def step(self, batch: Any, extra: Any = None) -> Any:
        w = self.weights
        with tf.GradientTape() as tape:
            hidden = tf.tanh(batch["inputs"] @ w["w1"] + w["b1"])
            error = tf.square(hidden @ w["w2"] + w["b2"] - batch["wanted"])
            loss = tf.reduce_mean(error)
        gradients: Any = tape.gradient(loss, list(w.values()))
        for weight, gradient in zip(w.values(), gradients, strict=True):
            weight.assign_sub(RATE * gradient)
        return {"loss": loss, "none": extra, "largest": (tf.reduce_max(error), None)}

    @property
    def values(self) -> Values:
        return {name: variable.numpy() for name, variable in self.weights.items()}


def given(batch: tuple[Array, Array]) -> tuple[dict[str, Any]]:
    return ({"inputs": tf.constant(batch[0]), "wanted": tf.constant(batch[1])},)


def close(found: Values, wanted: Values) -> bool:
    return all(np.allclose(found[name], wanted[name], rtol=1e-12, atol=1e-14) for name in wanted)


def run_eq_1(
    call: Callable[[list[Any]], Any], waves: int, steps: Iterable[tuple[Array, Array]]
) -> list[Replica]:
    """Both by a function of waves and by NumPy; compares the losses, gives the replicas."""
    replicas, before = [Replica("sgd") for _ in range(waves)], None
    rest = list(steps)
    for first in range(0, len(rest), waves):
        of_call = rest[first : first + waves]
        outputs = call([given(batch) for batch in of_call])
        for replica, batch, output in zip(replicas, of_call, outputs, strict=True):
            values = replica.values
            hidden = np.tanh(batch[0] @ values["w1"] + values["b1"])
            error = (hidden @ values["w2"] + values["b2"] - batch[1]) ** 2
            assert np.allclose(
                [output["loss"], output["largest"][0]], [error.mean(), error.max()], rtol=1e-12
            )
            assert output["none"] is None is output["largest"][1]
            own = gradient_of(values, *batch)
            replica.update(mean([own, before or own]))
            before = own
    return replicas


@pytest.mark.parametrize("wrap", [tf.function, lambda step: step])
def test_a_step_of_a_user_runs_in_waves(wrap: Callable[[Any], Any]) -> None:
    model, state = Dense(), WaveState()
    function = WaveFunction(trace_step(wrap(model.step), (SPEC,)), WaveOptions(3), state)
    replicas = run_eq_1(lambda given: function(given)[0], 3, batches(9))
    assert close(model.values, replicas[0].values)
    for wave, replica in enumerate(replicas[1:]):
        found = [variable.numpy() for variable in state.trackable.further[wave]]
        assert close(dict(zip(replica.values, found, strict=True)), replica.values)


def test_waves_run_within_a_function() -> None:
    model, state = Dense(), WaveState()
    function = WaveFunction(trace_step(model.step, (SPEC,)), WaveOptions(2), state)
    outer = tf.function(lambda given: function(given)[0], autograph=False)
    assert close(model.values, first_values())
    assert close(run_eq_1(outer, 2, batches(6))[0].values, model.values)


def test_a_new_beginning_takes_the_first_gradient_alone() -> None:
    first = batches(2)
    model, state = Dense(), WaveState()
    step = trace_step(model.step, (SPEC,))
    function = WaveFunction(step, WaveOptions(2), state)
    function([given(batch) for batch in first])
    state.begin_anew()
    for name, variable in model.weights.items():
        variable.assign(first_values()[name])
    state.follow()
    assert close(run_eq_1(lambda given: function(given)[0], 2, first)[0].values, model.values)


def counting(total: Any) -> Callable[..., Any]:
    """A step that counts in what is carried, by the number that it carries, and hands a third tensor on."""

    def step(carried: list[Any], batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(total * batch) * tf.cast(carried[0], tf.float64)
        total.assign_sub(tape.gradient(loss, total))
        return carried[0], [carried[0] + 1, carried[1] + tf.reduce_sum(batch), carried[2]]

    return step


@pytest.mark.parametrize("average", ["wave", "batch"])
def test_what_is_carried_goes_from_wave_to_wave(average: str) -> None:
    total = tf.Variable(tf.constant(1, tf.float64))
    specs = [tf.TensorSpec((), tf.int32), tf.TensorSpec((), tf.float64), tf.TensorSpec((2,), tf.float32)]
    step = trace_step(counting(total), (tf.TensorSpec((3,), tf.float64),), specs)
    function = WaveFunction(step, WaveOptions(3, average), WaveState())
    fed = [(np.full(3, value, float),) for value in (1, 2, 4)]
    numbers, carried = function(fed, [tf.constant(7), tf.constant(0.5, tf.float64), tf.constant([5.0, 6.0])])
    assert [int(number) for number in numbers] == [7, 8, 9]
    assert [value.numpy().tolist() for value in carried] == [10, 21.5, [5.0, 6.0]]
    gradients = [3 * 1 * 7, 3 * 2 * 8, 3 * 4 * 9]
    assert total.numpy() == 1 - (gradients[0] if average == "wave" else sum(gradients) / 3)


def traced_with(touch: Callable[[], Any]) -> TracedStep:
    model = Dense()

    def step(batch: Any) -> Any:
        touch()
        return model.step(batch)

    return trace_step(step, (SPEC,))


def test_what_is_no_variable_is_refused() -> None:
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    one = tf.constant(1, tf.int64)
    with pytest.raises(EnforcerError, match="which is no variable"):
        WaveFunction(traced_with(lambda: table.insert(one, one)), WaveOptions(2), WaveState())
    iterator = iter(tf.data.Dataset.range(9))
    with pytest.raises(EnforcerError, match="give them as arguments"):
        WaveFunction(traced_with(lambda: next(iterator)), WaveOptions(2), WaveState())


def renamed(step: Callable[..., Any]) -> Callable[..., Any]:
    def again(batch: Any) -> Any:
        with tf.name_scope("again"):
            return step(batch)

    return again


def test_calls_and_graphs_that_do_not_fit_are_refused() -> None:
    model, state = Dense(), WaveState()
    function = WaveFunction(trace_step(model.step, (SPEC,)), WaveOptions(2), state)
    with pytest.raises(EnforcerError, match="2 waves need 2 batches, not 1"):
        function([given(batches(1)[0])])
    with pytest.raises(EnforcerError, match="give the batches of a training one shape"):
        WaveFunction(trace_step(renamed(model.step), (SPEC,)), WaveOptions(2), state)
    with pytest.raises(PassError, match="changes no variable"):
        WaveFunction(trace_step(lambda batch: batch["inputs"], (SPEC,)), WaveOptions(2), WaveState())


def test_tapes_are_as_before() -> None:
    stock = tf.GradientTape.gradient
    with pytest.raises(ValueError, match="no number"):
        trace_step(lambda: float("no number"), ())
    assert tf.GradientTape.gradient is stock
