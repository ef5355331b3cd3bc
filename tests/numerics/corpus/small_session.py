"""Small graphs of sessions, each for one thing that a graph can hold."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.lstm import control_flow_v1
from tests.numerics.corpus.places import Places
from tests.numerics.corpus.session import SessionSample, session_sample

v1 = tf.compat.v1
VALUES = np.linspace(-1, 1, 8, dtype=np.float32)


@dataclass(frozen=True)
class _Parts:
    """What all of them have: eight values that are fed to the worker, a variable on the first server."""

    name: str
    places: Places
    graph: Any
    values: Any
    state: Any

    @classmethod
    def of(cls, name: str, places: Places) -> "_Parts":
        graph = tf.Graph()
        with graph.as_default():
            with tf.device(places.worker):
                values = v1.placeholder(tf.float32, VALUES.shape, name="values")
            with tf.device(places.servers[0]):
                state = v1.Variable(np.ones(8, np.float32), name="state", use_resource=True)
        return cls(name, places, graph, values, state)

    def finish(self, fetches: list[Any], updates: list[Any]) -> SessionSample:
        """The sample, whose steps fetch `fetches` and run `updates`."""
        return session_sample(
            self.name,
            self.places,
            self.graph,
            feeds={self.values: VALUES},
            fetches=fetches,
            targets=[getattr(update, "op", update) for update in updates],
            variables=[self.state],
        )


def build_ports(name: str, places: Places) -> SessionSample:
    """Nodes of several outputs, of which other devices read some, one twice, and none."""
    parts = _Parts.of(name, places)
    graph, values, state = parts.graph, parts.values, parts.state
    with graph.as_default():
        with tf.device(places.servers[0]):
            left, middle, right, _ = tf.split(values + state.read_value(), 4)
            largest, where = tf.math.top_k(values * state.read_value(), 3)
        with tf.device(places.servers[1]):
            distinct, places_of, counts = tf.unique_with_counts(tf.cast(middle * 4, tf.int32))
        with tf.device(places.worker):
            sizes = tf.cast(counts, tf.float32) * tf.cast(distinct + 1, tf.float32)
            terms = [left, tf.square(left), right, largest, tf.cast(where, tf.float32), sizes]
            loss = tf.add_n([tf.reduce_sum(term) for term in terms]) * 0.01
        update = state.assign_add(values * loss)
    return parts.finish([loss, places_of], [update])


def build_branches(name: str, places: Places) -> SessionSample:
    """Switch and Merge nodes: branches on other devices than the predicate; the steps take both."""
    parts = _Parts.of(name, places)
    graph, values, state = parts.graph, parts.values, parts.state
    with graph.as_default(), control_flow_v1(), tf.device(places.worker):
        now = state.read_value()

        def grow():
            with tf.device(places.servers[1]):
                return tf.exp(values) + now

        loss = tf.reduce_sum(v1.cond(tf.reduce_sum(now) > 8.5, lambda: tf.sin(now), grow))
        update = state.assign(tf.fill([8], loss))
    return parts.finish([loss], [update])


def build_control_edges(name: str, places: Places) -> SessionSample:
    """What orders updates and reads of a variable is control edges alone, across devices and through NoOps."""
    parts = _Parts.of(name, places)
    graph, values, state = parts.graph, parts.values, parts.state
    with graph.as_default():
        with tf.device(places.servers[0]):
            before = state.read_value()
            with tf.control_dependencies([before]):
                grown = state.assign_add(values, read_value=False)
        with tf.device(places.worker), tf.control_dependencies([grown]):
            barrier = tf.no_op("barrier")
        with tf.device(places.servers[1]), tf.control_dependencies([barrier]):
            scale = tf.constant(0.5) * tf.reduce_sum(values + 1)
        with tf.device(places.servers[0]), tf.control_dependencies([barrier, scale]):
            after = state.read_value()
            with tf.control_dependencies([after]):
                halved = state.assign(tf.identity(after) * 0.5, read_value=False)
        with tf.device(places.worker), tf.control_dependencies([scale]):
            loss = tf.reduce_sum(after * scale - before)
    return parts.finish([loss], [halved])


def build_strings(name: str, places: Places) -> SessionSample:
    """Strings that cross devices, ragged splits, and a table."""
    parts = _Parts.of(name, places)
    graph, values, state = parts.graph, parts.values, parts.state
    with graph.as_default():
        with tf.device(places.servers[0]):
            words = tf.strings.as_string(state.read_value(), precision=3)
            keys, numbers = tf.constant(["a", "b", "c"]), tf.constant([1, 2, 3], tf.int64)
            table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, numbers), 9)
            found = table.lookup(tf.constant(["b", "none"]))
        with tf.device(places.servers[1]):
            line = tf.strings.reduce_join(words, separator="|")
        with tf.device(places.worker):
            lengths = tf.strings.length(tf.strings.split([line], "|").values)
            loss = tf.reduce_sum(tf.strings.to_number(words)) + tf.cast(tf.reduce_sum(lengths), tf.float32)
            loss += tf.cast(tf.reduce_sum(found), tf.float32)
        update = state.assign_add(values * 0.1 * loss)
    return parts.finish([loss, line, words], [update])


def build_calls(name: str, places: Places) -> SessionSample:
    """Functions that call functions, and a While and an If node, in a session's graph."""
    parts = _Parts.of(name, places)
    graph, values, state = parts.graph, parts.values, parts.state

    @tf.function(autograph=False)
    def inner(x):
        with tf.device(places.servers[1]):
            return tf.sin(x) * 3.0, tf.reduce_max(x)

    @tf.function(autograph=False)
    def outer(x):
        scaled, top = inner(x * 0.5)
        return inner(scaled + top)[0]

    with graph.as_default(), tf.device(places.worker):
        now = outer(state.read_value())
        _, now = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, outer(x)), [0, now])
        loss = tf.reduce_sum(tf.cond(now[0] > 0.0, lambda: now - values, lambda: now + values))
        update = state.assign_add(values * loss * 0.02)
    return parts.finish([loss], [update])
