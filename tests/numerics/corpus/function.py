"""Samples that are functions: what `tf.function` traces."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from tests.numerics.corpus.sample import Array, make_item, sends_needed, serialise
from tfwave.graph.item import GraphItem

Call = Callable[[], list[Array]]
"""Runs one step and returns its outputs."""


@dataclass(frozen=True)
class FunctionSample:
    """A `Sample` whose graph reads variables from outside, through the inputs `captures`."""

    name: str
    graph: bytes
    feeds: Mapping[str, Array]
    captures: Mapping[str, Any]
    """Input tensor -> the handle of a variable or a table, or a constant."""
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    """The function's control outputs."""
    variables: tuple[Any, ...]
    initial: tuple[Array, ...]
    """The initial value of each variable."""
    traced: Any
    """The concrete function that the graph was taken from."""

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(
            f"/job:localhost/replica:0/task:0{d.name}" for d in tf.config.list_logical_devices("CPU")
        )

    @property
    def handles(self) -> Mapping[str, str]:
        return {n: c.device for n, c in self.captures.items() if c.dtype == tf.resource}

    def item(self, graph: bytes | None = None) -> GraphItem:
        inputs = [*self.feeds, *self.captures]
        item = make_item(self.graph if graph is None else graph, inputs, [*self.fetches, *self.targets], ())
        return replace(item, handles=self.handles)

    def run(self, graph: bytes, *, grappler: bool, steps: int = 2) -> list[Array]:
        with optimized(grappler):
            return self._train(self._import(graph), steps)

    def run_traced(self, *, grappler: bool, steps: int = 2) -> list[Array]:
        """Like `run`, but of the function as TensorFlow traced it: no export, no import."""
        with optimized(grappler):
            return self._train(self._call_traced, steps)

    def partition_graphs(self, graph: bytes, *, grappler: bool = False) -> list[bytes]:
        with optimized(grappler):
            return self._partitions_of(self._import(graph))

    def partition_graphs_traced(self) -> list[bytes]:
        """Like `partition_graphs`, but of the function as TensorFlow traced it; it must not have run before."""
        with optimized(False):
            return self._partitions_of(self._call_traced)

    def _train(self, call: Call, steps: int) -> list[Array]:
        self._reset()
        values = [v for _ in range(steps) for v in call()]
        return [np.asarray(v) for v in (*values, *(variable.numpy() for variable in self.variables))]

    def _reset(self) -> None:
        for variable, value in zip(self.variables, self.initial, strict=True):
            variable.assign(value)

    def _partitions_of(self, call: Call) -> list[bytes]:
        self._reset()
        with _run_metadata() as metadata:
            call()
            functions = metadata().function_graphs
        return serialise(p for f in functions for p in f.partition_graphs)

    def _call_traced(self) -> list[Array]:
        values = self.traced(*map(tf.constant, self.feeds.values()))
        return [value.numpy() for value in tf.nest.flatten(values)]

    def _import(self, graph: bytes) -> Call:
        """A new function out of `graph`, whose nodes keep their names."""
        definition = tf.compat.v1.GraphDef.FromString(graph)
        whole = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(definition, name=""), [])
        find = whole.graph.as_graph_element
        outputs = [find(name) for name in self.fetches]
        sends = sends_needed(graph, (*self.fetches, *self.targets))
        inputs = [find(name) for name in (*self.feeds, *self.captures)]
        function = whole.prune(
            feeds=inputs,
            fetches=[*outputs, *(find(name) for name in (*self.targets, *sends))],
            input_signature=([tf.TensorSpec.from_tensor(tensor) for tensor in inputs], {}),
        )
        arguments = [*map(tf.constant, self.feeds.values()), *self.captures.values()]
        return lambda: [value.numpy() for value in function(*arguments)[: len(outputs)]]


def function_sample(
    name: str, function: Any, feeds: Mapping[str, Array], variables: Sequence[Any]
) -> FunctionSample:
    """Trace a `tf.function` whose parameters are the keys of `feeds`.

    Raises:
        KeyError: it uses a variable that is not among `variables`.
    """
    concrete = function.get_concrete_function(**{k: tf.constant(v) for k, v in feeds.items()})
    graph = concrete.graph
    inputs = [tensor.name for tensor in graph.inputs]
    captures = dict(zip(inputs[len(feeds) :], concrete.captured_inputs, strict=True))
    by_handle = {id(v.handle): v for v in variables}
    used = [by_handle[id(c)] for c in captures.values() if c.dtype == tf.resource]
    return FunctionSample(
        name,
        graph.as_graph_def().SerializeToString(),
        dict(zip(inputs, feeds.values(), strict=False)),
        captures,
        tuple(tensor.name for tensor in graph.outputs),
        tuple(op.name for op in graph.control_outputs),
        tuple(used),
        tuple(variable.numpy() for variable in used),
        concrete,
    )


@contextmanager
def optimized(on: bool) -> Iterator[None]:
    """What is traced inside, is optimized by Grappler or not."""
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not on})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **before})


@contextmanager
def _run_metadata() -> Iterator[Any]:
    context.enable_run_metadata()
    context.export_run_metadata()  # once enabled, TensorFlow has gathered what ran since
    try:
        yield context.export_run_metadata
    finally:
        context.disable_run_metadata()
