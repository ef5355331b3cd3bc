"""Several steps in one function: the same arithmetic, and no waits but those for a variable."""

from itertools import permutations
from typing import Any

import keras
import numpy as np
import pytest
from networkx import ancestors

from tests.rewrites import edges
from tfwave.errors import GraphError
from tfwave.runtime.unroll import unrolled

pytestmark = pytest.mark.tensorflow


def nothing(_: Any) -> None:
    """Nobody wants to know of traces."""


def test_what_steps_return_is_stacked(tf: Any) -> None:
    counter = tf.Variable(0.0)

    def step(x: Any, *, scale: float) -> Any:
        value = counter.assign_add(scale * x)
        return {"value": value, "nothing": None, "pair": (value, tf.stack([value, value]))}

    found = unrolled(step, 3, nothing)(tf.constant(2.0), scale=1.0)
    assert found["value"].numpy().tolist() == [2, 4, 6]
    assert found["nothing"] is None
    assert found["pair"][1].shape == (3, 2)
    assert counter.numpy() == 6


def test_ragged_and_sparse_results_are_stacked_as_such(tf: Any) -> None:
    def step(lengths: Any) -> Any:
        length = next(lengths)
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(length), [length - 1, 1])
        return {"ragged": ragged, "sparse": ragged.to_sparse()}

    found = unrolled(step, 2, nothing)(iter(tf.data.Dataset.range(2, 4)))
    assert found["ragged"].to_list() == [[[0], [1]], [[0, 1], [2]]]
    assert tf.sparse.to_dense(found["sparse"]).numpy().tolist() == [[[0, 0], [1, 0]], [[0, 1], [2, 0]]]


def test_each_step_draws_its_batch(tf: Any) -> None:
    batches = iter(tf.data.Dataset.range(10))
    found = unrolled(next, 4, nothing)(batches)
    assert found.numpy().tolist() == [0, 1, 2, 3]


def test_python_control_flow_is_converted(tf: Any) -> None:
    def step(x: Any) -> Any:
        if x > 0:
            x = -x
        return x

    assert unrolled(step, 2, nothing)(tf.constant(5)).numpy().tolist() == [-5, -5]


class Owner:
    def __init__(self, tf: Any) -> None:
        self.total = tf.Variable(1.0)
        self.step = tf.function(self.double)

    def double(self) -> Any:
        return self.total.assign(self.total * 2)


def test_a_traced_step_is_called_as_the_function_that_it_is_made_of(tf: Any) -> None:
    owner = Owner(tf)
    function = unrolled(owner.step, 3, nothing)
    assert function().numpy().tolist() == [2, 4, 8]
    ops = {operation.type for operation in function.get_concrete_function().graph.get_operations()}
    assert not ops & {"StatefulPartitionedCall", "PartitionedCall", "While", "StatelessWhile"}


def converts(tf: Any) -> bool:
    """Does AutoGraph convert what calls this?"""
    return tf.__internal__.autograph.control_status_ctx().status.name == "ENABLED"


@pytest.mark.parametrize("autograph", [True, False])
def test_a_step_keeps_its_signature_and_whether_autograph_converts_it(tf: Any, autograph: bool) -> None:
    """Batches of any length have one trace, and other numbers become those of the signature."""
    traces: list[tuple[Any, bool]] = []

    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([])], autograph=autograph)
    def step(x: Any, scale: Any) -> Any:
        traces.append((x.dtype, converts(tf)))
        return scale * tf.reduce_sum(x)

    function = unrolled(step, 2, nothing)
    for count in (3, 2):
        found = function(np.ones(count), scale=0.5)
        assert found.numpy().tolist() == [count / 2, count / 2]
    assert traces == [(tf.float32, autograph)] * 2


def test_traces_are_told_and_named(tf: Any) -> None:
    graphs: list[Any] = []

    def train(x: Any) -> Any:
        return x

    function = unrolled(train, 2, graphs.append)
    function(tf.constant(1)), function(tf.constant(1)), function(tf.constant(1.0))
    assert len(graphs) == 2
    concrete = function.get_concrete_function(tf.constant(1))
    assert concrete.graph is graphs[0]
    assert concrete.name.decode().startswith("__inference_train_2_")


def training(tf: Any, count: int, steps: int) -> tuple[list[float], list[bytes]]:
    random = np.random.RandomState(3)
    shapes = ((8, 32), (32, 32), (32, 4))
    variables = [tf.Variable((random.randn(*s) * (2 / s[0]) ** 0.5).astype("f")) for s in shapes]
    momenta = [tf.Variable(tf.zeros_like(v)) for v in variables]
    inputs = tf.data.Dataset.from_tensor_slices(random.randn(64, 8).astype("f")).batch(8).repeat()

    def step(drawn: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = next(drawn)
            for variable in variables:
                hidden = tf.nn.relu(hidden @ variable)
            loss = tf.reduce_mean((hidden - 1) ** 2)
        for gradient, variable, momentum in zip(
            tape.gradient(loss, variables), variables, momenta, strict=True
        ):
            momentum.assign(0.9 * momentum + gradient)
            variable.assign_sub(0.05 * momentum)
        return loss

    function, drawn = unrolled(step, count, nothing), iter(inputs)
    losses = [float(loss) for _ in range(steps // count) for loss in function(drawn)]
    return losses, [v.numpy().tobytes() for v in (*variables, *momenta)]


def test_keras_gradients_go_one_by_one_under_a_strategy(tf: Any) -> None:
    """Keras 3 passes all of them through one IdentityN there; no update waits for that of another variable."""
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.1)
        variables = [keras.Variable(np.full(3, value, "f")) for value in (1, 2)]
        optimizer.build(variables)

    def on_replica() -> None:
        with tf.GradientTape() as tape:
            losses = [tf.reduce_sum(v.value**2) for v in variables]
        optimizer.apply(tape.gradient(losses, [v.value for v in variables]), variables)

    function = unrolled(lambda: strategy.run(on_replica), 2, nothing)
    function()
    assert [v.numpy().tolist() for v in variables] == [pytest.approx([0.64] * 3), pytest.approx([1.28] * 3)]
    graph = function.get_concrete_function().graph
    assert any(operation.type == "IdentityN" for operation in graph.get_operations())
    found = edges(graph.as_graph_def())
    handles = [next(i.op.name for o, i in graph.captures if o is v.value.handle) for v in variables]
    for own, other in permutations(handles):
        updates = [node for node in found.successors(own) if node.rpartition("/")[2].startswith("Assign")]
        assert len(updates) == 2
        assert all(other not in ancestors(found, update) for update in updates)


def test_the_bits_are_those_of_one_step_after_the_other(tf: Any) -> None:
    one, four = training(tf, 1, 24), training(tf, 4, 24)
    assert four == one
    assert len(set(one[0])) == 24


def test_sums_of_many_terms_have_the_bits_of_single_steps(tf: Any) -> None:
    """The gradient of what a step reads three times: TensorFlow's optimizer sorts the terms by their names."""

    def trained(count: int) -> list[bytes]:
        random = np.random.RandomState(3)
        weight = tf.Variable(random.randn(33, 33).astype("f") * 0.3)
        drawn = iter(tf.data.Dataset.from_tensor_slices(random.randn(4, 17, 33).astype("f")))

        def step() -> Any:
            values = hidden = next(drawn)
            with tf.GradientTape() as tape:
                for _ in range(3):
                    hidden = tf.tanh(hidden @ weight + values)
                loss = tf.reduce_mean(hidden**2)
            weight.assign_sub(0.5 * tape.gradient(loss, weight))
            return weight

        function = unrolled(step, count, nothing)
        return [weight.tobytes() for _ in range(4 // count) for weight in function().numpy()]

    assert trained(4) == trained(1)


@pytest.mark.parametrize("called", [False, True])
def test_steps_that_would_draw_alike_are_refused(tf: Any, called: bool) -> None:
    def draw() -> Any:
        return tf.random.uniform([2], seed=5)

    inner = tf.function(draw)

    def calling() -> Any:
        return inner()

    step = calling if called else draw
    message = r"'random_uniform/RandomUniform' .* would draw the same numbers in all steps"
    with pytest.raises(GraphError, match=message):
        unrolled(step, 3, nothing)()
    assert unrolled(step, 1, nothing)().shape == (1, 2)


def test_steps_draw_for_themselves(tf: Any) -> None:
    tf.random.set_seed(7)
    drawn = unrolled(lambda: tf.random.uniform([2]), 3, nothing)().numpy()
    assert len({row.tobytes() for row in drawn}) == 3


def test_a_generator_goes_on_from_step_to_step(tf: Any) -> None:
    one, many = (tf.random.Generator.from_seed(3) for _ in range(2))
    drawn = unrolled(lambda: many.uniform([2]), 3, nothing)().numpy()
    assert drawn.tolist() == [one.uniform([2]).numpy().tolist() for _ in range(3)]
