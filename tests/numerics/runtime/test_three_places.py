"""The same passes in three places, Grappler on: offline on a GraphDef, on live objects, inside Grappler."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from grappler_passes.ack_window import AckWindow
from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.recv_priority import RecvPriority
from tests.numerics.corpus import places
from tests.numerics.corpus.function import function_sample
from tests.plans import plan_by_hand
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import EnforcerError
from tfwave.graph.item import GraphItem
from tfwave.graph.names import Channel
from tfwave.graph.partition.cut import cut
from tfwave.graph.reach import upstream_of
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass, Transform
from tfwave.passes.pipeline import Pipeline
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.live.grappler import in_grappler
from tfwave.runtime.live.install import install

pytestmark = pytest.mark.tensorflow

v1 = tf.compat.v1
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
WEIGHTS = 5
STEPS = 3
HOLD, GATE = "/ack_hold_0", "/ack_gate_0"
FOLDED = "folded_by_grappler"


@dataclass(frozen=True)
class Run:
    """What a job computed, bit by bit, and the graphs that TensorFlow ran for its step."""

    values: tuple[bytes, ...]
    view: GraphView

    @classmethod
    def of(cls, values: Iterable[Any], partitions: Iterable[Any]) -> "Run":
        graphs = [GraphDef.FromString(graph.SerializeToString()) for graph in partitions]
        return cls(tuple(np.asarray(value).tobytes() for value in values), GraphView.of(*graphs))


def forward(x: Any, weights: Iterable[Any]) -> Any:
    """Grappler makes one constant of a product, and takes the aliases of the weights out."""
    h = x * tf.multiply(tf.constant(0.75), 2.0, name=FOLDED)
    for w in weights:
        with tf.device(w.device):
            alias = tf.identity(w, "alias")
        h = tf.tanh(h @ alias)
    return tf.reduce_mean((h * x - 1.0) ** 2, name="loss")


def initial(i: int) -> Any:
    return tf.fill((8, 8), 0.1 * (i + 1))


class SessionJob:
    """A training step on a worker; its variables are on a server, a task of its own."""

    def __init__(self, *, use_resource: bool = True) -> None:
        home = places.cluster()
        self._target = home.target
        self.target = tf.Graph()
        with self.target.as_default():
            with tf.device(home.servers[0]):
                weights = [
                    v1.get_variable(f"w{i}", initializer=initial(i), use_resource=use_resource)
                    for i in range(WEIGHTS)
                ]
                rate = v1.get_variable("rate", initializer=0.5, use_resource=use_resource)
                self._init = v1.global_variables_initializer().name
                self._reads = [tf.identity(w.read_value(), "final").name for w in weights]
            with tf.device(home.worker):
                x = v1.placeholder(tf.float32, X.shape, name="x")
                loss = forward(x, weights)
                gradients = [rate * gradient for gradient in tf.gradients(loss, weights)]
            updates = [w.assign_sub(g) for w, g in zip(weights, gradients, strict=True)]
            tf.group(*updates, name="train")

    def plan(self, view: GraphView) -> Plan:
        """Of the graphs of a step."""
        return make_plan(
            view, find_transfers(view).data, Network(uniform_costs(view)), PlanRequest("reverse")
        )

    def run(self) -> Run:
        """Initialise, train, evaluate and read the variables, in a new session."""
        return self._run(self.target)

    def run_offline(self, passes: Transform) -> Run:
        rewritten = passes(self.item()).item.graph.SerializeToString()
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(v1.GraphDef.FromString(rewritten), name="")
        return self._run(graph)

    def _run(self, graph: Any) -> Run:
        metadata = v1.RunMetadata()
        options = v1.RunOptions(output_partition_graphs=True)
        v1.Session.reset(self._target)
        with v1.Session(self._target, graph=graph) as session:
            session.run(self._init)
            losses = [
                session.run(["loss:0", "train"], {"x:0": X}, options, metadata)[0] for _ in range(STEPS)
            ]
            values = [*losses, session.run("loss:0", {"x:0": X}), *session.run(self._reads)]
        return Run.of(values, metadata.partition_graphs)

    def item(self) -> GraphItem:
        """The graph as TensorFlow wrote it."""
        graph = GraphDef.FromString(self.target.as_graph_def().SerializeToString())
        kept = frozenset([self._init, *(name.removesuffix(":0") for name in self._reads)])
        return GraphItem(graph, ("x:0",), ("loss:0", "train"), kept)


class FunctionJob:
    """A training step in a `tf.function`; its variables are on another device than its compute."""

    def __init__(self) -> None:
        with tf.device("CPU:1"):
            self._variables = [*(tf.Variable(initial(i)) for i in range(WEIGHTS)), tf.Variable(0.5)]
        self.target = self._new_function()

    def _new_function(self) -> Any:
        return tf.function(self._step, autograph=False)

    def _step(self, x: Any) -> Any:
        *weights, rate = self._variables
        with tf.device("CPU:0"):
            with tf.GradientTape() as tape:
                loss = forward(x, weights)
            gradients = [rate * gradient for gradient in tape.gradient(loss, weights)]
        for w, gradient in zip(weights, gradients, strict=True):
            w.assign_sub(gradient)
        return loss

    def plan(self, view: GraphView) -> Plan:
        """By hand: a plan is about transfers between tasks, and these are within one."""
        reads = sorted(n for n, op in zip(view.names, view.ops, strict=True) if op == "ReadVariableOp")
        server, worker = (f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in (1, 0))
        return plan_by_hand({Channel(server, worker): reads})

    def run(self) -> Run:
        """Train from the start; the step must be new to TensorFlow, which tells its graphs only then."""
        for i, w in enumerate(self._variables[:-1]):
            w.assign(initial(i))
        context.enable_run_metadata()
        try:
            context.export_run_metadata()  # what ran before
            losses = [self.target(tf.constant(X)).numpy()]
            metadata = context.export_run_metadata()
        finally:
            context.disable_run_metadata()
        losses += [self.target(tf.constant(X)).numpy() for _ in range(STEPS - 1)]
        return Run.of([*losses, *(v.numpy() for v in self._variables)], metadata.partition_graphs)

    def run_offline(self, passes: Transform) -> Run:
        sample = function_sample("step", self._new_function(), {"x": X}, self._variables)
        rewritten = passes(sample.item()).item.graph.SerializeToString()
        partitions = sample.partition_graphs(rewritten, grappler=True)
        values = sample.run(rewritten, grappler=True, steps=STEPS)
        return Run.of(values, map(GraphDef.FromString, partitions))


Job = SessionJob | FunctionJob


def offline(job: Job, passes: Transform) -> Run:
    return job.run_offline(passes)


def live(job: Job, passes: Transform) -> Run:
    with install(job.target, passes):
        return job.run()


def grappler(job: Job, passes: Transform) -> Run:
    with in_grappler(passes) as outcomes:
        run = job.run()
    changed = {outcome.fetches for outcome in outcomes if outcome.edits}
    assert not [o for o in outcomes if o.fetches in changed and o.error]  # it was called twice
    return run


each_job = pytest.mark.parametrize(
    "make",
    [SessionJob, partial(SessionJob, use_resource=False), FunctionJob],
    ids=["session", "reference_variables", "function"],
)
each_place = pytest.mark.parametrize("place", [offline, live, grappler])


def ack(plan: Plan) -> Pipeline:
    return Pipeline((RecvPriority(plan), AckWindow(window=1)))


def is_folded(view: GraphView) -> bool:
    """Whether Grappler was at work."""
    return [op for name, op in zip(view.names, view.ops, strict=True) if name == FOLDED] == ["Const"]


def acknowledgements(view: GraphView) -> dict[str, list[str]]:
    """For each transfer that is held: those whose arrival its hold waits for, through whatever lies between."""
    found: dict[str, list[str]] = {}
    for hold, name in enumerate(view.names):
        if not name.endswith(HOLD):
            continue
        arrivals = found.setdefault(name.removesuffix(HOLD), [])
        waits = list(view.fanins[hold][view.data_fanins[hold] :])
        for node in waits:
            if view.names[node].endswith(GATE):
                arrivals.append(view.names[node].removesuffix(GATE))
            else:
                waits += view.fanins[node]
    return found


def passages(view: GraphView) -> dict[str, tuple[str, str]]:
    """For each gate of a transfer: the hold whose tensor it gets, and the channel between the two."""
    found: dict[str, tuple[str, str]] = {}
    for gate, name in enumerate(view.names):
        if name.endswith(GATE):
            hold = view.fanins[gate][0]
            while view.ops[hold] in ("_Recv", "_Send"):
                hold = view.fanins[hold][0]
            channel = Channel(view.nodes[hold].device, view.nodes[gate].device)
            found[name.removesuffix(GATE)] = view.names[hold], str(channel)
    return found


@each_place
@each_job
def test_transfers_are_acknowledged_in_the_planned_order(
    make: Callable[[], Job], place: Callable[[Job, Transform], Run]
) -> None:
    plain, job = make().run(), make()
    assert len(set(plain.values[:STEPS])) == STEPS
    plan = job.plan(plain.view)
    (order,) = plan.orders
    names = [transfer.key.node for transfer in order.transfers]
    assert len(names) > WEIGHTS

    run = place(job, ack(plan))
    assert run.values == plain.values
    assert is_folded(plain.view)
    assert is_folded(run.view)
    before: list[list[str]] = [[], *([name] for name in names)]
    assert acknowledgements(run.view) == dict(zip(names, before, strict=False))
    assert passages(run.view) == {name: (name + HOLD, str(order.channel)) for name in names}


@each_place
@each_job
def test_barriers_stand_between_the_groups(
    make: Callable[[], Job], place: Callable[[Job, Transform], Run]
) -> None:
    plain, job = make().run(), make()
    names = tuple(transfer.key.node for transfer in job.plan(plain.view).transfers)
    groups = names[:3], names[3:]
    run = place(job, CounterBarrier(groups))
    assert run.values == plain.values
    assert waits_for_all_before(run.view, groups) == [True] * len(groups)
    assert not any(waits_for_all_before(plain.view, groups)[1:])


def waits_for_all_before(view: GraphView, groups: Iterable[tuple[str, ...]]) -> list[bool]:
    """Of each group: does each of its nodes wait for each node of the groups before?"""
    index = {name: i for i, name in enumerate(view.names)}
    before: set[int] = set()
    found: list[bool] = []
    for group in groups:
        members = [index[name] for name in group]
        found.append(all(before <= upstream_of(view, [node]) for node in members))
        before |= set(members)
    return found


@pytest.mark.parametrize("place", [live, grappler])
@each_job
def test_after_the_block_the_plain_graph_runs(
    make: Callable[[], Job], place: Callable[[Job, Transform], Run]
) -> None:
    job = make()
    inside = place(job, ack(job.plan(make().run().view)))
    after = (make() if place is grappler else job).run()
    assert acknowledgements(inside.view)
    assert acknowledgements(after.view) == {}
    assert after.values == inside.values


def test_graphs_without_the_planned_transfers_pass_through_grappler() -> None:
    job = SessionJob()
    plan = job.plan(job.run().view)
    with in_grappler(ack(plan)) as outcomes:
        job.run()
    step, *others = sorted(outcomes, key=lambda outcome: -outcome.edits)
    assert step.fetches == ("loss:0", "train")
    assert not step.error
    assert not any(outcome.edits for outcome in others)
    refused = {outcome.fetches for outcome in others if outcome.error}
    finals = ("final:0", *(f"final_{i}:0" for i in range(1, WEIGHTS)))
    assert refused == {("init",), ("loss:0",), finals}


def test_a_plan_of_a_graph_that_grappler_changed_before_is_reported() -> None:
    plain, job = SessionJob().run(), SessionJob()
    plan = job.plan(GraphView.of(*cut(job.item())))
    refused = pytest.raises(
        EnforcerError, match=r"on the graph of loss:0, train, .* orders the transfer alias"
    )
    with refused, in_grappler(ack(plan)):
        run = job.run()
    assert run.values == plain.values
    assert acknowledgements(run.view) == {}


@dataclass(frozen=True)
class Faulty(GraphPass):
    """Divides by zero on graphs that update nothing."""

    def run(self, graph: GraphRewriter) -> None:
        graph.add_node("test_wait", "NoOp", [f"^{name}" for name in graph.view.names if name == "x"])
        _ = 1 / graph.view.ops.count("AssignSubVariableOp")


def test_a_fault_is_reported_though_other_graphs_were_changed() -> None:
    plain, job = SessionJob().run(), SessionJob()
    reported = pytest.raises(
        EnforcerError, match=r"faulty failed inside Grappler, on the graph of init,.*division"
    )
    with reported, in_grappler(Faulty()) as outcomes:
        run = job.run()
    assert run.values == plain.values
    assert any(outcome.edits for outcome in outcomes)
