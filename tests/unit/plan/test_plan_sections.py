"""The sections of a plan beside its order: both file forms, their rules, and what of a plan is of a graph."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from tests.graphs import WORKER
from tests.grouped import graph_of, group
from tests.plans import plan_by_hand
from tfwave.errors import PlanError
from tfwave.graph.names import Channel
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import Colocation
from tfwave.plan import fingerprint, match
from tfwave.plan.embeddings import Embeddings, EmbeddingTable, RowPriorities
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.groups import GroupedJob, OwnStep, Turn
from tfwave.plan.io import load_plan, plan_json, save_plan
from tfwave.plan.layers import LayerDevices, Layers
from tfwave.plan.match import check_graph, parts_of_graph
from tfwave.plan.memory import AwayTensor, Memory, Place
from tfwave.plan.message import from_proto, to_dict, to_proto
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves
from tfwave.proto import plan_pb2

CHANNEL = Channel("/job:ps/replica:0/task:0/device:CPU:0", WORKER)
CHAIN, PAIR = (GraphView.of(graph_of(**nodes)) for nodes in ({"a": "", "b": "a"}, {"x": "", "y": ""}))
JOBS = (
    GroupedJob("chain", (group(40, 44, piece=8), group(-40)), 5, slowed_at_most=0.25, compute_share=0.75),
    GroupedJob("pair", (group(9),), 0),
)


def colocation() -> Colocation:
    return Colocation(JOBS, ((Turn("chain", 0),), (Turn("chain", 1), Turn("pair", 0))), 100)


def memory() -> Memory:
    """Of a step of six ops; x is copied, y made again."""
    away = (
        AwayTensor(("a:0",), 8, "offload", after="b", gone="c", back="d", wanted="e"),
        AwayTensor(
            ("b:0", "c:0"), 9, "recompute", after="c", gone="d", back="f", wanted="f", again=("b", "c")
        ),
    )
    places = (
        *(Place("a", 256, 256), Place("a", 0, 256, is_scratch=True), Place("f", 0, 512)),
        *(Place("a/host_0", 0, 256), Place("c/again_0", 256, 256)),
    )
    return Memory(
        graph_print(CHAIN),
        1000,
        "greedy",
        tuple("abcdef"),
        away,
        900,
        2.5,
        2.0,
        800,
        chained=("b", "c", "e"),
        beside=(0, 1, 1),
        places=places,
        region_bytes=512,
        apart=("f", "c/again_0"),
        swapped=("e",),
    )


def layers() -> Layers:
    placed = (LayerDevices("conv", 0, 4), LayerDevices("dense", 2, 1))
    return Layers(4, 8, 1.5, "layer", placed, 1.0, 0.9, 2.0, 3.0, 1.25)


def embeddings() -> Embeddings:
    tables = (
        EmbeddingTable("items", 1000, 8, "rows", (0, 1)),
        EmbeddingTable("users", 9, 4, "whole", (1,)),
    )
    priorities = RowPriorities(0, 1, 2, 4)
    return Embeddings(tables, 8, 2, 64, 192, priorities, 0.5, 2.0, 1.0, 0.25, "gain expected")


def full_plan() -> Plan:
    return replace(
        plan_by_hand({CHANNEL: ["edge_1_a"]}),
        groups=colocation().section(
            {"chain": graph_print(CHAIN), "pair": graph_print(PAIR)},
            {name: OwnStep(graph_print(PAIR), ("loss:0", "train")) for name in ("chain", "pair")},
        ),
        waves=Waves(graph_print(PAIR), 2, 0.375, 1000, 900, 1.25, 1.1, 1.4, "gain expected"),
        placement=Placement(2, {"b": 1, "a": 0}, (7, 8), 8),
        memory=memory(),
        layers=layers(),
        embeddings=embeddings(),
    )


SECTIONS = ("groups", "waves", "placement", "memory", "layers", "embeddings")


@pytest.mark.parametrize("name", ["plan.json", "plan.pb"])
@pytest.mark.parametrize("section", ["", *SECTIONS])
def test_a_plan_of_any_section_reads_back(tmp_path: Path, name: str, section: str) -> None:
    plan = full_plan()
    if section:
        plan = Plan(**{section: getattr(plan, section)})
    save_plan(plan, tmp_path / name)
    assert load_plan(tmp_path / name) == plan


def fields_of(message: Descriptor) -> dict[str, Any]:
    """By name, down to plain values; a map is one of those."""
    nested = {f.name: f.message_type for f in message.fields}
    return {n: (m and not m.GetOptions().map_entry and fields_of(m)) or None for n, m in nested.items()}


def shape_of(value: Any, known: Any) -> Any:
    if isinstance(value, list):
        return shape_of(value[0], known) if value else known
    return {n: shape_of(inner, known[n]) for n, inner in value.items()} if known else None


def test_json_has_the_names_of_the_proto() -> None:
    known = fields_of(plan_pb2.Plan.DESCRIPTOR)
    assert shape_of(to_dict(full_plan()), known) == known


def test_what_was_not_decided_is_not_in_the_file() -> None:
    document = to_dict(Plan(placement=Placement(2, {"a": 1})))
    assert document.keys() == {"version", "placement"}


def test_variables_in_any_order_give_the_same_bytes() -> None:
    plans = [Plan(placement=Placement(2, names)) for names in ({"a": 0, "b": 1}, {"b": 1, "a": 0})]
    assert len({plan_json(plan) for plan in plans}) == 1
    assert len({to_proto(plan).SerializeToString(deterministic=True) for plan in plans}) == 1


def test_the_sections_of_two_plans_go_together() -> None:
    full, other = full_plan(), Plan(placement=Placement(3))
    joined = full.with_sections_of(other)
    assert joined == replace(full, placement=other.placement)
    assert other.with_sections_of(full) == full


def test_a_plan_of_version_2_still_loads(tmp_path: Path) -> None:
    """It was an order, and all of it."""
    plan = plan_by_hand({CHANNEL: ["edge_1_a", "edge_2_b"]})
    (tmp_path / "old.json").write_text(json.dumps(to_dict(plan) | {"version": 2}))
    message = to_proto(plan)
    message.version = 2
    (tmp_path / "old.pb").write_bytes(message.SerializeToString())
    assert load_plan(tmp_path / "old.json") == plan == load_plan(tmp_path / "old.pb")


def test_a_section_of_a_later_tfwave_is_not_lost_in_silence() -> None:
    message = plan_pb2.Plan.FromString(to_proto(full_plan()).SerializeToString() + b"\x9a\x06\x01x")
    with pytest.raises(PlanError, match="has sections, or parts of them, that this tfwave does not know"):
        from_proto(message)


def test_a_part_of_a_section_of_a_later_tfwave_is_not_lost_in_silence() -> None:
    message = to_proto(full_plan())
    message.groups.jobs[0].ParseFromString(message.groups.jobs[0].SerializeToString() + b"\x9a\x06\x01x")
    with pytest.raises(PlanError, match="a later one made it, use that"):
        from_proto(plan_pb2.Plan.FromString(message.SerializeToString()))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda d: d["groups"]["slots"].pop(), "group 1 of the job 'chain' has no slot"),
        (lambda d: d["groups"]["slots"].reverse(), "slot 0 has group 1 of the job 'chain' out of turn"),
        (lambda d: d["groups"]["jobs"][1].update(name="chain"), "two jobs are named 'chain'"),
        (lambda d: d["groups"].update(limit_bytes=0), "in a limit of 0 bytes"),
        (lambda d: d["groups"]["jobs"][0].update(compute_share=0), "keeps a share of 0.0 busy"),
        (lambda d: d["groups"]["jobs"][0].update(slowed_at_most=-1), "allows to be slowed by -1.0"),
        (lambda d: d["waves"].update(count=0), "makes 0 waves of a step, it must be 1 to 64"),
        (lambda d: d["waves"].update(count=65), "makes 65 waves"),
        (lambda d: d["waves"].update(offset=1.5), "at the offset 1.5, it must be from 0 to 1"),
        (lambda d: d["waves"].update(offset="NaN"), "at the offset nan"),
        (
            lambda d: d["placement"]["variables"].update(a=2),
            "'a' is placed on server 2, but there are only 2",
        ),
        (lambda d: d["memory"].update(peak_bytes=1001), "holds 1001 bytes of a limit of 1000"),
        (lambda d: d["memory"].update(peak_bytes=0), "holds 0 bytes"),
        (lambda d: d["memory"].update(seconds="NaN"), "takes nan s"),
        (lambda d: d["memory"].update(seconds=1.5), r"takes 1.5 s, and 2.0 s if it runs as it is"),
        (lambda d: d["memory"]["order"].append("a"), "has the op 'a' twice"),
        (lambda d: d["memory"]["chained"].append("a"), "chains the op 'a' out of its order"),
        (lambda d: d["memory"]["chained"].append("z"), "chains the op 'z' out of its order"),
        (lambda d: d["memory"]["beside"].append(0), "says of 4 ops what may run beside them, and chains 3"),
        (lambda d: d["memory"].update(beside=[0, 2, 1]), "lets 2 ops run beside 'c'"),
        (lambda d: d["memory"].update(beside=[0, 0, 2]), "lets 2 ops run beside 'e'"),
        (lambda d: d["memory"].update(beside=[0, 0, -1]), "lets -1 ops run beside 'e'"),
        (lambda d: d["memory"]["tensors"][1]["names"].append("a:0"), "the tensor 'a:0' away twice"),
        (lambda d: d["memory"]["tensors"][0].update(names=[]), "away without a name, or of 8 bytes"),
        (lambda d: d["memory"]["tensors"][0].update(bytes=0), "away without a name, or of 0 bytes"),
        (
            lambda d: d["memory"]["tensors"][0].update(method="swap"),
            "'a:0' comes back by 'swap', it must be one of",
        ),
        (lambda d: d["memory"]["tensors"][0].update(again=["a"]), "by 'offload', with 1 ops that run again"),
        (lambda d: d["memory"]["tensors"][1].update(again=[]), "by 'recompute', with 0 ops that run again"),
        (
            lambda d: d["memory"]["tensors"][0].update(back="z"),
            "names the op 'z', which is not in the plan's order",
        ),
        (
            lambda d: d["memory"]["tensors"][0].update(gone="b"),
            "does not leave after 'b' and come back before 'e'",
        ),
        (
            lambda d: d["memory"]["tensors"][0].update(back="f"),
            "does not leave after 'b' and come back before 'e'",
        ),
        (lambda d: d["memory"]["tensors"][1].update(again=["f"]), "ops that have not run before 'f'"),
        (
            lambda d: d["memory"]["places"][0].update(op="z"),
            "a place for the op 'z', which is not in its order",
        ),
        (
            lambda d: d["memory"]["places"][3].update(op="b/host_0"),
            "for the op 'b/host_0', which is not in its",
        ),
        (lambda d: d["memory"]["places"][4].update(op="d/again_0"), "and brings nothing back"),
        (
            lambda d: d["memory"].update(apart=["x"]),
            "keeps the op 'x' apart, and .* neither has it in its order",
        ),
        (lambda d: d["memory"].update(places=[], apart=["f"]), "keeps the op 'f' apart, and has no places"),
        (
            lambda d: d["memory"].update(swapped=["z"]),
            "swaps the inputs of the op 'z', which is not in its order",
        ),
        (lambda d: d["memory"]["places"][0].update(bytes=0), "place of 0 bytes at 256 for the op 'a'"),
        (lambda d: d["memory"]["places"][0].update(offset=-256), "place of 256 bytes at -256"),
        (lambda d: d["memory"]["places"][0].update(offset=1), "no multiple of 256"),
        (lambda d: d["memory"].update(region_bytes=511), "of 256 bytes at 256 .* its region of 511"),
        (lambda d: d["layers"].update(devices=0), "for 0 devices and a batch of 8"),
        (lambda d: d["layers"].update(limit=0.5), "limit is 0.5 x"),
        (lambda d: d["layers"].update(limit_of="step"), "of 'step', it must be one of layer, job"),
        (lambda d: d["layers"].update(seconds="NaN"), "of its layers is nan"),
        (lambda d: d["layers"].update(data_parallel_seconds=-1.0), "of its layers is -1.0"),
        (lambda d: d["layers"]["layers"][1].update(name="conv"), "the layer 'conv' twice"),
        (
            lambda d: d["layers"]["layers"][1].update(count=3),
            "'dense' on 3 devices from 2 on, and there are 4",
        ),
        (lambda d: d["layers"]["layers"][0].update(count=0), "'conv' on 0 devices"),
        (lambda d: d["embeddings"].update(steps=2), "rows 2 updates old in calls of 2 steps"),
        (lambda d: d["embeddings"].update(staleness=-1), "rows -1 updates old"),
        (lambda d: d["embeddings"].update(hot_bytes=-1), "keeps -1 bytes of rows"),
        (lambda d: d["embeddings"].update(tables=[]), "of no table"),
        (lambda d: d["embeddings"].update(seconds="NaN"), "of staged steps is nan"),
        (lambda d: d["embeddings"]["priorities"].update(cold_push=-1), "cold rows go before repeated ones"),
        (lambda d: d["embeddings"]["priorities"].update(cold_pull=0), "cold rows go before repeated ones"),
        (lambda d: d["embeddings"]["tables"][1].update(name="items"), "the embedding table 'items' twice"),
        (lambda d: d["embeddings"]["tables"][1].update(layout="tiles"), "lies by 'tiles'"),
        (lambda d: d["embeddings"]["tables"][1].update(servers=[0, 1]), r"\[9, 4\], whole, on 2 servers"),
        (lambda d: d["embeddings"]["tables"][0].update(servers=[]), "on 0 servers"),
        (lambda d: d["embeddings"]["tables"][0].update(servers=[0, -1]), "lies on server -1"),
        (lambda d: d["embeddings"]["tables"][0].update(rows=0), r"is \[0, 8\]"),
        (lambda d: [d.pop(name) for name in (*SECTIONS, "policy", "orders")], "decides nothing"),
        (lambda d: d.pop("policy"), "orders transfers, and names no policy"),
    ],
)
def test_a_section_that_breaks_a_rule_is_refused_by_name(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], says: str
) -> None:
    document = json.loads(plan_json(full_plan()))
    edit(document)
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(PlanError, match=says) as caught:
        load_plan(tmp_path / "bad.json")
    assert "bad.json" in str(caught.value)


def test_what_of_a_plan_is_of_a_graph() -> None:
    plan = replace(full_plan(), policy="", orders=())
    assert parts_of_graph(plan, CHAIN, find_transfers(CHAIN), CHAIN) == ("the job 'chain'", "the memory")
    assert parts_of_graph(plan, PAIR, find_transfers(PAIR), PAIR) == ("the job 'pair'", "the waves")
    other = GraphView.of(graph_of(z=""))
    with pytest.raises(PlanError, match="another graph: the planned graph has 2 NoOp nodes, this one 1"):
        parts_of_graph(plan, other, find_transfers(other), other)
    assert parts_of_graph(Plan(placement=Placement(1)), other, find_transfers(other), other) == ()


def test_the_print_of_a_graph_is_taken_once_for_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[GraphView] = []
    for module in (match, fingerprint):
        monkeypatch.setattr(module, "graph_print", lambda view: taken.append(view) or graph_print(view))
    parts_of_graph(replace(full_plan(), policy="", orders=()), PAIR, find_transfers(PAIR), PAIR)
    assert taken == [PAIR]


def test_a_section_of_another_graph_is_refused() -> None:
    check_graph(graph_print(CHAIN), CHAIN)
    with pytest.raises(PlanError, match="made for another graph: node 'x' differs"):
        check_graph(graph_print(CHAIN), PAIR)


def test_slots_come_back_as_they_were_planned() -> None:
    found = colocation()
    groups = full_plan().groups
    assert groups is not None
    assert Colocation.of(groups) == found
    assert (groups.peak_bytes, groups.seconds) == (found.peak_bytes, found.seconds)
    with pytest.raises(PlanError, match="leaves too little of the limit of 50 bytes"):
        Colocation.of(replace(groups, limit_bytes=50))


def test_embeddings_know_their_tables_again() -> None:
    own = embeddings()
    items, users = own.tables
    assert own.alpha == 64 / 256
    own.check_tables((users, replace(items, servers=(3, 2))))
    for there, says in (
        ((items,), "the job lacks the embedding table 'users'"),
        ((items, users, replace(users, name="new")), "the plan lacks the embedding table 'new'"),
        ((items, replace(users, rows=10)), r"'users' is \[10, 4\], whole, and the plan is for \[9, 4\]"),
        ((replace(items, servers=(0, 1, 2)), users), "by rows in 3 parts"),
        ((replace(items, layout="columns"), users), "by columns in 2 parts, and the plan is for .* by rows"),
    ):
        with pytest.raises(PlanError, match=says):
            own.check_tables(there)
