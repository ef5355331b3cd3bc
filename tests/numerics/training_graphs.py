"""Small random training steps, as TensorFlow 1 builds them, with all that overlapping steps must keep."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.places import CPUS, Places
from tests.numerics.corpus.sample import Array, make_item, sends_needed
from tfwave.graph.item import GraphItem
from tfwave.rewrite.steps.copies import step_name

v1 = tf.compat.v1
BATCH, IMAGE, CLASSES, WORDS = 4, 6, 5, 11


@dataclass(frozen=True)
class Training:
    """A step of a job: what it is fed, fetches and runs, and all variables that it changes."""

    graph: bytes
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    target: str
    init: str
    variables: tuple[str, ...]

    @property
    def item(self) -> GraphItem:
        kept = [self.init, *(name.partition(":")[0] for name in self.variables)]
        return make_item(self.graph, self.feeds, [*self.fetches, self.target], kept)

    def run(
        self,
        graph: bytes,
        batches: Sequence[Mapping[str, Array]],
        steps: int,
        *,
        target: str,
        grappler: bool,
    ) -> list[Array]:
        """The fetches of all batches, `steps` of them a call, and then all variables; the graph may be cut."""
        if target:
            v1.Session.reset(target)
        with tf.Graph().as_default() as imported:
            tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph), name="")
        got: list[Any] = []
        fetches = [step_name(name, k) for k in range(steps) for name in self.fetches]
        targets = [step_name(self.target, k) for k in range(steps)]
        with v1.Session(target, graph=imported, config=_config(target, grappler)) as session:
            session.run([self.init, *sends_needed(graph, [self.init])])
            for start in range(0, len(batches), steps):
                feeds = {
                    step_name(name, k): value
                    for k in range(steps)
                    for name, value in batches[start + k].items()
                }
                got += session.run([fetches, targets, sends_needed(graph, (*fetches, *targets))], feeds)[0]
            got += session.run([list(self.variables), sends_needed(graph, self.variables)])[0]
            return [np.asarray(value) for value in got]

    def batches(self, count: int, seed: int) -> list[dict[str, Array]]:
        """Other numbers for each step."""
        draw = np.random.default_rng(seed)
        made: dict[str, Callable[[], Array]] = {
            "images": lambda: draw.standard_normal([BATCH, IMAGE, IMAGE, 3]).astype(np.float32),
            "labels": lambda: draw.integers(0, CLASSES, [BATCH]).astype(np.int32),
            "words": lambda: draw.integers(0, WORDS, [BATCH, 2]).astype(np.int32),
        }
        return [{f: made[f.partition(":")[0].partition("_")[0]]() for f in self.feeds} for _ in range(count)]


def _config(target: str, grappler: bool) -> Any:
    config = v1.ConfigProto(device_count={"CPU": CPUS})
    if not target:
        config.inter_op_parallelism_threads = 4
        config.use_per_session_threads = True
    config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
    return config


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": v1.train.GradientDescentOptimizer,
    "momentum": lambda rate: v1.train.MomentumOptimizer(rate, 0.9),
    "nesterov": lambda rate: v1.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "adam": lambda rate: v1.train.AdamOptimizer(rate * 0.3),
}
CLIPS = ("none", "value", "norm", "global")


@dataclass
class _Grower:
    """Builds one step; variables go to the servers in turn."""

    rng: random.Random
    places: Places
    weights: list[Any] = field(default_factory=list)
    updates: list[Any] = field(default_factory=list)
    fetches: list[Any] = field(default_factory=list)

    def variable(self, name: str, initial: Array, *, beside: Any = None, trainable: bool = True) -> Any:
        servers = self.places.servers
        place = (
            tf.device(servers[len(self.weights) % len(servers)])
            if beside is None
            else v1.get_default_graph().colocate_with(beside.handle.op, ignore_existing=True)
        )
        with place:
            made = v1.get_variable(
                name, initializer=initial.astype(np.float32), use_resource=True, trainable=trainable
            )
        self.weights += [made] if trainable else []
        return made

    def he(self, *shape: int) -> Array:
        draw = np.random.default_rng(self.rng.randrange(10**9))
        return draw.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:-1]))

    def convolution(self, number: int, values: Any) -> Any:
        kernel = self.variable(f"kernel{number}", self.he(3, 3, values.shape[-1], 4))
        return tf.nn.conv2d(values, kernel, 1, "SAME")

    def dense(self, number: int, values: Any, width: int) -> Any:
        kernel = self.variable(f"dense{number}", self.he(values.shape[-1], width))
        bias = self.variable(f"bias{number}", np.zeros(width), beside=kernel if number % 2 else None)
        return values @ kernel + bias

    def twice(self, values: Any) -> Any:
        """One variable in two layers, read twice."""
        kernel = self.variable("shared", self.he(values.shape[-1], values.shape[-1]))
        return tf.nn.relu(values @ kernel.read_value()) @ kernel.read_value()

    def normalised(self, number: int, values: Any) -> Any:
        """Batch normalisation, whose moving averages the step updates besides."""
        axes = list(range(len(values.shape) - 1))
        mean, variance = tf.nn.moments(values, axes)
        for name, now in (("mean", mean), ("variance", variance)):
            average = self.variable(f"{name}{number}", np.ones(values.shape[-1]), trainable=False)
            self.updates.append(average.assign_sub((average - now) * 0.1, read_value=False))
        return tf.nn.batch_normalization(values, mean, variance, None, None, 1e-3)

    def noisy(self, values: Any) -> Any:
        """Dropout and noise, from fixed seeds."""
        noise = v1.random_normal(values.shape, stddev=0.1, seed=self.rng.randrange(99))
        return tf.nn.dropout(values + noise, 0.2, seed=self.rng.randrange(99))

    def embedded(self, words: Any, values: Any) -> Any:
        """Rows of a table, whose gradient is sparse."""
        table = self.variable("table", self.he(WORDS, values.shape[-1]))
        return values + tf.reduce_sum(tf.nn.embedding_lookup(table, words), 1)

    def logits(self, images: Any, words: Any) -> Any:
        values = images
        for i in range(self.rng.randint(0, 2)):
            values = self.convolution(i, values)
            values = tf.nn.relu(self.normalised(i, values) if self.rng.random() < 0.5 else values)
        values = tf.reshape(values, [BATCH, -1])
        for i in range(self.rng.randint(1, 3)):
            values = tf.nn.relu(self.dense(i, values, self.rng.choice((6, 8))))
        values = self.noisy(values) if self.rng.random() < 0.5 else values
        values = self.twice(values) if self.rng.random() < 0.5 else values
        values = self.embedded(words, values) if self.rng.random() < 0.5 else values
        return self.dense(9, values, CLASSES)

    def loss(self, logits: Any, labels: Any) -> Any:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        if self.rng.random() < 0.5:
            loss += 1e-2 * tf.add_n([tf.nn.l2_loss(w) for w in self.weights])
        return loss

    def metrics(self, logits: Any, labels: Any) -> None:
        update = v1.metrics.accuracy(labels, tf.argmax(logits, 1), name="accuracy")[1]
        self.fetches.append(update)
        if self.rng.random() < 0.5:
            with tf.control_dependencies([update]):
                self.fetches += [v.read_value() for v in v1.local_variables()]

    def clipped(self, gradients: list[Any], clip: str) -> list[Any]:
        if clip == "global":
            return tf.clip_by_global_norm(gradients, 0.5)[0]
        one = {"none": lambda g: g, "value": _clipped_values, "norm": lambda g: tf.clip_by_norm(g, 0.3)}[clip]
        return [one(g) for g in gradients]


def _clipped_values(gradient: Any) -> Any:
    return tf.clip_by_value(tf.convert_to_tensor(gradient), -0.05, 0.05)


def random_training(seed: int, places: Places, *, towers: int = 1) -> Training:
    """A step with each kind of layer, optimizer, clipping, schedule and metric at times."""
    rng = random.Random(seed)
    optimizer, clip = list(OPTIMIZERS.values())[seed % 4], CLIPS[seed // 4 % 4]
    grower = _Grower(rng, places)
    feeds: list[str] = []
    with tf.Graph().as_default() as graph:
        with v1.variable_scope("", reuse=v1.AUTO_REUSE), tf.device(places.worker):
            step = v1.train.get_or_create_global_step()
            rate = v1.train.exponential_decay(0.08, step, 2, 0.8, staircase=bool(rng.randrange(2)))
            made = [_tower(grower, seed, i, feeds) for i in range(towers)]
            weights = list({w.name: w for w in grower.weights}.values())
            gradients = [tf.gradients(loss, weights) for loss in made]
            summed = gradients[0] if towers == 1 else [tf.add_n(g) for g in zip(*gradients, strict=True)]
            clipped = grower.clipped(summed, clip)
            with tf.control_dependencies(grower.updates):
                train = optimizer(rate).apply_gradients(
                    zip(clipped, weights, strict=True), step, name="train"
                )
        return closed(graph, feeds, [*made, *grower.fetches], train)


def _tower(grower: _Grower, seed: int, number: int, feeds: list[str]) -> Any:
    grower.rng.seed(seed)
    scope = f"_{number}" if number else ""
    images = v1.placeholder(tf.float32, [BATCH, IMAGE, IMAGE, 3], name=f"images{scope}")
    labels = v1.placeholder(tf.int32, [BATCH], name=f"labels{scope}")
    words = v1.placeholder(tf.int32, [BATCH, 2], name=f"words{scope}")
    updates = list(grower.updates)
    logits = grower.logits(images, words)
    if number:
        grower.updates = updates
    else:
        grower.metrics(logits, labels)
    feeds += [images.name, labels.name, words.name]
    return grower.loss(logits, labels)


def closed(graph: Any, feeds: Sequence[str], fetches: Sequence[Any], train: Any) -> Training:
    """With what initialises all variables, and reads them."""
    variables = [*v1.global_variables(), *v1.local_variables()]
    reads: list[Any] = []
    for variable in variables:
        with tf.device(variable.device):
            reads.append(variable.read_value())
    init = tf.group(v1.global_variables_initializer(), v1.local_variables_initializer(), name="init")
    definition = graph.as_graph_def().SerializeToString()
    names = tuple(fetch.name for fetch in fetches)
    target = getattr(train, "op", train).name
    return Training(definition, tuple(feeds), names, target, init.name, tuple(r.name for r in reads))
