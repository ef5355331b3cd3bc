"""`tfwave rewrite`, `undo`, `diff` and `passes`: what they write, print and refuse."""

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bundles import small_bundle
from tests.graphs import SERVERS, WORKER
from tests.rewrites import in_order
from tests.uncut import random_uncut
from tests.unit.conftest import Command
from tests.unit.graph.test_rewriter import chain
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.graph.load import load_graph
from tfwave.graph.view import GraphView
from tfwave.passes.registry import pass_names
from tfwave.plan.annotation import annotated_orders
from tfwave.plan.io import load_plan

BARRIER = 'counter_barrier{groups=[["a"],["d"]]}'


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    file = tmp_path / "plain.pb"
    file.write_bytes(chain().graph.SerializeToString(deterministic=True))
    return file


def test_rewrite_and_undo(tfwave: Command, plain: Path, tmp_path: Path) -> None:
    out, back = tmp_path / "out.pbtxt", tmp_path / "back.pb"
    ran = tfwave("rewrite", plain, "--passes", BARRIER, "-o", out)
    assert ran.code == 0
    assert f"written to '{out}'" in ran.err.replace("\n", "")
    assert out.read_text().startswith("node {")
    assert tfwave("diff", plain, out).code == 1
    assert tfwave("undo", out, "-o", back).code == 0
    assert back.read_bytes() == plain.read_bytes()
    assert tfwave("diff", plain, back).out == f"{plain}: equal\n"


def test_a_plan_goes_into_its_graph(tfwave: Command, bundle: Path, graph: Path, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "out.pb"
    assert tfwave("plan", bundle, "-o", plan, "--device", WORKER).code == 0
    ran = tfwave(
        "rewrite", graph, "--plan", plan, "--passes", "recv_priority,control_edges", "-o", out, "--json"
    )
    answer = json.loads(ran.out)
    assert [stage["graph_pass"] for stage in answer["graphs"][0]["passes"]] == [
        "recv_priority",
        "control_edges",
    ]
    assert answer["graphs"][0]["changed"]
    assert annotated_orders(GraphView.of(load_graph(out).graph))


def test_a_bundle_is_rewritten_as_a_whole(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    tfwave("plan", bundle, "-o", plan)
    assert tfwave("rewrite", bundle, "--plan", plan, "--passes", "recv_priority", "-o", out).code == 0
    rewritten = load_bundle(out)
    assert annotated_orders(rewritten.view)
    assert rewritten.steps == small_bundle().steps
    assert tfwave("undo", out, "-o", tmp_path / "back").code == 0
    assert load_bundle(tmp_path / "back").graphs == small_bundle().graphs
    assert tfwave("diff", bundle, out).code == 1
    assert tfwave("diff", bundle, tmp_path / "back").code == 0


def test_partitions_are_compared_by_device_in_whatever_order_a_capture_has_them(
    tfwave: Command, bundle: Path, tmp_path: Path
) -> None:
    turned = small_bundle()
    save_bundle(replace(turned, graphs=turned.graphs[::-1]), tmp_path / "turned")
    ran = tfwave("diff", bundle, tmp_path / "turned")
    assert (ran.code, ran.out.count(": equal\n")) == (0, len(turned.graphs))
    save_bundle(replace(turned, graphs=turned.graphs[:1]), tmp_path / "one")
    ran = tfwave("diff", bundle, tmp_path / "one")
    assert (ran.code, f"only one of them has '{WORKER}'" in ran.err) == (2, True)


def test_a_graph_that_is_not_cut_yet_is_planned_and_rewritten(tfwave: Command, tmp_path: Path) -> None:
    uncut, plan, out, parts = (tmp_path / name for name in ("uncut.pb", "plan.json", "out.pb", "parts.pb"))
    uncut.write_bytes(random_uncut(random.Random(5)).graph.SerializeToString(deterministic=True))
    assert tfwave("plan", uncut, "--policy", "tic", "-o", plan).code == 0
    assert tfwave("inspect", uncut, "--plan", plan).code == 0
    window = "recv_priority,ack_window{window=1}"
    assert tfwave("rewrite", uncut, "--plan", plan, "--passes", window, "-o", out).code == 0
    assert any(node.name.endswith("/ack_gate_0") for node in load_graph(out).graph.node)
    chained = "cut,recv_priority,control_edges"
    assert tfwave("rewrite", uncut, "--plan", plan, "--passes", chained, "-o", parts).code == 0
    for rewritten in (out, parts):
        assert tfwave("undo", rewritten, "-o", tmp_path / "back.pb").code == 0
        assert tfwave("diff", uncut, tmp_path / "back.pb").code == 0


def test_a_job_is_planned_that_names_no_task(tfwave: Command, tmp_path: Path) -> None:
    """As `replica_device_setter` names the worker, where nobody says which."""
    item = random_uncut(random.Random(5))
    for named in ("/job:worker", WORKER):
        for node in item.graph.node:
            node.device = SERVERS[0] if "ps" in node.device else named
        (tmp_path / "uncut.pb").write_bytes(item.graph.SerializeToString(deterministic=True))
        ran = tfwave("plan", tmp_path / "uncut.pb", "--policy", "tic", "-o", tmp_path / f"{len(named)}.json")
        assert ran.code == 0
    first, second = (load_plan(file) for file in sorted(tmp_path.glob("*.json")))
    assert first.orders == second.orders


@pytest.fixture
def uncut(tmp_path: Path) -> Path:
    file = tmp_path / "uncut.pb"
    file.write_bytes(random_uncut(random.Random(5)).graph.SerializeToString(deterministic=True))
    return file


FETCH = ("--fetch", "total:0")


def test_one_command_plans_and_rewrites(tfwave: Command, uncut: Path, tmp_path: Path) -> None:
    plan, two, one, back = (tmp_path / name for name in ("plan.json", "two.pb", "one.pb", "back.pb"))
    assert tfwave("plan", uncut, "--policy", "tic", *FETCH, "-o", plan).code == 0
    given = ("--plan", plan, "--passes", "recv_priority,ack_window{window=2}")
    assert tfwave("rewrite", uncut, *given, *FETCH, "-o", two).code == 0
    asked = ("--passes", "recv_priority{policy=tic},ack_window{window=2}")
    assert tfwave("rewrite", uncut, *asked, *FETCH, "-o", one).code == 0
    assert one.read_bytes() == two.read_bytes() != uncut.read_bytes()
    assert tfwave("diff", uncut, one).code == 1
    assert tfwave("undo", one, "-o", back).code == 0
    assert tfwave("diff", uncut, back).code == 0


def test_times_for_a_policy_come_from_a_file(tfwave: Command, graph: Path, tmp_path: Path) -> None:
    costs, plan, two, one = (tmp_path / name for name in ("costs.json", "plan.json", "two.pb", "one.pb"))
    names = {node.name: node.op for node in load_graph(graph).graph.node}
    seconds = {
        "ops": {name: 1.0 for name, op in names.items() if op != "_Recv"},
        "transfers": {name: 2.0 for name, op in names.items() if op == "_Recv"},
    }
    costs.write_text(json.dumps(seconds))
    assert tfwave("plan", graph, "--costs", costs, "-o", plan).code == 0
    assert tfwave("rewrite", graph, "--plan", plan, "--passes", "recv_priority", "-o", two).code == 0
    asked = ("--passes", "recv_priority{policy=tac}", "--costs", costs)
    assert tfwave("rewrite", graph, *asked, "-o", one).code == 0
    noted = [annotated_orders(GraphView.of(load_graph(file).graph)) for file in (one, two)]
    assert noted[0] == noted[1]
    seconds["ops"].pop("b")
    costs.write_text(json.dumps(seconds))
    missed = tfwave("rewrite", graph, *asked, "-o", one)
    assert (missed.code, "'b'" in missed.err) == (2, True)


def test_all_partitions_of_a_bundle_take_one_plan(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    plan, two, one = tmp_path / "plan.json", tmp_path / "two", tmp_path / "one"
    tfwave("plan", bundle, "-o", plan)
    assert tfwave("rewrite", bundle, "--plan", plan, "--passes", "recv_priority", "-o", two).code == 0
    assert tfwave("rewrite", bundle, "--passes", "recv_priority{policy=tac}", "-o", one).code == 0
    assert annotated_orders(load_bundle(one).view)
    assert load_bundle(one).graphs == load_bundle(two).graphs


def test_passes_may_come_from_a_file(tfwave: Command, uncut: Path, tmp_path: Path) -> None:
    file, long, short = tmp_path / "passes.txt", tmp_path / "long.pb", tmp_path / "short.pb"
    file.write_text("recv_priority{policy=tic},\n  ack_window{\n    window=2\n  }\n")
    assert tfwave("rewrite", uncut, "--passes-file", file, "-o", long).code == 0
    text = "recv_priority{policy=tic},ack_window{window=2}"
    assert tfwave("rewrite", uncut, "--passes", text, "-o", short).code == 0
    assert long.read_bytes() == short.read_bytes()


@pytest.mark.parametrize("out", ["{bundle}", "{bundle}/graphs", "-", "{bundle}/bundle.json"])
def test_a_bundle_is_not_written_over_itself(tfwave: Command, bundle: Path, out: str) -> None:
    ran = tfwave("rewrite", bundle, "--passes", "strip", "-o", out.format(bundle=bundle))
    assert ran.code == 2
    assert load_bundle(bundle).graphs == small_bundle().graphs


def test_standard_streams(plain: Path) -> None:
    command = [sys.executable, "-m", "tfwave", "rewrite", "-", "--passes", BARRIER, "-o", "-"]
    first = subprocess.run(command, input=plain.read_bytes(), capture_output=True, check=True, timeout=60)
    undo = [sys.executable, "-m", "tfwave", "undo", "-", "-o", "-"]
    second = subprocess.run(undo, input=first.stdout, capture_output=True, check=True, timeout=60)
    assert first.stdout != plain.read_bytes()
    assert second.stdout == plain.read_bytes()


def test_the_same_from_a_checkout(plain: Path, tmp_path: Path) -> None:
    tool = Path(__file__).parents[3] / "tools" / "rewrite_graph.py"
    out = tmp_path / "out.pb"
    command = [sys.executable, tool, plain, "--passes", BARRIER, "-o", out]
    subprocess.run(command, capture_output=True, check=True, timeout=60, cwd=tmp_path)
    assert len(load_graph(out).graph.node) == 5


def test_nothing_to_do_is_said(tfwave: Command, plain: Path, tmp_path: Path) -> None:
    ran = tfwave("undo", plain, "-o", tmp_path / "out.pb")
    assert ran.code == 0
    assert "nothing was to be done" in ran.err
    assert (tmp_path / "out.pb").read_bytes() == plain.read_bytes()


def test_each_stage_is_dumped(tfwave: Command, plain: Path, tmp_path: Path) -> None:
    dump = tmp_path / "stages"
    tfwave("rewrite", plain, "--passes", f"{BARRIER},strip", "-o", tmp_path / "o.pb", "--dump", dump)
    assert sorted(f.name for f in dump.iterdir()) == ["00_input.pb", "01_counter_barrier.pb", "02_strip.pb"]
    assert in_order(load_graph(dump / "02_strip.pb").graph) == in_order(chain().graph)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{plain}", "--passes", "nothing", "-o", "{out}"], "there is no pass 'nothing'"),
        (["{plain}", "--passes", "recv_priority", "-o", "{out}"], "needs a plan: give --plan FILE"),
        (["{plain}", "--passes", "strip", "-o", "{plain}"], "choose another name"),
        (
            ["{plain}", "--passes", "strip", "-o", "/no/such/place/out.pb"],
            "cannot write '/no/such/place/out.pb'",
        ),
        (["{plain}x", "--passes", "strip", "-o", "{out}"], "cannot read graph"),
        (["{plain}", "--passes", "strip", "-o", "-", "--json"], "cannot both go to standard output"),
        (["{plain}", "--passes", "strip", "-o", "{out}", "--plan", "{plain}"], "plan '{plain}'"),
        (["{plain}", "-o", "{out}"], "--passes TEXT or by --passes-file FILE: give one of them"),
        (["{plain}", "--passes", "strip", "--passes-file", "{plain}", "-o", "{out}"], "give one of them"),
        (["{plain}", "--passes-file", "{plain}x", "-o", "{out}"], "cannot read the passes file '{plain}x'"),
        (["{plain}", "--passes-file", "{plain}", "-o", "{out}"], "the pass"),
        (
            ["{plain}", "--passes", "strip", "--costs", "{plain}", "-o", "{out}"],
            "for a pass that plans by itself",
        ),
        (
            ["{plain}", "--passes", "recv_priority{{policy=tac}}", "-o", "{out}"],
            "needs times: give --costs FILE",
        ),
        (
            ["{plain}", "--passes", "recv_priority{{policy=tic}}", "-o", "{out}"],
            "transfers nothing from task to task",
        ),
        (
            ["{plain}", "--passes", 'counter_barrier{{groups=[["d"],["x"]]}}', "-o", "{out}"],
            "the graph has no node 'x'",
        ),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(
    tfwave: Command, plain: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    names = {"plain": plain, "out": tmp_path / "out.pb"}
    before = plain.read_bytes()
    ran = tfwave("rewrite", *(a.format(**names) for a in arguments))
    assert ran.code == 2
    assert ran.err.startswith("tfwave: error: ")
    assert ran.err.count("\n") == 1
    assert message.format(**names) in ran.err
    assert plain.read_bytes() == before
    assert not (tmp_path / "out.pb").exists()


def test_ops_of_the_users_own_are_named(tfwave: Command, tmp_path: Path) -> None:
    item = chain()
    item.graph.node.add(name="mine", op="MyOwnOp", input=["a:3"])
    file = tmp_path / "own.pb"
    file.write_bytes(item.graph.SerializeToString(deterministic=True))
    refused = tfwave("rewrite", file, "--passes", "strip", "-o", tmp_path / "out.pb")
    assert (refused.code, "--custom-op MyOwnOp" in refused.err) == (2, True)
    item.graph.node[-1].input[0] = "a"
    file.write_bytes(item.graph.SerializeToString(deterministic=True))
    taken = tfwave("rewrite", file, "--passes", "strip", "-o", tmp_path / "out.pb", "--custom-op", "MyOwnOp")
    assert taken.code == 0


def test_ops_of_the_users_own_are_looked_at_as_they_are(
    tfwave: Command, graph: Path, uncut: Path, tmp_path: Path
) -> None:
    for file in (graph, uncut):
        own = load_graph(file).graph
        own.node.add(name="mine", op="MyOwnOp", input=[own.node[0].name], device=WORKER)
        file.write_bytes(own.SerializeToString(deterministic=True))
    for command in (["inspect"], ["plan", "--policy", "tic"]):
        assert tfwave(*command, graph).code == 0
        refused = tfwave(*command, uncut)
        assert (refused.code, "offline where an op of your own ('MyOwnOp') runs" in refused.err) == (2, True)
    given = ("--custom-op", "MyOwnOp", "-o", tmp_path / "out.pb")
    ran = tfwave("rewrite", uncut, "--passes", "recv_priority{policy=tic},ack_window", *given)
    assert (ran.code, "'MyOwnOp') runs" in ran.err, "--custom-op" in ran.err) == (2, True, False)


def test_diff_says_what_differs(tfwave: Command, plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pb"
    tfwave("rewrite", plain, "--passes", BARRIER, "-o", out)
    lines = tfwave("diff", plain, out).out.splitlines()
    assert lines[0].startswith("+ tfwave/counter_barrier/")
    assert "~ d" in lines
    assert lines[-1] == f"{plain}: 1 nodes added, 0 removed, 1 changed"
    found = json.loads(tfwave("diff", plain, out, "--json").out)[str(plain)]
    assert (found["equal"], len(found["nodes"]["added"]), found["nodes"]["changed"][0]["name"]) == (
        False,
        1,
        "d",
    )


def test_passes_lists_the_catalogue(tfwave: Command) -> None:
    shown = tfwave("passes").out
    listed = json.loads(tfwave("passes", "--json").out)
    assert [doc["name"] for doc in listed] == list(pass_names())
    assert all(doc["name"] in shown and doc["summary"] for doc in listed)


def test_fetches_say_what_a_step_runs(tfwave: Command, tmp_path: Path) -> None:
    uncut, plan, out = (tmp_path / name for name in ("uncut.pb", "plan.json", "out.pb"))
    uncut.write_bytes(random_uncut(random.Random(5)).graph.SerializeToString(deterministic=True))
    fetch = ("--fetch", "op0:0")
    planned = json.loads(tfwave("plan", uncut, "--policy", "tic", *fetch, "-o", plan, "--json").out)
    assert tfwave("inspect", uncut, "--plan", plan).code == 2
    assert tfwave("inspect", uncut, "--plan", plan, *fetch).code == 0
    everything = json.loads(tfwave("plan", uncut, "--policy", "tic", "--json").out)
    count = {
        name: sum(len(o["transfers"]) for o in p["orders"])
        for name, p in (("step", planned), ("all", everything))
    }
    assert 0 < count["step"] < count["all"]
    passes = "recv_priority,ack_window{window=1}"
    assert tfwave("rewrite", uncut, "--plan", plan, *fetch, "--passes", passes, "-o", out).code == 0
    holds = [node.name for node in load_graph(out).graph.node if "/ack_hold_" in node.name]
    assert len(holds) == count["step"]
    refused = tfwave("plan", uncut, "--policy", "tic", "--fetch", "nowhere:0")
    assert (refused.code, "the fetch 'nowhere:0'" in refused.err) == (2, True)
