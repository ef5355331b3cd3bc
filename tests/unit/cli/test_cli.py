"""The command line: what it prints, and its exit codes."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundles import SERVER, small_bundle
from tests.graphs import WORKER
from tests.memory_steps import Step, bundle_of
from tests.memory_steps import graph as one_task
from tests.unit.conftest import Command, Ran, refused
from tfwave.bundle.bundle import save_bundle
from tfwave.cli.commands import COMMANDS, Imported
from tfwave.demo import model as demo_model
from tfwave.graph.load import load_graph
from tfwave.plan.io import load_plan
from tfwave.plan.message import to_dict
from tfwave.report.conformance import HandOff
from tfwave.report.run import save_run
from tfwave.version import __version__


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    file = tmp_path / "costs.json"
    document = {"ops": {"a": 2, "b": 1, "grad": 1}, "transfers": {"recv1": 3, "recv2": 1, "recv3": 1}}
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_of_a_command_what_it_says_of_itself(name: str) -> None:
    command = Imported()[name]
    assert command.name == name
    assert " ".join(command.help.partition("\n\n")[0].split()) == COMMANDS[name].told


@pytest.mark.parametrize(("name", "option"), [("launch", "--workers"), ("background", "--memory")])
def test_what_follows_a_program_is_the_programs_and_what_precedes_it_is_not(
    tfwave: Command, name: str, option: str
) -> None:
    own = [option, "8", "--help", "--", "-x"]
    read = Imported()[name].make_context(name, [option, "3", "train.py", *own])
    assert (str(read.params[option.strip("-")]), read.args) == ("3", own)
    ran = tfwave(name, f"{option}x", "3", __file__)
    assert (ran.code, ran.out) == (2, "")
    assert "No such option" in ran.err
    assert f"{option}x" in ran.err


@pytest.mark.parametrize("width", [80, 100])
def test_help_is_wrapped_as_the_terminal_is_wide(
    tfwave: Command, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A line ends early where the next word has no room, not where a line of the source does."""
    monkeypatch.setenv("COLUMNS", str(width))
    for line in (("waves", "--help"), ("burst", "plan", "--help")):
        told = tfwave(*line).out.partition("Examples")[0]
        for paragraph in re.split(r"\n\s*\n", told):
            for text, following in itertools.pairwise(map(str.strip, paragraph.strip().splitlines())):
                assert len(f"{text} {following.split()[0]}") > width - 3


def test_help_has_all_commands_and_what_each_is_for(tfwave: Command) -> None:
    shown = "".join(tfwave("--help").out.split())
    for name, command in COMMANDS.items():
        assert f"│{name}{''.join(command.told.split())[:20]}" in shown


def test_a_command_that_there_is_not_is_refused(tfwave: Command) -> None:
    ran = tfwave("plam")
    assert (ran.code, ran.out) == (2, "")
    assert "No such command 'plam'" in ran.err
    assert "Did you mean 'plan'" in ran.err


def test_plan_prints_json_and_writes_both_forms(
    tfwave: Command, graph: Path, costs: Path, tmp_path: Path
) -> None:
    plans = []
    for name in ("p.json", "p.pb"):
        ran = tfwave("plan", graph, "--costs", costs, "-o", tmp_path / name, "--json")
        assert (ran.code, ran.err) == (0, "")
        plans.append(load_plan(tmp_path / name))
        assert json.loads(ran.out) == to_dict(plans[-1])
    assert plans[0] == plans[1]
    assert plans[0].policy == "tac"
    assert (plans[0].costs.ops, plans[0].costs.detail) == ("file", "costs.json")
    assert sorted(t.node for t in plans[0].transfers) == ["recv1", "recv2", "recv3"]


def test_plan_prints_a_table(tfwave: Command, graph: Path, tmp_path: Path) -> None:
    ran = tfwave("plan", graph, "--policy", "tic", "-o", tmp_path / "p.json")
    assert ran.code == 0
    shown = " ".join(ran.out.split())
    for text in (
        "policy tic; costs: ops uniform",
        "what to expect is not known: without times",
        "3 transfers",
        "│ unknown │ v3:0",
        "written to",
    ):
        assert text in shown
    assert "step:" not in shown


def test_plan_reads_standard_input(tfwave: Command, graph: Path) -> None:
    ran = tfwave("plan", "-", "--policy", "fifo", "--json", stdin=graph.read_bytes())
    assert json.loads(ran.out)["policy"] == "fifo"
    assert ran.out == tfwave("plan", graph, "--policy", "fifo", "--json").out


def test_plan_takes_measured_costs_from_a_bundle(tfwave: Command, bundle: Path) -> None:
    document = json.loads(tfwave("plan", bundle, "--json").out)
    assert document["costs"]["ops"] == "measured"
    assert [(o["source_device"], o["destination_device"]) for o in document["orders"]] == [(SERVER, WORKER)]
    assert [t["bytes"] for t in document["orders"][0]["transfers"]] == [100, 1_000_000, 2_000_000]


@pytest.mark.parametrize("command", ["plan", "simulate", "balance"])
def test_a_bundle_has_its_own_fetches(tfwave: Command, bundle: Path, command: str) -> None:
    ran = tfwave(command, bundle, "--fetch", "nowhere:0")
    refused(ran, "a capture bundle has its own fetches: leave out --fetch")


def test_plan_says_how_far_its_forecast_of_the_captured_step_is_off(tfwave: Command, bundle: Path) -> None:
    """The bundle's steps say 40 ms; the graph's own costs sum to less."""
    assert re.search(
        r"captured 40\.00 ms, simulated unordered 33\.71 ms: -15\.7%", tfwave("plan", bundle).out
    )


def test_plan_says_how_busy_the_cores_were(tfwave: Command, bundle: Path) -> None:
    """Two cores worked 32 ms in steps of 40 ms; a bundle need not know."""
    assert "cores of the capturing machine" not in tfwave("plan", bundle).out
    manifest = json.loads((bundle / "bundle.json").read_text())
    manifest |= {"cores": 2, "steps": [step | {"core_seconds": 0.032} for step in manifest["steps"]]}
    (bundle / "bundle.json").write_text(json.dumps(manifest))
    assert "cores of the capturing machine: 40% busy" in tfwave("plan", bundle).out


def test_seeds_choose_among_random_orders(tfwave: Command, graph: Path) -> None:
    orders = {tfwave("plan", graph, "--policy", "random", "--seed", s, "--json").out for s in range(8)}
    assert len(orders) > 1
    assert tfwave("plan", graph, "--policy", "random", "--seed", 7, "--json").out in orders


def test_a_policy_may_lie_in_the_working_directory(
    tfwave: Command, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python looks there for what `python -m tfwave` runs, and not for what the command does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    Path("my_orders.py").write_text("from tfwave.order.baselines import fifo\n")
    assert tfwave("plan", graph, "--policy", "my_orders:fifo", "--json").code == 0


@pytest.mark.parametrize("policy", ["tac", "search", "exact"])
def test_an_order_by_times_needs_costs(tfwave: Command, graph: Path, policy: str) -> None:
    ran = tfwave("plan", graph, "--policy", policy)
    refused(ran, f"'{policy}' needs times", "--costs FILE", "choose the policy 'tic'")


def test_a_missing_cost_names_the_node_and_may_be_estimated(
    tfwave: Command, graph: Path, costs: Path
) -> None:
    costs.write_text('{"ops": {"a": 2, "grad": 1}, "transfers": {"recv1": 3, "recv2": 1, "recv3": 1}}')
    refused(tfwave("plan", graph, "--costs", costs), "'b' (AddN)")
    ran = tfwave("plan", graph, "--costs", costs, "--missing", "estimate", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["costs"]["ops"] == "estimated"


def test_a_lost_transfer_names_its_receive_and_may_be_estimated(tfwave: Command, tmp_path: Path) -> None:
    save_bundle(small_bundle(lost=frozenset({"v2"})), tmp_path / "lossy")
    refused(tfwave("plan", tmp_path / "lossy"), "'recv2'")
    assert tfwave("plan", tmp_path / "lossy", "--missing", "estimate").code == 0


def test_plan_refuses_what_it_cannot_do(tfwave: Command, graph: Path, tmp_path: Path) -> None:
    refused(tfwave("plan", tmp_path / "gone.pb"), "gone.pb", "No such file")
    refused(tfwave("plan", tmp_path), "is a directory, but neither a capture bundle nor a SavedModel")
    refused(tfwave("plan", graph, "--policy", "best", "--costs", tmp_path / "gone"), "gone", "No such file")
    refused(tfwave("plan", graph, "--policy", "best"), "no policy 'best'", "tic, tac, fifo, random, reverse")
    refused(tfwave("plan", graph, "--policy", "tic", "--device", "/x"), "'/x'", WORKER)
    refused(tfwave("plan", graph, "--policy", "tic", "-o", tmp_path / "no" / "p.json"), "cannot write")
    refused(tfwave("plan", "-", "--policy", "tic"), "'-' is empty")
    refused(tfwave("plan", "-", "--policy", "tic", stdin=graph.read_bytes()[:-40]), "truncated")
    assert tfwave("plan", graph, "--missing", "guess").code == 2


def test_inspect_shows_a_graph(tfwave: Command, graph: Path) -> None:
    found = json.loads(tfwave("inspect", graph, "--json").out)
    assert found["nodes"] == len(load_graph(graph).graph.node)
    assert found["devices"] == {WORKER: found["nodes"]}
    assert found["channels"] == [
        {
            "source_device": SERVER,
            "destination_device": WORKER,
            "transfers": 3,
            "bytes": 0,
            "control_only": 0,
        }
    ]
    ran = tfwave("inspect", graph)
    assert ran.code == 0
    assert "worker:0/CPU:0" in ran.out


def test_inspect_shows_a_bundle(tfwave: Command, bundle: Path) -> None:
    found = json.loads(tfwave("inspect", bundle, "--json").out)
    assert [c["bytes"] for c in found["channels"]] == [3_000_100, 50_000]
    assert found["capture"]["steps"] == 2
    assert found["capture"]["missing_transfer_events"] == 0
    assert len(found["capture"]["links"]) == 2
    iterations = found["capture"]["iterations"]
    assert [(i["step"], round(i["efficiency"], 2)) for i in iterations] == [(0, 1.0), (1, 1.0)]
    assert all(i["lower_seconds"] <= i["seconds"] < i["upper_seconds"] for i in iterations)
    ran = tfwave("inspect", bundle)
    assert "traced steps by their own times" in ran.out
    assert ran.code == 0
    assert "2 steps, median 40.00 ms, 0 transfer events lost" in ran.out.replace("\n", " ")
    assert "2.9 MiB │" in ran.out
    assert re.search(r"│ +800\.\d Mbit/s │", ran.out)  # BYTES_PER_SECOND


def test_inspect_checks_a_plan(tfwave: Command, graph: Path, bundle: Path, tmp_path: Path) -> None:
    plan = tmp_path / "p.json"
    tfwave("plan", graph, "--policy", "tic", "-o", plan)
    ran = tfwave("inspect", graph, "--plan", plan)
    assert ran.code == 0
    assert "belongs to this graph" in ran.out.replace("\n", " ")
    assert tfwave("inspect", graph, "--plan", plan, "--json").code == 0
    refused(tfwave("inspect", bundle, "--plan", plan), "made for another graph")
    refused(tfwave("inspect", graph, "--plan", tmp_path / "gone"), "cannot read plan")


@pytest.mark.parametrize("words", [["passes"], ["passes", "--json"]])
def test_a_full_disk_is_said(words: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "tfwave", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 2
    assert ran.stderr == "tfwave: error: No space left on device: not all of the output was written\n"


def test_the_version_is_said(tfwave: Command) -> None:
    assert tfwave("--version") == Ran(0, f"tfwave {__version__}\n", "")


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_a_capture_of_one_task_has_no_order(tfwave: Command, tmp_path: Path, command: str) -> None:
    step = Step()
    step.run("a", 0, (4, 1), allocated=[4])
    save_bundle(bundle_of([one_task(("a", "Const", []))], step.stats), tmp_path / "alone")
    refused(tfwave(command, tmp_path / "alone"), "transfers nothing from task to task", "`tfwave memory`")
    shown = tfwave("inspect", tmp_path / "alone").out
    assert "no transfers between tasks" in shown
    assert "bandwidth" not in shown


def test_the_demo_refuses_wrong_names_before_it_starts_anything(tfwave: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(tfwave("demo", "--model", "NoNet", "-o", out), "no model 'NoNet'", "VGG16Like", "ResNet50, ")
    refused(tfwave("demo", "--policy", "best", "-o", out), "no policy 'best'")
    refused(tfwave("demo", "--device", "TPU:0", "-o", out), "'TPU:0' is no device of a worker", "CPU:1")
    assert not out.exists()


def test_the_demo_asks_for_the_tf_keras_of_the_tensorflow_that_is_there(
    tfwave: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself tf_keras brings the full tensorflow, whichever is installed, and the newest."""
    monkeypatch.setattr(demo_model, "find_spec", lambda name: None)
    monkeypatch.setattr(demo_model, "tensorflow_version", lambda: "2.19.1")
    refused(tfwave("demo"), "needs tf_keras: pip install --no-deps 'tf_keras==2.19.*'")


def run_of(place: Path, ranks: list[int]) -> Path:
    save_run(place, {m: [HandOff(1, "c", r, "TURN") for r in ranks] for m in ("unordered", "ordered")})
    return place


def test_conformance_exits_0_1_and_2(tfwave: Command, tmp_path: Path) -> None:
    refused(tfwave("conformance", tmp_path), "is not a run", "give what `tfwave demo -o` wrote")
    assert tfwave("conformance", run_of(tmp_path, [0, 1])).code == 0
    ran = tfwave("conformance", run_of(tmp_path, [1, 0]), "--json")
    assert ran.code == 1
    judged = json.loads(ran.out)["ordered"]
    assert (judged["exact"], judged["inversions"], judged["inversion_share"]) == (False, 1, 1.0)
    ran = tfwave("conformance", tmp_path)
    assert (ran.code, "100.0%" in ran.out) == (1, True)


def test_json_is_json_where_there_is_no_share(tfwave: Command, tmp_path: Path) -> None:
    ran = tfwave("conformance", run_of(tmp_path, [0]), "--json")
    assert ran.code == 0
    assert json.loads(ran.out, parse_constant=pytest.fail)["ordered"]["inversion_share"] == "NaN"


@pytest.mark.parametrize("command", ["doctor", "inspect", "plan", "demo", "conformance"])
def test_help_has_examples(tfwave: Command, command: str) -> None:
    ran = tfwave(command, "--help")
    assert ran.code == 0
    assert "Examples" in ran.out
    assert f"tfwave {command}" in ran.out
