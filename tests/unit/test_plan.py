"""Plans: their rules, their files, and the graphs they belong to."""

import json
import random
from dataclasses import replace

import pytest

from tests.graphs import SERVERS, WORKER, Builder, random_job
from tfwave.cost.uniform import UniformCosts
from tfwave.errors import GraphError, PlanError, TfwaveError
from tfwave.files import whole_directory, write_whole
from tfwave.graph.names import Channel
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.registry import POLICY_NAMES
from tfwave.plan.io import load_plan, plan_json, save_plan, to_proto
from tfwave.plan.match import check_match
from tfwave.planner import PlanRequest, make_plan

PS = SERVERS[0]


def layers(count: int = 4, prefix: str = "w") -> Builder:
    build = Builder()
    previous: list[str] = []
    for i in range(count):
        weights = build.op(PS, f"{prefix}{i}", [build.const(PS, f"c{i}")])
        previous = [build.op(WORKER, f"layer{i}", [*previous, build.pair(weights, PS, WORKER)])]
    return build


def view_of(build: Builder) -> GraphView:
    return GraphView.of(*build.partitions.values())


def plan_of(build: Builder, policy: str = "tic"):
    view = view_of(build)
    return make_plan(view, find_transfers(view).data, UniformCosts(), PlanRequest(policy))


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_the_same_graph_renumbered_gives_the_same_bytes(policy):
    rng = random.Random(policy)
    planned = 0
    for _ in range(60):
        job = random_job(rng)
        texts = set()
        for numbered in (job, job.renumbered(rng), job.renumbered(rng)):
            view, transfers = numbered.view()
            request = PlanRequest(policy, seed=3, device=WORKER)
            plan = make_plan(view, transfers, numbered.costs, request) if transfers else None
            planned += plan is not None
            texts.add(plan and (plan_json(plan), to_proto(plan).SerializeToString(deterministic=True)))
        assert len(texts) == 1
    assert planned > 100


@pytest.mark.parametrize("name", ["plan.json", "plan.pb"])
def test_a_plan_survives_its_file(name, tmp_path):
    plan = plan_of(layers())
    save_plan(plan, tmp_path / name)
    assert load_plan(tmp_path / name) == plan
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_json_has_the_names_of_the_format_and_numbers_as_numbers():
    build = Builder()
    for name in ("a", "b"):
        build.op(WORKER, f"use_{name}", [build.pair(name, PS, WORKER, send=False)])
    found = json.loads(plan_json(plan_of(build)))
    assert {"version", "policy", "fingerprint", "costs", "predicted", "orders"} <= set(found)
    (order,) = found["orders"]
    assert (order["source_device"], order["destination_device"]) == (PS, WORKER)
    first, second = order["transfers"]
    assert {"key", "node", "rank", "priority", "bytes"} <= set(first)
    assert (first["rank"], second["rank"], first["bytes"]) == (0, 1, 0)
    assert first["priority"] == "Infinity"


def broken(plan, **changes):
    (order,) = plan.orders
    first, *rest = order.transfers
    return replace(plan, orders=(replace(order, transfers=(replace(first, **changes), *rest)),))


def test_gaps_duplicates_and_foreign_keys_are_refused():
    plan = plan_of(layers())
    (order,) = plan.orders
    second = order.transfers[1]
    foreign = replace(second.key, channel=Channel("x", "y"))
    for changes, message in [
        ({"rank": 1}, "rank 1 where 0 belongs"),
        ({"key": second.key}, "twice"),
        ({"edge": second.edge}, "twice"),
        ({"key": foreign}, "another channel"),
        ({"priority": float("nan")}, "not a number"),
        ({"bytes": -1}, "negative"),
    ]:
        with pytest.raises(PlanError, match=message):
            broken(plan, **changes)
    with pytest.raises(PlanError, match="version 2"):
        replace(plan, version=2)
    with pytest.raises(PlanError, match="twice"):
        replace(plan, orders=(order, order))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 1, "no": 2}', b"\xff\xfe", b'{"policy": "tac"}']
)
def test_files_that_are_no_plans_are_refused_by_name(content, tmp_path):
    for name in ("p.json", "p.pb"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(PlanError, match=name):
            load_plan(tmp_path / name)
    with pytest.raises(PlanError, match="nosuch"):
        load_plan(tmp_path / "nosuch")


class TestMatch:
    def check(self, planned: Builder, given: Builder) -> None:
        view = view_of(given)
        check_match(plan_of(planned), view, find_transfers(view))

    def test_its_own_graph_in_another_run(self):
        again = layers()
        for graph in again.partitions.values():
            for node in graph.node:
                if node.op in ("_Send", "_Recv"):
                    node.attr["send_device_incarnation"].i = 7
        self.check(layers(), again)

    def test_a_transfer_that_is_not_there(self):
        with pytest.raises(PlanError, match=r"orders the transfer w4:0;.* does not have"):
            self.check(layers(5), layers(4))

    def test_a_transfer_that_is_new(self):
        with pytest.raises(PlanError, match=r"has the transfer w4:0;.* does not order"):
            self.check(layers(4), layers(5))

    def test_an_op_more(self):
        given = layers()
        given.op(WORKER, "more", ["layer0"])
        with pytest.raises(PlanError, match="has 8 AddN nodes, this one 9"):
            self.check(layers(), given)

    def test_an_attribute(self):
        given = layers()
        node = next(n for n in given.partitions[WORKER].node if n.name == "layer2")
        node.attr["N"].i = 9
        with pytest.raises(PlanError, match="'layer2' differs"):
            self.check(layers(), given)


def test_only_devices_that_something_reaches_at_the_start_are_planned():
    build = layers(2)
    build.op(PS, "update", [build.pair("layer1", WORKER, PS)])
    view = view_of(build)
    transfers = find_transfers(view).data
    plan = make_plan(view, transfers, UniformCosts(), PlanRequest("tic"))
    assert [o.channel for o in plan.orders] == [Channel(PS, WORKER)]
    with pytest.raises(GraphError, match=f"'nowhere'; choose one of {PS}, {WORKER}"):
        make_plan(view, transfers, UniformCosts(), PlanRequest("tic", device="nowhere"))
    with pytest.raises(GraphError, match="receives no tensor"):
        make_plan(view, [], UniformCosts(), PlanRequest("tic"))


def test_nothing_is_half_written(tmp_path):
    with pytest.raises(TfwaveError, match="nosuch"):
        write_whole(tmp_path / "nosuch" / "file", b"x")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "old").write_text("old")
    with pytest.raises(ZeroDivisionError), whole_directory(tmp_path / "kept") as target:  # noqa: PT012
        (target / "new").write_text("new")
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]
    assert [p.name for p in (tmp_path / "kept").iterdir()] == ["old"]
    with whole_directory(tmp_path / "kept") as target:
        (target / "new").write_text("new")
    assert [p.name for p in (tmp_path / "kept").iterdir()] == ["new"]
