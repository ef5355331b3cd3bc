"""Random Session graphs on several devices, and TensorFlow's own cut of them."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tests.numerics.corpus.places import v1
from tfwave.graph.item import GraphItem
from tfwave.graph.names import edge_source
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

LOCAL = ("", "/cpu:0", "/cpu:1", "/cpu:2", "/job:localhost", "/task:0/cpu:2", "/replica:0/device:CPU:1")

Edge = tuple[str, int, str, str, bool]
"""Source node, output port, source device, destination device, is it a control edge?"""


@dataclass
class Case:
    """A graph with what a call feeds and fetches."""

    graph: Any
    feeds: dict[Any, Any]
    fetches: list[Any]

    @property
    def item(self) -> GraphItem:
        graph = GraphDef.FromString(self.graph.as_graph_def().SerializeToString())
        return GraphItem(graph, tuple(t.name for t in self.feeds), tuple(f.name for f in self.fetches))

    def run(self, target: str = "", *, cpus: int = 3, soft: bool = False) -> tuple[list[GraphDef], list[Any]]:
        """TensorFlow's partitions, and the values of the fetches."""
        options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
        if target:
            v1.Session.reset(target)
        with v1.Session(target, graph=self.graph, config=session_config(cpus, soft=soft)) as session:
            values = session.run(self.fetches, self.feeds, options=options, run_metadata=metadata)
        return [GraphDef.FromString(p.SerializeToString()) for p in metadata.partition_graphs], values


def session_config(cpus: int, *, soft: bool = False) -> Any:
    """No optimiser may change the graph."""
    config = v1.ConfigProto(device_count={"CPU": cpus}, allow_soft_placement=soft)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config


@contextmanager
def control_flow(version: int) -> Iterator[None]:
    """Build loops and conditionals as TensorFlow 1 or 2 does."""
    before = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if version == 2 else v1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (v1.enable_control_flow_v2 if before else v1.disable_control_flow_v2)()


def random_case(seed: int, devices: Sequence[str]) -> Case:
    """Ports, control edges, variables of both kinds, colocation, nested loops and conditionals, anywhere."""
    grower = _Grower(random.Random(seed), devices)
    with tf.Graph().as_default() as graph:
        feeds = {tensor: [1.0, 2.0] for tensor in grower.start()}
        for _ in range(grower.rng.randint(4, 25)):
            grower.grow()
        made = grower.tensors[len(feeds) :] or [tf.identity(grower.tensors[0])]
        fetches = list(dict.fromkeys(grower.rng.choices([t.name for t in made], k=3)))
        if grower.ops and grower.rng.random() < 0.3:
            fetches.append(grower.rng.choice(grower.ops).name)
        return Case(graph, feeds, [graph.as_graph_element(name) for name in fetches])


@dataclass
class _Grower:
    rng: random.Random
    devices: Sequence[str]
    tensors: list[Any] = field(default_factory=list)
    ops: list[Any] = field(default_factory=list)

    def start(self) -> list[Any]:
        for i in range(self.rng.randint(1, 3)):
            with self._somewhere():
                self.tensors.append(v1.placeholder(tf.float32, [2], name=f"x{i}"))
        return list(self.tensors)

    def grow(self) -> None:
        make: Callable[[], Any] = self.rng.choice(self._choices())
        waits = self.rng.sample(self.ops, min(len(self.ops), self.rng.choice((0, 0, 0, 1, 2))))
        with self._somewhere(), tf.control_dependencies(waits):
            made = make()
        if isinstance(made, tf.Operation):
            self.ops.append(made)
            return
        self.tensors.append(made)
        if self.rng.random() < 0.3:
            self.ops.append(made.op)

    def _choices(self) -> list[Callable[[], Any]]:
        pick = self._pick
        return [
            tf.no_op,
            lambda: tf.constant([1.0, 2.0]),
            lambda: tf.constant([1.0] * 40)[:2],
            lambda: tf.add(pick(), pick()),
            lambda: tf.add_n([pick(), pick(), pick()]),
            lambda: tf.tanh(pick()),
            lambda: tf.identity(pick()),
            lambda: tf.identity_n([pick(), pick()])[self.rng.randrange(2)],
            lambda: tf.tile(tf.split(pick(), 2)[self.rng.randrange(2)], [2]),
            self._metadata,
            self._ref_variable,
            self._resource_variable,
            self._colocated,
            self._conditional,
            self._loop,
            self._loop,
        ]

    def _pick(self) -> Any:
        return self.rng.choice(self.tensors)

    def _somewhere(self) -> Any:
        return tf.device(self.rng.choice(self.devices))

    def _metadata(self) -> Any:
        op = self.rng.choice((tf.raw_ops.Shape, tf.raw_ops.Size, tf.raw_ops.Rank))
        return tf.cast(op(input=self._pick()), tf.float32) + self._pick()

    def _ref_variable(self) -> Any:
        name = f"v{len(self.tensors)}"
        variable = v1.get_variable(name, [2], initializer=v1.zeros_initializer(), use_resource=False)
        with self._somewhere():
            assigned = v1.assign(variable, self._pick())
        with self._somewhere():
            return tf.identity(assigned)

    def _resource_variable(self) -> Any:
        name = f"r{len(self.tensors)}"
        variable = v1.get_variable(name, [2], initializer=v1.zeros_initializer(), use_resource=True)
        with self._somewhere():
            assigned = variable.assign(self._pick(), read_value=False)
        with self._somewhere(), tf.control_dependencies([assigned]):
            return variable.read_value()

    def _colocated(self) -> Any:
        with v1.colocate_with(self._pick().op, ignore_existing=True):
            return tf.identity(self._pick())

    def _conditional(self) -> Any:
        with self._somewhere():
            predicate = tf.less(tf.reduce_sum(self._pick()), self.rng.choice((-1e9, 1e9)))
        first, second = self._pick(), self._pick()

        def branch(number: float) -> Any:
            with self._somewhere():
                total = tf.add(first, number)
            with self._somewhere():
                return total * second

        return v1.cond(predicate, lambda: branch(1.0), lambda: branch(2.0))

    def _loop(self) -> Any:
        outside, start, nested = self._pick(), self._pick(), self.rng.random() < 0.4

        def body(step: Any, value: Any) -> tuple[Any, Any]:
            with self._somewhere():
                value = value + outside
            if nested:
                with self._somewhere():
                    _, value = v1.while_loop(lambda i, _: i < 2, inner, [0, value])
            with self._somewhere():
                return step + 1, tf.tanh(value)

        def inner(step: Any, value: Any) -> tuple[Any, Any]:
            with self._somewhere():
                value = value * 0.5 + start
            with self._somewhere():
                return step + 1, value

        def condition(step: Any, _: Any) -> Any:
            with self._somewhere():
                return step < 3

        return v1.while_loop(condition, body, [0, start])[1]


def edges(partitions: Iterable[GraphDef]) -> set[Edge]:
    """What crosses devices, feeds and fetches of the client left out."""
    nodes = [node for graph in partitions for node in graph.node]
    sends = {_wire(n): n for n in nodes if n.op in ("_Send", "_HostSend")}
    found: set[Edge] = set()
    for node in nodes:
        if node.op in ("_Recv", "_HostRecv") and not node.attr["client_terminated"].b:
            edge, source, destination = _wire(node)
            sent, _, port = sends[edge, source, destination].input[0].partition(":")
            made = edge_source(edge)
            found.add((made, int(port or 0), source, destination, sent != made))
    return found


def placement(partitions: Iterable[GraphDef]) -> dict[str, str]:
    """The device of each node."""
    return {node.name: node.device for graph in partitions for node in graph.node}


def _wire(node: NodeDef) -> tuple[str, str, str]:
    edge, source, destination = (
        node.attr[key].s.decode() for key in ("tensor_name", "send_device", "recv_device")
    )
    return edge, source, destination
