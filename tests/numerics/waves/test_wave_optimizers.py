"""Whatever an optimizer makes of a gradient and of a weight, waves average the gradient, and that alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.tick_tock import TickTock
from tests.numerics.corpus.sample import Array, same_bits
from tests.numerics.training_graphs import Training, closed
from tests.numerics.waves.waves import (
    BATCH,
    RATE,
    WIDTHS,
    Values,
    batches,
    first_values,
    gradient_of,
    mean,
    run_waves,
)
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.runtime.waves.function import WaveFunction
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.state import WaveState
from tfwave.runtime.waves.step import trace_step

v1 = tf.compat.v1
pytestmark = pytest.mark.tensorflow

CALLS = 20
DECAY, KEPT, LIMIT = 1 / 16, 7 / 8, 1 / 2
KINDS = ("first", "second", "moment", "total", "linear")
"""Of slots, all of which begin as `DECAY`."""

Slots = dict[str, Array]


@dataclass(frozen=True)
class Rule:
    """How one weight is updated: as TensorFlow does it, by nodes that it gives, and as NumPy does.

    TensorFlow's takes the weight, its gradient, what makes a slot, and what is fed: a rate.
    """

    tensorflow: Callable[[Any, Any, Callable[[str], Any], Any], Any]
    numpy: Callable[[Array, Array, Slots], Array]
    penalty: float = 0.0
    """Of the sum of squares of all weights, in the loss."""


def after(*updates: Any) -> Any:
    return tf.control_dependencies([update for update in updates if update is not None])


def descend(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    return weight.assign_sub(RATE * gradient, read_value=False)


def decoupled(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    """As AdamW does: the decay of the weight beside the step."""
    first, second = slot("first"), slot("second")
    moved = [
        first.assign_add((gradient - first) * (1 - KEPT), read_value=False),
        second.assign_add((tf.square(gradient) - second) * (1 - KEPT), read_value=False),
    ]
    with after(*moved):
        decayed = weight.assign_sub(RATE * DECAY * weight, read_value=False)
    with after(decayed):
        return weight.assign_sub(RATE * first / (tf.sqrt(second) + DECAY), read_value=False)


def adamw(weight: Array, gradient: Array, slots: Slots) -> Array:
    slots["first"] = slots["first"] + (gradient - slots["first"]) * (1 - KEPT)
    slots["second"] = slots["second"] + (gradient**2 - slots["second"]) * (1 - KEPT)
    weight = weight - RATE * DECAY * weight
    return weight - RATE * slots["first"] / (np.sqrt(slots["second"]) + DECAY)


def coupled(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    moment = slot("moment")
    with after(moment.assign(KEPT * moment + (gradient + DECAY * weight), read_value=False)):
        return weight.assign_sub(RATE * moment, read_value=False)


def momentum(weight: Array, gradient: Array, slots: Slots) -> Array:
    slots["moment"] = KEPT * slots["moment"] + gradient + DECAY * weight
    return weight - RATE * slots["moment"]


def squared(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    mixed, total = gradient + DECAY * weight, slot("total")
    with after(total.assign_add(tf.square(mixed), read_value=False)):
        return weight.assign_sub(RATE * mixed / (tf.sqrt(total) + DECAY), read_value=False)


def squares(weight: Array, gradient: Array, slots: Slots) -> Array:
    mixed = gradient + DECAY * weight
    slots["total"] = slots["total"] + mixed**2
    return weight - RATE * mixed / (np.sqrt(slots["total"]) + DECAY)


def constants(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    """Squares whose every factor is a constant: no node takes the gradient and a slot."""
    total = slot("total")
    with after(total.assign_add(2 * tf.square(gradient), read_value=False)):
        return weight.assign_sub(RATE * gradient * tf.math.rsqrt(total + DECAY), read_value=False)


def fed(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    total = slot("total")
    with after(total.assign_add(2 * tf.square(gradient), read_value=False)):
        return weight.assign_sub(rate * gradient * tf.math.rsqrt(total + DECAY), read_value=False)


def scaled(weight: Array, gradient: Array, slots: Slots) -> Array:
    slots["total"] = slots["total"] + 2 * gradient**2
    return weight - RATE * gradient / np.sqrt(slots["total"] + DECAY)


def signs(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    """As Lion does."""
    moment = slot("moment")
    step = tf.tanh(KEPT * moment + (1 - KEPT) * gradient)
    with after(weight.assign_sub(RATE * step, read_value=False)):
        return moment.assign_add(DECAY * gradient, read_value=False)


def lion(weight: Array, gradient: Array, slots: Slots) -> Array:
    step = np.tanh(KEPT * slots["moment"] + (1 - KEPT) * gradient)
    slots["moment"] = slots["moment"] + DECAY * gradient
    return weight - RATE * step


def assigned(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    return weight.assign(weight - RATE * gradient, read_value=False)


def proximal(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    step = weight - RATE * gradient
    return weight.assign(tf.sign(step) * tf.nn.relu(tf.abs(step) - RATE * DECAY), read_value=False)


def shrunk(weight: Array, gradient: Array, slots: Slots) -> Array:
    step = weight - RATE * gradient
    return np.sign(step) * np.maximum(np.abs(step) - RATE * DECAY, 0)


def constrained(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    with after(weight.assign_sub(RATE * gradient, read_value=False)):
        return weight.assign(tf.clip_by_value(weight, -LIMIT, LIMIT), read_value=False)


def ftrl_op(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    total, linear = slot("total"), slot("linear")
    return tf.raw_ops.ResourceApplyFtrlV2(
        var=weight.handle,
        accum=total.handle,
        linear=linear.handle,
        grad=gradient,
        lr=tf.constant(RATE, tf.float64),
        l1=tf.constant(RATE, tf.float64),
        l2=tf.constant(DECAY, tf.float64),
        l2_shrinkage=tf.constant(DECAY, tf.float64),
        lr_power=tf.constant(-0.5, tf.float64),
    )


def ftrl_by_hand(weight: Any, gradient: Any, slot: Any, rate: Any) -> Any:
    """As Keras does, with a rate that is no variable."""
    total, linear = slot("total"), slot("linear")
    shrunk = gradient + 2 * DECAY * weight
    more = total + tf.square(gradient)
    moved = linear + shrunk - (tf.sqrt(more) - tf.sqrt(total)) / RATE * weight
    quadratic = tf.sqrt(more) / RATE + 2 * DECAY
    value = (tf.clip_by_value(moved, -RATE, RATE) - moved) / quadratic
    with after(value, moved):
        kept = [linear.assign(moved, read_value=False), total.assign(more, read_value=False)]
    with after(*kept):
        return weight.assign(value, read_value=False)


def ftrl(weight: Array, gradient: Array, slots: Slots) -> Array:
    more = slots["total"] + gradient**2
    moved = (np.sqrt(more) - np.sqrt(slots["total"])) / RATE * weight
    linear = slots["linear"] + gradient + 2 * DECAY * weight - moved
    slots["total"], slots["linear"] = more, linear
    return (np.clip(linear, -RATE, RATE) - linear) / (np.sqrt(more) / RATE + 2 * DECAY)


def gradient_alone(weight: Array, gradient: Array, slots: Slots) -> Array:
    return weight - RATE * gradient


def clipped(weight: Array, gradient: Array, slots: Slots) -> Array:
    return np.clip(weight - RATE * gradient, -LIMIT, LIMIT)


RULES: Mapping[str, Rule] = {
    "penalty in the loss": Rule(descend, gradient_alone, DECAY),
    "penalty, squared": Rule(constants, scaled, DECAY),
    "decoupled decay": Rule(decoupled, adamw),
    "coupled decay": Rule(coupled, momentum),
    "coupled decay, squared": Rule(squared, squares),
    "factors are constants": Rule(constants, scaled),
    "a rate is fed": Rule(fed, scaled),
    "signs": Rule(signs, lion),
    "assigned": Rule(assigned, gradient_alone),
    "proximal": Rule(proximal, shrunk),
    "constrained": Rule(constrained, clipped),
    "ftrl op": Rule(ftrl_op, ftrl),
    "ftrl by hand": Rule(ftrl_by_hand, ftrl),
}


def step_of(rule: Rule) -> Training:
    """The model of `tests.numerics.waves.waves` with a rule for its optimizer."""
    with tf.Graph().as_default() as graph:
        inputs = v1.placeholder(tf.float64, [BATCH, WIDTHS[0]], name="inputs")
        wanted = v1.placeholder(tf.float64, [BATCH, WIDTHS[2]], name="wanted")
        rate = v1.placeholder(tf.float64, [], name="rate")
        w = {n: v1.get_variable(n, initializer=v, use_resource=True) for n, v in first_values().items()}
        hidden = tf.tanh(inputs @ w["w1"] + w["b1"])
        loss = tf.reduce_mean(tf.square(hidden @ w["w2"] + w["b2"] - wanted))
        if rule.penalty:
            loss += rule.penalty * tf.add_n([tf.nn.l2_loss(value) for value in w.values()])
        gradients = tf.gradients(loss, list(w.values()))
        updates = [
            rule.tensorflow(value, gradient, _slots(name, value), rate)
            for (name, value), gradient in zip(w.items(), gradients, strict=True)
        ]
        return closed(graph, [inputs.name, wanted.name, rate.name], [loss], tf.group(*updates))


def _slots(name: str, weight: Any) -> Callable[[str], Any]:
    return lambda kind: v1.get_variable(
        f"{name}_{kind}", initializer=np.full(weight.shape, DECAY), use_resource=True, trainable=False
    )


class Replica:
    """One copy of the model, in NumPy."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.values = first_values()
        self.slots = {n: {kind: np.full(v.shape, DECAY) for kind in KINDS} for n, v in self.values.items()}

    def gradient(self, batch: tuple[Array, Array]) -> Values:
        found = gradient_of(self.values, *batch)
        return {name: value + self.rule.penalty * self.values[name] for name, value in found.items()}

    def update(self, gradients: Values) -> None:
        for name, gradient in gradients.items():
            self.values[name] = self.rule.numpy(self.values[name], gradient, self.slots[name])


@dataclass
class Group:
    """The waves of a training, in NumPy."""

    replicas: Sequence[Replica]
    before: Values | None = None

    def update(self, given: Sequence[tuple[Array, Array]], average: str) -> None:
        """A call: by the mean of its gradients, or by Eq. 1."""
        whole = mean([self.replicas[0].gradient(batch) for batch in given])
        for replica, batch in zip(self.replicas, given, strict=True):
            own = replica.gradient(batch)
            replica.update(whole if average == "batch" else mean([own, self.before or own]))
            self.before = own


def close(found: Values, wanted: Values) -> bool:
    return all(np.allclose(found[name], value, rtol=1e-10, atol=1e-13) for name, value in wanted.items())


@pytest.mark.parametrize(("average", "waves"), [("batch", 3), ("wave", 2)])
@pytest.mark.parametrize("case", RULES)
def test_averaged_is_the_gradient_and_that_alone(case: str, average: Any, waves: int) -> None:
    rule, given = RULES[case], batches(CALLS * waves)
    training, group = step_of(rule), Group([Replica(rule) for _ in range(waves)])
    graph = graph_bytes(check_rewrite(TickTock(waves, average), training.item).item)
    rows = [dict(zip(training.feeds, (*batch, np.array(RATE)), strict=True)) for batch in given]
    calls = [rows[first : first + waves] for first in range(0, len(rows), waves)]
    for call, (states, _) in enumerate(run_waves(training, graph, calls, grappler=False)):
        group.update(given[call * waves : (call + 1) * waves], average)
        for replica, state in zip(group.replicas, states, strict=True):
            assert close(state.variables, replica.values)
            if average == "batch":
                assert same_bits(list(state.variables.values()), list(states[0].variables.values()))


@pytest.mark.parametrize("case", RULES)
def test_so_it_is_in_a_traced_function(case: str) -> None:
    """There handles are fed, and each use of a variable reads it again."""
    rule, given = RULES[case], batches(2 * CALLS)
    weights = {name: tf.Variable(tf.constant(value)) for name, value in first_values().items()}
    slots = {
        name: {kind: tf.Variable(tf.fill(weight.shape, tf.constant(DECAY, tf.float64))) for kind in KINDS}
        for name, weight in weights.items()
    }

    def step(inputs: Any, wanted: Any, rate: Any) -> Any:
        w = weights
        with tf.GradientTape() as tape:
            hidden = tf.tanh(inputs @ w["w1"] + w["b1"])
            loss = tf.reduce_mean(tf.square(hidden @ w["w2"] + w["b2"] - wanted))
            loss += rule.penalty * tf.add_n([tf.nn.l2_loss(value) for value in w.values()])
        gradients: Any = tape.gradient(loss, w)
        for name, weight in w.items():
            rule.tensorflow(weight, gradients[name], slots[name].__getitem__, rate)
        return loss

    shapes = ((BATCH, WIDTHS[0]), (BATCH, WIDTHS[2]), ())
    traced = trace_step(step, tuple([tf.TensorSpec(shape, tf.float64) for shape in shapes]))
    function, group = WaveFunction(traced, WaveOptions(2), WaveState()), Group([Replica(rule), Replica(rule)])
    for first in range(0, len(given), 2):
        function(
            [(*map(tf.constant, batch), tf.constant(RATE, tf.float64)) for batch in given[first : first + 2]]
        )
        group.update(given[first : first + 2], "wave")
        assert close({name: weight.numpy() for name, weight in weights.items()}, group.replicas[0].values)
