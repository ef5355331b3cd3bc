"""A step by a burst plan is one device's step, and runs where the plan says."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context  # pyright: ignore

from tests.full import each
from tests.numerics.distribute.bursts import (
    BATCH,
    DEVICES,
    MODELS,
    Place,
    batch_of,
    gradients,
    made,
    places,
    plan_of,
    vgg,
)
from tfwave.errors import PlanError, TfwaveError
from tfwave.keras import burst
from tfwave.keras.bursts.planned import PlannedDevices
from tfwave.keras.bursts.walk import running
from tfwave.plan.io import save_plan
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tools.bench.bursts.burst import both, convolutions, ops_of

pytestmark = pytest.mark.tensorflow
L = keras.layers


@pytest.fixture(autouse=True)
def seeded() -> None:
    keras.utils.set_random_seed(7)


def values_of(variables: Any) -> list[Any]:
    return [variable.numpy() for variable in variables]


def furthest(found: Any, wanted: Any) -> float:
    """The largest distance, over each tensor's largest number."""
    apart = [
        float(np.max(np.abs(one - other))) / (float(np.max(np.abs(other))) or 1.0)
        for one, other in zip(found, wanted, strict=True)
    ]
    return max(apart, default=0.0)


def stepped(name: str, plan: Callable[[Any], Plan | None], samples: int = BATCH) -> tuple[float, Any, Any]:
    """Loss, gradients, and the variables that a step changes by itself.

    Layers get the same names each time: Grappler sorts the terms of sums by name, and another order is another
    rounding.
    """
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    model = made(name)
    step, batch = gradients(model, plan(model), samples)
    loss, found = step(*batch)
    return float(loss), values_of(found), values_of(model.non_trainable_variables)


@pytest.mark.parametrize("name", each(MODELS, ("words", "attention")))
def test_on_one_device_a_step_is_the_same_to_the_bit(name: str) -> None:
    """On several: tests/cluster/keras/test_burst.py."""
    loss, wanted, state = stepped(name, lambda model: None)
    found_loss, found, found_state = stepped(name, lambda model: plan_of(places(model, "one")))
    assert found_loss == loss
    assert all(np.array_equal(*pair) for pair in zip(found + found_state, wanted + state, strict=True))


@pytest.mark.skipif(
    tuple(map(int, keras.__version__.split(".")[:2])) < (3, 14),
    reason="Keras has sums itself: tests/cluster/keras/test_burst.py",
)
def test_losses_of_activities_are_added_where_keras_has_sums_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before 3.14."""

    class L2(keras.regularizers.L2):
        def __call__(self, values: Any) -> Any:
            return super().__call__(values) * values.shape[0]  # by which Keras divides it

    monkeypatch.setattr(keras.regularizers, "L2", L2)
    monkeypatch.setattr(keras, "__version__", "3.13.2")
    loss, wanted, _ = stepped("two_sided", lambda model: None)
    found_loss, found, _ = stepped("two_sided", lambda model: plan_of(places(model, "all")))
    assert found_loss == pytest.approx(loss, rel=1e-6)
    assert furthest(found, wanted) < 1e-5


def test_calls_are_known_by_a_context_of_keras_3_5(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but attributes, of which later ones are asked by a method, too."""
    model = made("vgg")
    monkeypatch.setattr(type(model), "_get_call_context", lambda _: SimpleNamespace(training=True))
    with running(model, PlannedDevices(plan_of(places(model, "one")), None)) as walk:
        tf.function(partial(model.call, training=True))(batch_of(model)[0])
    assert walk.has_begun


class Centring(L.Layer):
    """Reads what it has just assigned: a mean that is not trained, and a weight."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=shape[1:], initializer="zeros", trainable=False, name="mean")
        self.scale = self.add_weight(shape=shape[1:], initializer="ones", name="scale")

    def call(self, values: Any) -> Any:
        self.mean.assign((self.mean + tf.reduce_mean(values, 0)) / 2)
        self.scale.assign(self.scale / tf.norm(self.scale))
        return (values - self.mean) * self.scale


def test_what_a_layer_assigns_has_a_variables_gradient() -> None:
    def step(by_plan: bool) -> Any:
        keras.backend.clear_session()
        keras.utils.set_random_seed(7)
        spectral = L.SpectralNormalization(L.Dense(4))
        model = keras.Sequential([keras.Input((6,)), L.Dense(5), Centring(), spectral, L.Dense(3)])
        asked, batch = gradients(model, plan_of(places(model, "one")) if by_plan else None)
        return values_of(asked(*batch)[1]), values_of(model.variables)

    (found, found_values), (wanted, values) = step(True), step(False)
    assert all(np.array_equal(*pair) for pair in zip(found + found_values, wanted + values, strict=True))


@pytest.mark.parametrize("kind", ["one", "turns"])
def test_a_layer_may_read_another_ones_weights(kind: str) -> None:
    keras.utils.set_random_seed(7)
    words, given = L.Embedding(9, 4), keras.Input((5,), dtype="int32")
    made = L.Lambda(lambda values: tf.matmul(values, words.embeddings.value, transpose_b=True))(words(given))
    model = keras.Model(given, L.Dense(3)(L.GlobalAveragePooling1D()(made)))
    step, batch = gradients(model, None)
    by_plan, _ = gradients(model, plan_of(places(model, kind)))
    assert furthest(values_of(by_plan(*batch)[1]), values_of(step(*batch)[1])) < 1e-6


def test_a_tensor_may_be_several_outputs() -> None:
    given = keras.Input((4,))
    made = L.Dense(3, name="dense")(given)
    model = keras.Model(given, {"a": made, "b": made, "c": L.ReLU(name="other")(made)})
    inputs, _ = batch_of(model)
    plan = plan_of(dict.fromkeys(places(model, "one"), (1, 2)))

    def step() -> Any:
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in outputs.values()])
        return outputs, tape.gradient(loss, [one.value for one in model.trainable_variables])

    outputs, wanted = tf.function(step)()
    with burst(model, plan):
        found_outputs, found = tf.function(step)()
    assert list(found_outputs) == ["a", "b", "c"]
    assert furthest(found_outputs.values(), outputs.values()) < 1e-6
    assert furthest(found, wanted) < 1e-5


def test_a_smaller_batch_is_split_likewise() -> None:
    """Also one with less samples than a layer has devices."""
    for samples in (5, 2):
        loss, wanted, state = stepped("vgg", lambda model: None, samples)
        found_loss, found, found_state = stepped("vgg", lambda model: plan_of(places(model, "all")), samples)
        assert found_loss == pytest.approx(loss, rel=1e-6)
        assert furthest(found, wanted) < 1e-5
        assert furthest(found_state, state) < 1e-5


def ran_by_device(name: str, chosen: Callable[[Any], Mapping[str, Place]]) -> dict[int, Counter[str]]:
    """How often ops ran, by the number of the device, as TensorFlow cut the graph."""
    model = made(name)
    step, batch = gradients(model, plan_of(chosen(model)))
    live: Any = context.context()
    live.enable_run_metadata()
    try:
        live.export_run_metadata()  # what ran before
        step(*batch)
        metadata = live.export_run_metadata()
    finally:
        live.disable_run_metadata()
    found = {device: Counter[str]() for device in range(DEVICES)}
    for graph in [graph for one in metadata.function_graphs for graph in one.partition_graphs]:
        for node in graph.node:
            found[int(node.device.rpartition(":")[2])][node.op.replace("_MklNative", "")] += 1
    return found


def counted(ops: Counter[str], *kinds: str) -> int:
    return sum(count for op, count in ops.items() if any(kind in op for kind in kinds))


def test_forward_and_backward_run_where_the_plan_says() -> None:
    def chosen(model: Any) -> dict[str, Place]:
        return {name: (1, 2) if "conv" in name else (0, 1) for name in places(model, "one")}

    ran = ran_by_device("vgg", chosen)
    for device in (1, 2):
        assert counted(ran[device], "Conv2DBackpropFilter") == 2
        assert counted(ran[device], "Conv2DBackpropInput") == 1, "of the second"
        assert counted(ran[device], "Conv2D") == 5
        assert counted(ran[device], "MatMul", "Relu", "Pool", "Random", "Rsqrt") == 0
    assert counted(ran[0], "Conv2D") == 0
    assert counted(ran[0], "MatMul") >= 5
    assert counted(ran[0], "ReluGrad") >= 3
    assert counted(ran[0], "MaxPoolGrad") == 1


def test_the_first_device_has_weights_and_loss_only() -> None:
    """Each weight is read once, and what branches give back is summed where they part."""
    ran = ran_by_device("inception", lambda model: dict.fromkeys(places(model, "one"), (2, 1)))
    weights = len(made("inception").trainable_variables)
    assert counted(ran[0], "ReadVariableOp") <= weights + 1, "and the state of a seed"
    assert counted(ran[0], "Conv", "Pool", "MatMul", "AddN", "Relu", "Random", "Bias") == 0
    assert counted(ran[2], "AddN") >= 1
    assert counted(ran[1], "Conv", "Pool", "MatMul", "AddN", "Relu", "Random") == 0


def test_gradients_of_split_weights_are_summed_where_these_lie() -> None:
    with tf.device("/device:CPU:1"):
        model = keras.Sequential([keras.Input((4,)), L.Dense(3, name="dense")])
    plan = plan_of(dict.fromkeys(places(model, "one"), (0, 3)))
    step, batch = gradients(model, plan)
    graph = step.get_concrete_function(*batch).graph
    sums = [node.device for node in graph.get_operations() if node.type == "AddN" and len(node.inputs) == 3]
    assert len(sums) == 2
    assert all(device.endswith("CPU:1") for device in sums)


def test_shards_are_no_more_ops_than_data_parallelism_by_hand() -> None:
    """At most a twentieth more, those that send and receive among them; and the same gradients."""
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    steps = both(convolutions(2, 8), devices, 2 * DEVICES)
    ops = {kind: ops_of(step) for kind, step in steps.items()}
    assert ops["plan"] <= 1.05 * ops["by hand"]
    by_hand, planned = (values_of(steps[kind]()[1]) for kind in ("by hand", "plan"))
    assert furthest(planned, by_hand) < 1e-5


def test_without_training_a_model_runs_as_it_is() -> None:
    model = made("vgg")
    inputs, _ = batch_of(model)
    with burst(model, plan_of(places(model, "all"))):
        inferred = tf.function(lambda: model(inputs, training=False)).get_concrete_function()
        trained = tf.function(lambda: model(inputs, training=True)).get_concrete_function()
    after = tf.function(lambda: model(inputs, training=True)).get_concrete_function()

    def used(function: Any) -> set[str]:
        return {op.device for op in function.graph.get_operations() if "Conv2D" in op.type}

    assert used(inferred) == used(after) == {""}
    assert len(used(trained)) == DEVICES


class Mixing(L.Layer):
    def call(self, values: Any) -> Any:
        return tf.reduce_mean(values, 0)


class Folding(L.Layer):
    def call(self, values: Any) -> Any:
        return tf.reshape(values, (-1, 2))

    def compute_output_shape(self, shape: Any) -> Any:
        return (None, 2)


class Counting(L.Layer):
    def build(self, shape: Any) -> None:
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def call(self, values: Any) -> Any:
        self.seen.assign(self.seen + tf.reduce_sum(values))
        return values


class Losing(L.Layer):
    def call(self, values: Any) -> Any:
        self.add_loss(tf.reduce_max(values))
        return values


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Mixing, "layer 'odd' gives a tensor of the shape .6,., whose first axis is not the batch"),
        (Folding, "layer 'odd' gives a tensor of the shape .12, 2. for 4 samples"),
        (Counting, "layer 'odd' changes .*seen"),
        (partial(L.GaussianNoise, 0.1), "layer 'odd' changes .*seed_generator_state"),
        (Losing, "layer 'odd' adds a loss"),
    ],
)
def test_what_cannot_be_split_is_refused_by_name(kind: Any, said: str) -> None:
    """On one device it runs."""
    given = keras.Input((6,))
    model = keras.Model(given, kind(name="odd")(L.Dense(6, name="dense")(given)))

    def step(place: Place) -> Any:
        plan = plan_of(dict.fromkeys(places(model, "one"), (0, 2)) | {"odd": place})

        def asked() -> Any:
            with burst(model, plan):
                return model(batch_of(model)[0], training=True)

        return tf.function(asked, autograph=False)()

    with pytest.raises(TfwaveError, match=said + ".*give it one in the plan"):
        step((0, 2))
    assert np.isfinite(step((1, 1))).all()


def test_a_tensor_without_a_batch_moves_between_single_devices_only() -> None:
    given = keras.Input((4,), name="given")
    added = given + Mixing(name="odd")(given)
    model = keras.Model(given, L.ReLU(name="last")(added))
    plan = plan_of(dict.fromkeys(places(model, "one"), (0, 2)) | {"odd": (1, 1)})

    def asked() -> Any:
        with burst(model, plan):
            return model(batch_of(model)[0], training=True)

    with pytest.raises(
        TfwaveError, match=r"layer 'odd' gives a tensor of the shape \(4,\), whose first axis"
    ):
        tf.function(asked, autograph=False)()


def test_a_layer_with_a_state_for_each_sample_is_refused() -> None:
    model = keras.Sequential([keras.Input((3, 2), batch_size=BATCH), L.GRU(2, stateful=True, name="state")])
    plan = plan_of(dict.fromkeys(places(model, "one"), (0, 2)))
    with (
        pytest.raises(TfwaveError, match=r"layer 'state' keeps a state .* stateful=False"),
        burst(model, plan),
    ):
        pass


def test_a_plan_of_another_model_is_refused(tmp_path: Path) -> None:
    model, chosen = vgg(), places(vgg(), "all")
    with (
        pytest.raises(PlanError, match=r"no devices for the layers .*conv2d.*another model"),
        burst(model, plan_of(chosen)),
    ):
        pass
    mine = places(model, "all")
    more = tmp_path / "plan.json"
    save_plan(plan_of(mine | {"other": (0, 1)}), more)
    with pytest.raises(PlanError, match=r"layers that .* does not have, other"), burst(model, more):
        pass
    other = Plan(placement=Placement(servers=1, variables={"kernel": 0}))
    with pytest.raises(PlanError, match=r"no devices for layers: .*tfwave burst plan"), burst(model, other):
        pass


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (["CPU:0", "CPU:1"], r"for 3 devices, and there are 2: .*--devices 2"),
        (["CPU:0", "CPU:1", "CPU:7"], "there is no device 'CPU:7'"),
        (["CPU:0", "CPU:1", "/job:worker/task:0/device:CPU:1"], "there is no device '/job:worker"),
        (["CPU:0", "CPU:1", "/device:CPU:1"], "given twice"),
    ],
)
def test_other_devices_are_refused(devices: list[str], said: str) -> None:
    model = vgg()
    plan = plan_of(places(model, "all"))
    with pytest.raises(TfwaveError, match=said), burst(model, plan, devices):
        pass


def test_a_larger_batch_than_planned_is_refused() -> None:
    model = made("vgg")
    step, batch = gradients(model, plan_of(places(model, "all"), batch=6))
    with pytest.raises(PlanError, match=r"for a batch of 6, and this one has 8 .*--batch 8"):
        step(*batch)
