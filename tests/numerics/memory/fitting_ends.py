"""Fitted steps that end between the copies out and the copies back, and those behind them; prints what came out.

python -m tests.numerics.memory.fitting_ends
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tfwave.colocate import limit_memory

limit_memory("256MiB")

import tensorflow as tf  # noqa: E402
from tensorflow.python.eager.cancellation import CancellationManager, CancellationManagerContext  # noqa: E402

from tfwave import fit_memory  # noqa: E402
from tfwave.capture.session import capture_run  # noqa: E402
from tfwave.graph.item import GraphItem  # noqa: E402
from tfwave.offload.captured import captured_step  # noqa: E402
from tfwave.offload.fit import Policy  # noqa: E402
from tfwave.offload.question import Question  # noqa: E402
from tfwave.passes.text import parse_pipeline  # noqa: E402
from tfwave.proto.tensorflow_pb2 import GraphDef  # noqa: E402
from tfwave.runtime.stash import stash_figures  # noqa: E402

v1 = tf.compat.v1
WIDTH, LAYERS, ROWS, LIMIT, SHARE = 256, 6, 2048, "36MiB", 0.9
STEPS = 3
DEADLINE = 60.0
CLOSING = 10.0
"""TensorFlow's own close cancels the step and then waits for it: so the step can only give it time to begin."""


class Middle:
    """An op between the forward and the backward pass, which does as it is told once tensors are in the stash."""

    def __init__(self) -> None:
        self._act: Callable[[], object] | None = None
        self.held: list[int] = []

    def during(self, act: Callable[[], object], run: Callable[[], object]) -> str:
        """The error with which a step ends when this happens in its middle; no error leaves it empty."""
        self._act = act
        try:
            run()
        except tf.errors.OpError as error:
            return type(error).__name__
        finally:
            self._act = None
        return ""

    def through(self, hidden: tf.Tensor) -> tf.Tensor:
        """What all gradients follow from: a step that ends here has updated nothing."""
        with tf.control_dependencies([tf.numpy_function(self._called, [tf.reduce_sum(hidden)], tf.float32)]):
            return tf.identity(hidden)

    def _called(self, number: np.ndarray) -> np.ndarray:
        act = self._act
        if act is not None:
            give_up = time.monotonic() + DEADLINE
            while not stash_figures().tensors and time.monotonic() < give_up:
                time.sleep(0.01)
            self.held.append(stash_figures().tensors)
            act()
        return number


MIDDLE = Middle()


def left() -> list[int]:
    figures = stash_figures()
    return [figures.tensors, figures.held_bytes]


def fail() -> None:
    raise RuntimeError("between")


def loss_of(weights: list[Any], batch: tf.Tensor) -> tf.Tensor:
    hidden = batch
    for weight in weights:
        hidden = tf.nn.gelu(hidden @ weight) + hidden
    hidden = MIDDLE.through(hidden)
    return tf.reduce_mean(hidden * hidden)


def first_weights() -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [generator.standard_normal((WIDTH, WIDTH), np.float32) * 0.05 for _ in range(LAYERS)]


def the_batch() -> tf.Tensor:
    return tf.random.stateless_normal([ROWS, WIDTH], seed=[1, 2])


class Function:
    """A step as a `tf.function`, with its weights."""

    def __init__(self) -> None:
        self.weights = [tf.Variable(first) for first in first_weights()]
        self.batch = the_batch()
        self.step = tf.function(self._step)

    def _step(self, batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(self.weights, batch)
        for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    def trained(self, call: Callable[[tf.Tensor], tf.Tensor]) -> list[str]:
        return [float(call(self.batch)).hex() for _ in range(STEPS)]


def in_function() -> dict[str, Any]:
    plain, job = Function(), Function()
    fitted = fit_memory(job.step, LIMIT)
    losses, ends = job.trained(fitted), dict[str, Any]()
    for name, act in (("raises", fail), ("cancelled", None)):
        manager, before = CancellationManager(), [weight.numpy() for weight in job.weights]
        with CancellationManagerContext(manager):
            said = MIDDLE.during(act or manager.start_cancel, lambda: fitted(job.batch))
        ends[name] = said, left()
        if name == "cancelled":  # only what waits is: gradients that need no fetch may have been applied
            for weight, value in zip(job.weights, before, strict=True):
                weight.assign(value)
        losses += job.trained(fitted)
    expected = [loss for _ in range(1 + len(ends)) for loss in plain.trained(plain.step)]
    (plan,) = fitted.plans.values()
    return {
        "ends": ends,
        "same": losses == expected,
        "different": len(set(losses)),
        "away": len(plan.memory.away("offload")) if plan.memory else 0,
    }


def training_graph() -> tf.Graph:
    with tf.Graph().as_default() as graph:
        weights = [v1.Variable(first, use_resource=True) for first in first_weights()]
        loss = tf.identity(loss_of(weights, the_batch()), name="loss")
        v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, name="train")
        tf.group(v1.global_variables_initializer(), name="init")
    return graph


def session_of(graph: tf.Graph) -> Any:
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = v1.Session(graph=graph, config=config)
    session.run("init")
    return session


def trained(session: Any) -> list[str]:
    return [float(session.run(["loss:0", "train"])[0]).hex() for _ in range(STEPS)]


def fitted_graph(plain: tf.Graph, out: Path) -> tf.Graph:
    """With all offloaded that can be."""
    with session_of(plain) as session:
        captured = captured_step(capture_run(session, ["loss:0", "train"], out=out, steps=2, warmup=1))
    plan = Question(captured, None, round(captured.found.peak * SHARE), Policy.DYMEM).plan()
    item = GraphItem(GraphDef.FromString(plain.as_graph_def().SerializeToString()))
    rewritten = parse_pipeline("fit_memory", plan)(item).item.graph
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(rewritten.SerializeToString()), name="")
    return graph


def closed_in_its_middle(session: Any) -> str:
    """How the step ends that a session makes while another thread closes it."""
    is_between = threading.Event()

    def close() -> None:
        if is_between.wait(DEADLINE):
            session.close()

    closing = threading.Thread(target=close)
    closing.start()

    def wait() -> None:
        is_between.set()
        closing.join(CLOSING)

    said = MIDDLE.during(wait, lambda: session.run(["loss:0", "train"]))
    closing.join(DEADLINE)
    return said


def in_session(out: Path) -> dict[str, Any]:
    plain = training_graph()
    fitted = fitted_graph(plain, out)
    with session_of(plain) as session:
        expected = [*trained(session), *trained(session)]
    session = session_of(fitted)
    losses = trained(session)
    ends = {"raises": (MIDDLE.during(fail, lambda: session.run(["loss:0", "train"])), left())}
    losses += trained(session)
    ends["closed"] = closed_in_its_middle(session), left()
    with session_of(fitted) as another:
        again = trained(another)
    return {
        "ends": ends,
        "same": losses == expected and again == expected[:STEPS],
        "different": len(set(losses)),
    }


def main() -> None:
    with TemporaryDirectory() as out:
        found = {"function": in_function(), "session": in_session(Path(out, "bundle"))}
    json.dump(found | {"held": MIDDLE.held, "left": left()}, sys.stdout)


if __name__ == "__main__":
    main()
