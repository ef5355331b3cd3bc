"""Samples that run in a session: the graphs of TensorFlow 1."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.places import CPUS, Places
from tests.numerics.corpus.sample import Array, make_item, sends_needed, serialise
from tfwave.graph.item import GraphItem

v1 = tf.compat.v1


@dataclass(frozen=True)
class SessionSample:
    """A `Sample` whose graph holds its variables and the node that initialises them."""

    name: str
    graph: bytes
    feeds: Mapping[str, Array]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    init: str
    """The node that gives all variables and tables their initial values."""
    variables: tuple[str, ...]
    """The tensors that read the variables."""
    devices: tuple[str, ...]
    target: str

    @property
    def handles(self) -> Mapping[str, str]:
        return {}

    def item(self, graph: bytes | None = None) -> GraphItem:
        kept = [self.init, *(name.partition(":")[0] for name in self.variables)]
        fetched = [*self.fetches, *self.targets]
        return make_item(self.graph if graph is None else graph, list(self.feeds), fetched, kept)

    def run(self, graph: bytes, *, grappler: bool, steps: int = 2) -> list[Array]:
        sends = sends_needed(graph, (*self.fetches, *self.targets))
        reads = sends_needed(graph, self.variables)
        with self._session(graph, grappler) as session:
            values = [v for _ in range(steps) for v in self._step(session, sends)]
            return [np.asarray(v) for v in (*values, *session.run([list(self.variables), reads])[0])]

    def partition_graphs(self, graph: bytes, *, grappler: bool = False) -> list[bytes]:
        metadata = v1.RunMetadata()
        with self._session(graph, grappler) as session:
            options = v1.RunOptions(output_partition_graphs=True)
            self._step(session, (), options=options, run_metadata=metadata)
        return serialise(metadata.partition_graphs)

    def _step(self, session: Any, sends: Sequence[str], **options: Any) -> Sequence[Any]:
        return session.run([list(self.fetches), [*self.targets, *sends]], dict(self.feeds), **options)[0]

    @contextmanager
    def _session(self, graph: bytes, grappler: bool) -> Iterator[Any]:
        if self.target:
            v1.Session.reset(self.target)
        with tf.Graph().as_default() as imported:
            tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(graph), name="")
        with v1.Session(self.target, graph=imported, config=_config(grappler)) as session:
            session.run([self.init, *sends_needed(graph, [self.init])])
            yield session


def _config(grappler: bool) -> Any:
    config = v1.ConfigProto(device_count={"CPU": CPUS})
    config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
    if not grappler:
        config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config


def session_sample(
    name: str,
    places: Places,
    graph: Any,
    *,
    feeds: Mapping[Any, Array],
    fetches: Sequence[Any],
    targets: Sequence[Any],
    variables: Sequence[Any],
) -> SessionSample:
    """Close a graph: add the node that initialises, and the reads of the variables, on their devices."""
    with graph.as_default():
        reads = []
        for variable in variables:
            with tf.device(variable.device):
                reads.append(variable.read_value())
        initializers = [v.initializer for v in variables]
        init = tf.group(*initializers, v1.tables_initializer(), name="init")
    return SessionSample(
        name,
        graph.as_graph_def().SerializeToString(),
        {tensor.name: value for tensor, value in feeds.items()},
        tuple(tensor.name for tensor in fetches),
        tuple(op.name for op in targets),
        init.name,
        tuple(read.name for read in reads),
        _devices(graph, places),
        places.target,
    )


def _devices(graph: Any, places: Places) -> tuple[str, ...]:
    default = tf.DeviceSpec.from_string("/replica:0/task:0/device:CPU:0")
    home = "" if places.target else "/job:localhost"
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    used = {node.device for node in nodes if node.device} | {places.worker}
    specs = [tf.DeviceSpec.from_string(home + name) for name in used]
    return tuple(sorted({default.make_merged_spec(s).to_string() for s in specs}))
