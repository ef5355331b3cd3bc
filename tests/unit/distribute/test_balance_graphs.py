"""What servers have to do, read from graphs; and `tfwave balance`."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bundles import SERVER, small_bundle
from tests.graphs import SERVERS, WORKER, Builder, random_job
from tests.unit.balanced import traced
from tests.unit.conftest import Command
from tfwave.balance.holdings import Holdings
from tfwave.balance.load import ServerLoad, server_load
from tfwave.balance.variable import Variable
from tfwave.balance.variables import variables_of
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.bundle.costs import bundle_costs
from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import CostError, GraphError
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.io import load_plan
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef, NodeDef, StepStats


def slow_pushes(view: GraphView, transfers: Sequence[Transfer]) -> Costs:
    """1000 bytes/s; a push, whose size the graph does not tell, takes 1 s; ops take no time."""
    sized = Holdings(view, "ps").sized(transfers)
    seconds = {t.recv: t.bytes / 1000 if t.bytes else 1.0 for t in sized}
    return Costs.of(view, dict.fromkeys(range(len(view)), 0.0), seconds, CostSource("file", "file"))


class Training(Builder):
    """A worker that pulls variables one after the other and pushes gradients of their sizes."""

    def variable(self, server: str, name: str, elements: int) -> str:
        node = self._node(server, name, "VarHandleOp", [])
        node.attr["dtype"].type = DT_FLOAT
        node.attr["shape"].shape.dim.add(size=elements)
        return name

    def read(self, server: str, name: str) -> str:
        node = self._node(server, f"{name}/Read", "ReadVariableOp", [name])
        node.attr["dtype"].type = DT_FLOAT
        return node.name

    def apply(self, server: str, inputs: list[str]) -> NodeDef:
        return self._node(server, f"{inputs[0]}/Apply", "ResourceApplyMomentum", inputs)

    def trained(self, server: str, name: str, elements: int, before: str) -> str:
        """The op of the worker that needs it after `before`; the slot stands beside the variable."""
        self.variable(server, name, elements)
        self.variable(server, f"{name}/Momentum", elements)
        pulled = self.pair(self.read(server, name), server, WORKER)
        used = self.op(WORKER, f"{name}/use", [before, pulled])
        grad = self.op(WORKER, f"{name}/grad", [used])
        self.apply(server, [name, f"{name}/Momentum", self.pair(grad, WORKER, server)])
        return used


def training() -> tuple[GraphDef, ...]:
    """In turn: both kernels are on server 0, both biases on server 1."""
    build = Training()
    used = build.const(WORKER, "x")
    for i, (name, elements) in enumerate([("k0", 1000), ("b0", 10), ("k1", 1000), ("b1", 10)]):
        used = build.trained(SERVERS[i % 2], name, elements, used)
    return tuple(build.partitions.values())


def view_of(graphs: tuple[GraphDef, ...]) -> tuple[GraphView, Any]:
    view = GraphView.of(*graphs)
    return view, find_transfers(view).data


def test_the_load_of_each_server() -> None:
    view, transfers = view_of(training())
    assert server_load(view, transfers, slow_pushes(view, transfers)) == (
        ServerLoad("/job:ps/replica:0/task:0", 4, 8000, 0, 8.0, 2.0, 0.0, 1.0),
        ServerLoad("/job:ps/replica:0/task:1", 4, 80, 0, 0.08, 2.0, 0.0, 2.08 / 10),
    )


def test_variables_with_their_slots_in_the_order_of_need() -> None:
    view, transfers = view_of(training())
    found = variables_of(view, transfers, slow_pushes(view, transfers))
    needs = {v.name: v.need for v in found}
    assert sorted(needs, key=lambda name: needs[name]) == ["k0", "b0", "k1", "b1"]
    assert found[2] == Variable("k0", 4000, needs["k0"], 8000, 5.0, 0, ("k0/Momentum",))
    assert [(v.name, v.bytes, v.server) for v in found] == [
        ("b0", 40, 1),
        ("b1", 40, 1),
        ("k0", 4000, 0),
        ("k1", 4000, 0),
    ]


def test_a_value_made_of_several_variables_counts_in_parts() -> None:
    build = Training()
    for name in ("a", "b"):
        build.variable(SERVERS[0], name, 10)
    total = build.op(SERVERS[0], "sum", [build.read(SERVERS[0], "a"), build.read(SERVERS[0], "b")])
    build.op(WORKER, "use", [build.pair(total, SERVERS[0], WORKER)])
    view, (transfer,) = view_of(tuple(build.partitions.values()))
    sized = transfer.__class__(transfer.key, transfer.node, transfer.edge, transfer.recv, 25)
    found = variables_of(view, [sized], uniform_costs(view))
    assert [(v.name, v.bytes, v.wire_seconds) for v in found] == [("a", 13, 0.5), ("b", 12, 0.5)]
    assert variables_of(view, [transfer])[0].bytes == 0  # no whole variable is read


def test_a_variable_says_beside_which_it_stays() -> None:
    build = Training()
    build.variable(SERVERS[0], "a", 10)
    build.variable(SERVERS[0], "a/slot", 5)
    build.partitions[SERVERS[0]].node[-1].attr["_class"].list.s.append(b"loc:@a")
    build.op(WORKER, "use", [build.pair(build.read(SERVERS[0], "a"), SERVERS[0], WORKER)])
    (found,) = variables_of(*view_of(tuple(build.partitions.values())))
    assert (found.name, found.followers, found.bytes, found.resident_bytes) == ("a", ("a/slot",), 40, 60)


def test_transfers_between_servers_count_for_both() -> None:
    build = Training()
    build.variable(SERVERS[0], "rate", 1)
    build.variable(SERVERS[1], "w", 10)
    build.variable(SERVERS[1], "m", 10)
    rate = build.pair(build.read(SERVERS[0], "rate"), SERVERS[0], SERVERS[1])
    build.apply(SERVERS[1], ["w", "m", rate])
    view, transfers = view_of(tuple(build.partitions.values()))
    assert [(s.pulled_bytes, s.pushed_bytes) for s in server_load(view, transfers)] == [(4, 0), (0, 4)]
    assert [(v.name, v.bytes) for v in variables_of(view, transfers)] == [("rate", 4), ("w", 0)]


@pytest.mark.parametrize("seed", range(20))
def test_how_nodes_are_numbered_makes_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    job = random_job(rng)
    other = job.renumbered(rng)
    assert server_load(*job.view(), job.costs) == server_load(*other.view(), other.costs)


def test_costs_of_another_view_are_refused() -> None:
    build = Training()
    build.variable(SERVERS[0], "w", 1)
    build.variable(SERVERS[0], "v", 1)
    graphs = tuple(build.partitions.values())
    view, transfers = view_of(graphs)
    for ask in (server_load, variables_of):
        ask(view, transfers, uniform_costs(view_of(graphs)[0]))
        with pytest.raises(CostError, match="the costs are of another graph"):
            ask(view, transfers, uniform_costs(GraphView.of(GraphDef(node=graphs[0].node[::-1]))))


def test_renumbered_training() -> None:
    graphs = training()
    shuffled = tuple(GraphDef(node=random.Random(1).sample(list(g.node), len(g.node))) for g in graphs)
    assert variables_of(*view_of(shuffled[::-1])) == variables_of(*view_of(graphs))
    assert server_load(*view_of(shuffled[::-1])) == server_load(*view_of(graphs))


def test_a_bundle_tells_bytes_and_seconds() -> None:
    bundle = small_bundle()
    (load,) = server_load(bundle.view, bundle.transfers.data, bundle_costs(bundle))
    assert (load.server, load.pulled_bytes, load.pushed_bytes) == (
        SERVER.removesuffix("/device:CPU:0"),
        3_000_100,
        50_000,
    )
    assert load.pull_seconds == pytest.approx(0.0303, rel=0.1)
    assert load.op_seconds == pytest.approx(100e-6)


def test_a_worker_alone_holds_no_variables(graph: Path, tfwave: Command) -> None:
    view = GraphView.of(GraphDef.FromString(graph.read_bytes()))
    with pytest.raises(GraphError, match="no variable is on a server"):
        variables_of(view, find_transfers(view).data)
    ran = tfwave("balance", graph)
    assert ran.code == 2
    assert "no variable is on a server (a task of the job 'ps')" in ran.err


@pytest.fixture
def job_bundle(tmp_path: Path) -> Path:
    """`training`, traced."""
    elements = {"k0": 1000, "b0": 10, "k1": 1000, "b1": 10}
    sizes = {f"{name}/{end}": 4 * count for name, count in elements.items() for end in ("Read", "grad")}
    save_bundle(traced(training(), sizes), tmp_path / "job")
    return tmp_path / "job"


def test_the_command_shows_predicts_and_writes(tfwave: Command, job_bundle: Path, tmp_path: Path) -> None:
    ran = tfwave("balance", job_bundle, "-o", tmp_path / "p.json")
    assert ran.code == 0, ran.err
    shown = " ".join(ran.out.split())
    for text in (
        "ps:0",
        "16.00 ms",
        "proposed",
        "50% less",
        "1.00 x the least possible",
        "written to",
    ):
        assert text in shown
    placement = load_plan(tmp_path / "p.json").placement
    assert placement is not None
    assert (placement.servers, placement.bytes, placement.bound_bytes) == (2, (8080, 8080), 8080)
    assert placement.variables["k0"] != placement.variables["k1"]
    assert placement.variables["k0"] == placement.variables["k0/Momentum"]


def test_the_command_prints_json(tfwave: Command, job_bundle: Path) -> None:
    document = json.loads(tfwave("balance", job_bundle, "--json").out)
    assert [s["pulled_bytes"] for s in document["now"]] == [8000, 80]
    assert document["predicted"]["bytes"] == [8080, 8080]
    assert document["predicted"]["bytes_now"] == [16000, 160]
    assert document["predicted"]["gain"] == pytest.approx(0.495, abs=0.01)
    assert document["transfers_of_unknown_size"] == 0
    more = json.loads(tfwave("balance", job_bundle, "--json", "--servers", 4).out)
    assert sorted(more["predicted"]["bytes"]) == [80, 80, 8000, 8000]


def test_the_command_says_where_nothing_is_to_gain(tfwave: Command, job_bundle: Path) -> None:
    shown = " ".join(tfwave("balance", job_bundle, "--servers", 4).out.split())
    assert "'k1' alone is more than an equal part: split it" in shown
    shown = " ".join(tfwave("balance", job_bundle, "--servers", 1).out.split())
    assert "predicted: busiest server at 1.00 x" in shown


def test_a_plan_prices_the_lost_read_of_a_variable_by_its_bytes(
    tfwave: Command, job_bundle: Path, tmp_path: Path
) -> None:
    whole = load_bundle(job_bundle)
    (step,) = whole.steps
    lossy = StepStats()
    for device in step.dev_stats:
        found = lossy.dev_stats.add(device=device.device)
        found.node_stats.extend(e for e in device.node_stats if "k1/Read from" not in e.timeline_label)
    save_bundle(replace(whole, steps=(lossy,)), tmp_path / "lossy")
    for bundle in (job_bundle, tmp_path / "lossy"):
        assert "16.00 ms" in tfwave("plan", bundle, "--missing", "estimate").out


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("balance", "--help")
    assert ran.code == 0
    assert "Examples" in ran.out
    assert "tfwave balance demo-run/bundle" in ran.out
