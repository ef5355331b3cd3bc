"""The ack window on a real cluster, Grappler on: planned and rewritten offline, judged by what TensorFlow did."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plans import plan_by_hand
from tfwave.bundle.bundle import load_bundle
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.demo.network import NamespaceNetwork
from tfwave.demo.processes import Task, Tasks
from tfwave.demo.server_task import MODULE, control_address
from tfwave.graph.item import GraphItem
from tfwave.graph.names import TransferKey
from tfwave.graph.partition.cut import cut
from tfwave.graph.partition.pins import as_function
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.text import parse_pipeline
from tfwave.plan.io import save_plan
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.report.conformance import inversions
from tfwave.runtime.control.client import ControlClient

WHY_NOT = NamespaceNetwork.available()
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no network namespaces, so no slow link: {WHY_NOT}"),
]

BITS_PER_SECOND = 400e6
SECONDS = 60.0
STEPS = 24
TRANSFERS = 48
FOLDED = "folded_by_grappler"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"


@dataclass
class Job:
    """A running job: its worker, the hook of its server, and its graph as TensorFlow wrote it."""

    worker: Task
    hook: ControlClient
    directory: Path

    @property
    def item(self) -> GraphItem:
        """The graph, not cut, with its feeds and fetches."""
        names = json.loads((self.directory / "graph.json").read_text())
        graph = GraphDef.FromString((self.directory / "graph.pb").read_bytes())
        return GraphItem(graph, tuple(names["feeds"]), tuple(names["fetches"]))

    @property
    def handles(self) -> dict[str, str]:
        return json.loads((self.directory / "graph.json").read_text())["handles"]

    def partitions(self) -> tuple[GraphDef, ...]:
        """What TensorFlow made of the function."""
        files = sorted(self.directory.glob("partition*.pb"))
        return tuple(GraphDef.FromString(file.read_bytes()) for file in files)


@contextmanager
def running(kind: str, directory: Path) -> Iterator[Job]:
    network = NamespaceNetwork(("server", "worker"), BITS_PER_SECOND)
    with network, Tasks(network, directory) as tasks:
        server, worker = (network.free_ports(host, 1)[0] for host in network.hosts)
        cluster = {
            "ps": [f"{network.address('server')}:{server}"],
            "worker": [f"{network.address('worker')}:{worker}"],
        }
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
        ps = tasks.start("ps0", "server", MODULE, quiet)
        task = tasks.start("worker0", "worker", "tests.cluster.runtime.ack_task", quiet)
        control = control_address(directory, "ps", 0)
        ps.send({"cluster": cluster, "job": "ps", "task": 0, "enforcer": "hook", "control": control})
        ps.receive(SECONDS)
        task.request({"kind": kind, "cluster": cluster, "out": str(directory)}, SECONDS)
        with ControlClient(control) as hook:
            yield Job(task, hook, directory)


def found_in(partitions: Sequence[GraphDef]) -> tuple[Transfer, ...]:
    """What the worker receives."""
    return find_transfers(GraphView.of(*partitions)).into(WORKER).data


def keys_in(partitions: Sequence[GraphDef]) -> set[TransferKey]:
    return {transfer.key for transfer in found_in(partitions)}


def random_plan(partitions: Sequence[GraphDef]) -> Plan:
    view = GraphView.of(*partitions)
    return make_plan(
        view, find_transfers(view).data, Network(uniform_costs(view)), PlanRequest("random", seed=3)
    )


def passes(window: int) -> str:
    return f"recv_priority,ack_window{{window={window}}}"


def rank_of(plan: Plan) -> dict[tuple[str, int], int]:
    """The rank of each planned output, and of the hold that sends it in a rewritten graph."""
    holds = {(f"{t.key.node}/ack_hold_{t.key.port}", 0): t.rank for t in plan.transfers}
    return holds | {(t.key.node, t.key.port): t.rank for t in plan.transfers}


def is_folded(partitions: Sequence[GraphDef]) -> bool:
    """Whether Grappler was at work: it makes one constant of the product of two."""
    return any(node.name == FOLDED and node.op == "Const" for graph in partitions for node in graph.node)


def inverted(orders: Sequence[Sequence[int]]) -> float:
    """The share of pairs that are out of order, the mean over steps."""
    return statistics.mean(inversions(order) / math.comb(len(order), 2) for order in orders)


def whole(orders: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The steps of which TensorFlow lost no event: nearly all."""
    found = [order for order in orders if sorted(order) == list(range(TRANSFERS))]
    assert len(found) >= 20
    return found


@dataclass(frozen=True)
class SessionRun:
    """Steps of a GraphDef: what came out, in which order the ranks arrived, and what crossed.

    `expected` is what should cross by the cut made offline.
    """

    outputs: list[str]
    orders: list[list[int]]
    sent: set[TransferKey]
    expected: set[TransferKey]
    is_folded: bool


def run_session(job: Job, window: int | None = None) -> SessionRun:
    """Run the job as it is, or rewritten offline."""
    item, plan = job.item, random_plan(cut(job.item))
    if window:
        item = parse_pipeline(passes(window), plan)(item).item
    file, out = job.directory / f"run{window}.pb", job.directory / f"bundle{window}"
    file.write_bytes(item.graph.SerializeToString())
    answer = job.worker.request({"graph": str(file), "bundle": str(out), "steps": STEPS}, SECONDS)
    bundle, ranks = load_bundle(out), rank_of(plan)
    arrived = {t.edge: ranks[t.key.node, t.key.port] for t in found_in(bundle.graphs)}
    return SessionRun(
        answer["outputs"],
        [[arrived[r.edge] for r in step if r.edge in arrived] for step in bundle.records],
        keys_in(bundle.graphs),
        keys_in(cut(item)),
        is_folded(bundle.graphs),
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    with running("session", tmp_path_factory.mktemp("s")) as job:
        yield job


@pytest.fixture(scope="module")
def stock(session: Job) -> SessionRun:
    return run_session(session)


def test_the_offline_plan_names_what_tensorflow_sends(stock: SessionRun) -> None:
    assert stock.is_folded
    assert stock.sent == stock.expected
    assert len(stock.sent) == TRANSFERS
    assert {key.port for key in stock.sent} == {0, 1}
    assert inverted(whole(stock.orders)) > 0.2


@pytest.mark.parametrize(("window", "limit"), [(1, 0.0), (4, 0.03)])
def test_a_session_receives_in_order(session: Job, stock: SessionRun, window: int, limit: float) -> None:
    run = run_session(session, window)
    assert run.is_folded
    assert run.sent == run.expected
    assert all("ack_hold" in key.node for key in run.sent)
    assert inverted(whole(run.orders)) <= limit
    assert run.outputs == stock.outputs


@dataclass(frozen=True)
class FunctionRun:
    """Calls of a live function: what came out, and in which order the server handed the ranks over."""

    outputs: list[str]
    orders: list[list[int]]
    is_folded: bool


def run_function(job: Job, plan: Plan, window: int | None = None) -> FunctionRun:
    """Call the job as it is, or rewritten by `install`; the hook only looks on."""
    file = job.directory / "function.plan"
    save_plan(plan, file)
    request = {"plan": str(file), "passes": passes(window)} if window else {"plan": None, "passes": ""}
    job.worker.request(request | {"steps": 1}, SECONDS)
    ranks = rank_of(plan)
    sent = sorted(found_in(job.partitions()), key=lambda t: ranks[t.key.node, t.key.port])
    job.hook.install(plan_by_hand({sent[0].channel: [t.edge for t in sent]}), enabled=False)
    answer = job.worker.request(request | {"steps": STEPS}, SECONDS)
    steps: dict[int, list[int]] = defaultdict(list)
    for hand_off in job.hook.hand_offs().hand_offs:
        steps[hand_off.step].append(hand_off.rank)
    return FunctionRun(answer["outputs"], list(steps.values()), is_folded(job.partitions()))


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    with running("function", tmp_path_factory.mktemp("f")) as job:
        yield job


def test_a_function_receives_in_order(function: Job) -> None:
    plan = random_plan(cut(as_function(function.item, function.handles)))
    stock = run_function(function, plan)
    assert keys_in(function.partitions()) == {t.key for t in plan.transfers}
    assert [len(order) for order in stock.orders] == [TRANSFERS] * STEPS
    assert inverted(stock.orders) > 0.2

    run = run_function(function, plan, window=1)
    assert stock.is_folded
    assert run.is_folded
    assert run.orders == [list(range(TRANSFERS))] * STEPS
    assert run.outputs == stock.outputs
