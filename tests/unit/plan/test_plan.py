"""Plans: both file forms, the rules that every plan keeps, and whether one belongs to a graph."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import PlanError, TfwaveError
from tfwave.files import whole_directory, write_whole
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.discipline import Discipline
from tfwave.plan.fingerprint import first_difference, graph_print, nameless_print
from tfwave.plan.io import load_plan, plan_json, save_plan
from tfwave.plan.match import check_match
from tfwave.plan.message import to_dict
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

SERVER = SERVERS[0]


def small_job(*, pulls: tuple[str, ...] = ("v1", "v2", "v10")) -> Builder:
    build = Builder()
    for name in pulls:
        build.op(WORKER, f"use_{name}", [build.pair(name, SERVER, WORKER, send=False)])
    build.pair("unused", SERVER, WORKER, send=False)
    return build


def view_of(build: Builder) -> GraphView:
    return GraphView.of(*build.partitions.values())


def small_plan(policy: str = "tic") -> Plan:
    view = view_of(small_job())
    return make_plan(view, find_transfers(view).data, Network(uniform_costs(view)), PlanRequest(policy))


def check(plan: Plan, build: Builder) -> None:
    view = view_of(build)
    check_match(plan, view, find_transfers(view))


@pytest.mark.parametrize("name", ["plan.json", "plan.pb", "plan"])
def test_a_plan_reads_back(tmp_path: Path, name: str) -> None:
    plan = small_plan()
    save_plan(plan, tmp_path / name)
    assert load_plan(tmp_path / name) == plan
    assert (tmp_path / name).read_bytes().startswith(b"{") == name.endswith(".json")
    save_plan(plan, f"{tmp_path}/as-text-{name}")
    assert load_plan(f"{tmp_path}/as-text-{name}") == plan


def test_what_is_no_plan_is_not_saved(tmp_path: Path) -> None:
    """Such as the plan of jobs that were done before they were planned."""
    nothing: Any = None
    for name in ("p.json", "p.pb"):
        with pytest.raises(
            PlanError, match=f"to be saved to '.*{name}' is of the type NoneType: give a plan"
        ):
            save_plan(nothing, tmp_path / name)
    assert [*tmp_path.iterdir()] == []


def test_json_has_plain_numbers() -> None:
    document = json.loads(plan_json(small_plan()))
    (order,) = document["orders"]
    for rank, transfer in enumerate(order["transfers"]):
        assert transfer["rank"] == rank
        assert [type(transfer[n]) for n in ("rank", "bytes")] == [int, int]
        assert transfer["key"].endswith(f":0;{SERVER};{WORKER}")
    assert {type(c["count"]) for c in document["op_counts"]} == {int}
    assert type(document["version"]) is int


@pytest.mark.parametrize("name", ["plan.json", "plan.pb"])
def test_a_discipline_reads_back(tmp_path: Path, name: str) -> None:
    plan = small_plan()
    (order,) = plan.orders
    by_priority = replace(order, discipline=Discipline.PRIORITY, window_bytes=1 << 20)
    plan = replace(
        plan, orders=(by_priority,), predicted=replace(plan.predicted, gain=0.25, verdict="worth it")
    )
    save_plan(plan, tmp_path / name)
    assert load_plan(tmp_path / name) == plan


def test_an_infinite_priority_is_a_string_and_reads_back(tmp_path: Path) -> None:
    plan = small_plan()
    assert {t["priority"] for t in to_dict(plan)["orders"][0]["transfers"]} == {"Infinity"}
    save_plan(plan, tmp_path / "p.json")
    assert load_plan(tmp_path / "p.json").transfers[-1].priority == math.inf


def _change(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["orders"][0]["transfers"][1].update(values)


def _order(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["orders"][0].update(values)


def _of_version_1(document: dict[str, Any]) -> None:
    document["version"] = 1
    for name in ("discipline", "window_bytes"):
        del document["orders"][0][name]


def _again(document: dict[str, Any]) -> None:
    first, second = document["orders"][0]["transfers"][:2]
    second["key"] = first["key"]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (_change(rank=2), "has rank 2 where 1 belongs"),
        (_change(rank=0), "has rank 0 where 1 belongs"),
        (_change(rank=-1), "has rank -1 where 1 belongs"),
        (_change(priority="NaN"), "is not a number"),
        (_change(bytes=-1), "is negative"),
        (_change(key=f"v1:0;{WORKER};{SERVER}"), "holds a transfer of another channel"),
        (_change(key="v1"), "key 'v1' is malformed"),
        (_change(edge="edge_4_unused"), "edge edge_4_unused twice"),
        (_change(edge=""), "v1:0;.* names no edge"),
        (lambda d: d["orders"][0].update(source_device=""), f"the order  -> {WORKER} lacks a device"),
        (lambda d: d["orders"][0].update(destination_device=""), f"the order {SERVER} ->  lacks a device"),
        (_change(rank="x"), "it is not a plan"),
        (_change(colour=1), "it is not a plan.*colour"),
        (_again, "names the transfer unused:0;.* twice"),
        (lambda d: d["orders"].append(d["orders"][0]), "names the channel .* twice"),
        (lambda d: d["orders"][0]["transfers"].pop(0), "has rank 1 where 0 belongs"),
        (_order(discipline="priority"), "by priority in a window of 0 bytes"),
        (_order(discipline="priority", window_bytes=-1), "by priority in a window of -1 bytes"),
        (_order(window_bytes=1), "by a counter, which has no window"),
        (_order(discipline="fifo"), "has the discipline 'fifo', not counter or priority"),
        (_of_version_1, r"version 1 is not known here \(this tfwave reads 2 and 3\): make the plan again"),
        (lambda d: d.update(version=0), "it has no version"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused_by_name(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], says: str
) -> None:
    document = to_dict(small_plan())
    edit(document)
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(document))
    with pytest.raises(PlanError, match=says) as caught:
        load_plan(file)
    assert str(caught.value).startswith(f"plan '{file}': ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["p.json", "p.pb"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe\0", b"[]", b"{", b"[" * 100_000, b"node { }"])
def test_foreign_files_are_refused_by_name(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PlanError, match=name):
        load_plan(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"gone\.json': No such file"):
        load_plan(tmp_path / "gone.json")


def test_a_truncated_json_plan_is_refused(tmp_path: Path) -> None:
    text = plan_json(small_plan()).rstrip()
    for cut in range(0, len(text), 97):
        (tmp_path / "p.json").write_text(text[:cut])
        with pytest.raises(PlanError, match=r"p\.json"):
            load_plan(tmp_path / "p.json")


def test_a_truncated_binary_plan_is_refused_or_does_not_match_its_graph(tmp_path: Path) -> None:
    save_plan(small_plan(), tmp_path / "p.pb")
    data = (tmp_path / "p.pb").read_bytes()
    for cut in range(len(data)):
        (tmp_path / "p.pb").write_bytes(data[:cut])
        try:
            plan = load_plan(tmp_path / "p.pb")
        except PlanError:
            continue
        assert plan != small_plan()


def test_a_plan_matches_its_own_graph() -> None:
    check(small_plan(), small_job())


def test_a_transfer_that_is_gone_is_named() -> None:
    with pytest.raises(
        PlanError, match=r"it orders the transfer v10:0;.*this graph does not have; make a plan"
    ):
        check(small_plan(), small_job(pulls=("v1", "v2")))


def test_a_transfer_that_is_new_is_named() -> None:
    with pytest.raises(PlanError, match=r"this graph has the transfer v3:0;.*which it does not order"):
        check(small_plan(), small_job(pulls=("v1", "v2", "v10", "v3")))


def test_an_op_count_is_named() -> None:
    job = small_job()
    job.const(WORKER, "c")
    with pytest.raises(PlanError, match="the planned graph has 0 Const nodes, this one 1"):
        check(small_plan(), job)


@pytest.mark.parametrize("what", ["attr", "device", "input"])
def test_a_node_that_changed_is_named(what: str) -> None:
    job = small_job()
    node = next(n for n in job.partitions[WORKER].node if n.name == "use_v2")
    if what == "attr":
        node.attr["N"].i = 7
    elif what == "device":
        node.device = ""
    else:
        node.input.append("^use_v1")
    with pytest.raises(PlanError, match="node 'use_v2' differs"):
        check(small_plan(), job)


def test_incarnations_are_no_part_of_the_fingerprint() -> None:
    job = small_job()
    for node in job.partitions[WORKER].node:
        if node.op == "_Recv":
            node.attr["send_device_incarnation"].i = 0x1234567890
    before = job.partitions[WORKER].SerializeToString(deterministic=True)
    assert graph_print(view_of(job)) == graph_print(view_of(small_job()))
    assert first_difference(graph_print(view_of(small_job())), view_of(job)) is None
    assert job.partitions[WORKER].SerializeToString(deterministic=True) == before
    check(small_plan(), job)


def test_numbers_of_custom_gradients_and_functions_are_no_part_of_the_fingerprint() -> None:
    """TensorFlow counts both up as a process goes on; which function is called does count."""

    def fingerprint(gradient: int, function: str) -> str:
        job = small_job()
        node = next(n for n in job.partitions[WORKER].node if n.name == "use_v2")
        node.attr["_gradient_op_type"].s = b"CustomGradient-%d" % gradient
        node.attr["f"].func.name = function
        node.attr["_user_specified_name"].s = b"%d" % gradient
        node.experimental_debug_info.original_func_names.append(function)
        return graph_print(view_of(job)).fingerprint

    assert fingerprint(7, "__inference_body_12") == fingerprint(8, "__inference_body_345")
    assert fingerprint(7, "__inference_body_12") != fingerprint(7, "__inference_cond_12")


def test_numbers_of_branches_are_no_part_of_the_fingerprint() -> None:
    """Those of a tf.switch_case; which functions they are does count."""

    def fingerprint(*branches: str) -> str:
        job = small_job()
        node = job.partitions[WORKER].node[1]
        for name in branches:
            node.attr["branches"].list.func.add(name=name)
        return graph_print(view_of(job)).fingerprint

    assert fingerprint("branch0_7", "branch1_8") == fingerprint("branch0_12", "branch1_13")
    assert fingerprint("branch0_7", "branch1_8") != fingerprint("branch1_8", "branch0_7")


def test_numbers_of_functions_of_python_are_no_part_of_the_fingerprint() -> None:
    def fingerprint(op: str, token: bytes) -> str:
        job = small_job()
        node = job.partitions[WORKER].node[1]
        node.op = op
        node.attr["token"].s = token
        return graph_print(view_of(job)).fingerprint

    assert fingerprint("PyFunc", b"pyfunc_1") == fingerprint("PyFunc", b"pyfunc_2")
    assert fingerprint("Other", b"pyfunc_1") != fingerprint("Other", b"pyfunc_2")


def model(name: str, change: Callable[[NodeDef], None] = lambda node: None) -> GraphView:
    """A layer of a model that has this name, with something changed of what it multiplies."""
    graph = GraphDef()
    for own, size in (("inputs", 8), ("kernel", 4)):
        graph.node.add(name=f"{name}/{own}", op="Placeholder").attr["shape"].shape.dim.add(size=size)
    waited = graph.node.add(name=f"{name}/waited", op="NoOp")
    inputs = [f"{name}/inputs", f"{name}/kernel", f"^{waited.name}"]
    product = graph.node.add(name=f"{name}/product", op="MatMul", device="/cpu:0", input=inputs)
    product.attr["_class"].list.s.append(f"loc:@{name}/kernel".encode())
    product.attr["f"].func.name = f"{name}_cond_true_7"
    change(product)
    graph.node.add(name="a_sum", op="AddN", input=[product.name])
    return GraphView.of(graph)


def test_a_nameless_print_is_that_of_the_model_built_again() -> None:
    first, again = model("model"), model("model_12")
    assert graph_print(first) != graph_print(again)
    assert nameless_print(first) == nameless_print(again)
    assert first_difference(nameless_print(first), again) is None
    assert "node 'a_sum' differs: its name, " in str(first_difference(graph_print(first), again))


def _transpose(node: NodeDef) -> None:
    node.attr["transpose_a"].b = True


def _swap(node: NodeDef) -> None:
    node.input[0], node.input[1] = node.input[1], node.input[0]


def _go_on(node: NodeDef) -> None:
    del node.input[2]


def _take_another_port(node: NodeDef) -> None:
    node.input[0] += ":1"


def _move(node: NodeDef) -> None:
    node.device = "/cpu:1"


def _branch(node: NodeDef) -> None:
    node.attr["f"].func.name = "model_cond_false_7"


@pytest.mark.parametrize("change", [_transpose, _swap, _go_on, _take_another_port, _move, _branch])
def test_a_nameless_print_tells_another_model(change: Callable[[NodeDef], None]) -> None:
    """And the first node that differs, not those that read it."""
    said = first_difference(nameless_print(model("model")), model("model", change))
    assert said == "node 'model/product' differs: its device, inputs or attributes"


def test_a_nameless_print_counts_ops() -> None:
    more = GraphDef()
    more.node.add(name="one", op="NoOp")
    said = first_difference(nameless_print(model("model")), GraphView.of(more))
    assert said == "the planned graph has 1 AddN nodes, this one 0"


def test_the_incarnation_of_any_other_op_counts() -> None:
    job = small_job()
    job.partitions[WORKER].node[1].attr["send_device_incarnation"].i = 1
    assert graph_print(view_of(job)).fingerprint != small_plan().fingerprint


def test_an_unwritable_target_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TfwaveError, match=r"cannot write '.*p\.json': No such file"):
        save_plan(small_plan(), tmp_path / "gone" / "p.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(TfwaveError, match=r"cannot write '.*taken'"):
        write_whole(tmp_path / "taken", b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_whole(tmp_path / "f", b"old" * 100)
    write_whole(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_directory_appears_only_when_all_went_well(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "d"
    with whole_directory(target) as place:
        (place / "f").write_text("1")
        assert not target.exists()
    with pytest.raises(KeyError):
        _write_half(target)
    assert (target / "f").read_text() == "1"
    assert [p.name for p in target.parent.iterdir()] == ["d"]


def _write_half(target: Path) -> None:
    with whole_directory(target) as place:
        (place / "f").write_text("2")
        raise KeyError


def test_a_file_in_the_place_of_a_directory_is_kept(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("mine")
    with pytest.raises(TfwaveError, match=r"cannot write '.*d'"), whole_directory(tmp_path / "d"):
        pass
    assert (tmp_path / "d").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["d"]
