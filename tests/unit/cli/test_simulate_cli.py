"""`tfwave simulate`: what it prints and writes."""

import json
from pathlib import Path

import pytest

from tests.bundles import SERVER
from tests.graphs import WORKER
from tests.unit.conftest import Command, refused
from tfwave.whatif.timeline_file import load_timeline


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    file = tmp_path / "costs.json"
    document = {"ops": {"a": 2, "b": 1, "grad": 1}, "transfers": {"recv1": 3, "recv2": 1, "recv3": 1}}
    file.write_text(json.dumps(document))
    return file


def test_the_table_says_what_is_predicted_and_how_far_that_is_off(tfwave: Command, bundle: Path) -> None:
    ran = tfwave("simulate", bundle, "--workers", 2, "--batch-scale", 2)
    assert ran.code == 0, ran.err
    shown = " ".join(ran.out.split())
    for text in (
        "policy tac",
        "captured",
        "workers 2",
        "costs: ops estimated, transfers estimated (minimum of 2 runs)",
        "each as captured, fitted, off by 0.0%",
        "workers: an estimate",
        "batch-scale: an estimate",
        "captured 40.00 ms, simulated unordered",
        "±1",
    ):
        assert text in shown
    assert "servers: an estimate" not in shown


def test_json_has_a_row_for_each_combination(tfwave: Command, bundle: Path) -> None:
    sweeps = ("--sweep", "bandwidth=1gbit,10gbit", "--sweep", "workers=1,2,3")
    ran = tfwave("simulate", bundle, "--latency", "1ms", *sweeps, "--json")
    assert (ran.code, ran.out) == (0, tfwave("simulate", bundle, "--latency", "1ms", *sweeps, "--json").out)
    document = json.loads(ran.out)
    rows = document["configurations"]
    assert [(r["bytes_per_second"], r["workers"]) for r in rows] == [
        (None, None),
        *((bandwidth, workers) for bandwidth in (1e9 / 8, 1e10 / 8) for workers in (1, 2, 3)),
    ]
    assert rows[1]["configuration"] == "latency 1ms, bandwidth 1gbit, workers 1"
    assert document["captured_seconds"] == 0.04
    assert document["error"] == pytest.approx(rows[0]["unordered_seconds"] / 0.04 - 1)
    assert all(row["error"] == document["error"] for row in rows)
    assert document["card"]["bytes_per_second"] == pytest.approx(1e8, rel=0.02)


def test_a_plan_rules_all_configurations(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    tfwave("plan", bundle, "--policy", "reverse", "-o", tmp_path / "p.json")
    ran = tfwave("simulate", bundle, "--plan", tmp_path / "p.json", "--workers", 2, "--json")
    planned = json.loads(ran.out)["configurations"]
    ran = tfwave("simulate", bundle, "--policy", "reverse", "--workers", 2, "--json")
    assert planned == json.loads(ran.out)["configurations"]
    assert {row["policy"] for row in planned} == {"reverse"}


def test_the_trace_holds_both_steps(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    ran = tfwave("simulate", bundle, "--workers", 2, "--trace", tmp_path / "t.json")
    assert ran.code == 0
    assert "written to" in ran.out
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    second = WORKER.replace("task:0", "task:1")
    for mode in ("ordered", "unordered"):
        for resource in (WORKER, second, SERVER, f"{SERVER} -> {second}"):
            assert any(event["pid"] == f"{mode}: {resource}" for event in events)


def test_the_timeline_is_that_of_the_last_ordered_step(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    ran = tfwave("simulate", bundle, "--sweep", "workers=1,2", "--timeline", tmp_path / "t.json", "--json")
    last = json.loads(ran.out)["configurations"][-1]
    timeline = load_timeline(tmp_path / "t.json")
    assert timeline.makespan_seconds == last["ordered_seconds"]
    assert len([i for i in timeline.intervals if i.kind == "transfer"]) == 8


def test_a_graph_needs_costs_and_has_no_error(tfwave: Command, graph: Path, costs: Path) -> None:
    ran = tfwave("simulate", graph, "--costs", costs, "--workers", 2, "--json")
    rows = json.loads(ran.out)["configurations"]
    assert [row["ordered_seconds"] for row in rows] == [8.0, 12.0]
    assert rows[0]["error"] is None
    ran = tfwave("simulate", graph, "--costs", costs)
    assert "no step was captured to compare with" in " ".join(ran.out.split())
    assert "unknown" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--bandwidth", "much"], "--bandwidth much: bandwidth 'much' is malformed"),
        (["--sweep", "speed=1"], "--sweep 'speed=1' is malformed"),
        (["--servers", "2"], "no variable is on a server"),
        (["--balance"], "no variable is on a server"),
        (
            ["--job", "server", "--workers", "2"],
            "no worker receives from a server (a task of the job 'server')",
        ),
        (["--policy", "best"], "no policy 'best'"),
        (["--plan", "gone.json"], "cannot read plan 'gone.json'"),
        (["--plan", "gone.json", "--policy", "tac"], "--plan and --policy both"),
        (["--costs", "gone.json"], "leave out --costs"),
        (["--trace", "no/such/place.json"], "cannot write 'no/such/place.json'"),
        (["--timeline", "no/such/place.json"], "cannot write 'no/such/place.json'"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    tfwave: Command, bundle: Path, arguments: list[str], says: str
) -> None:
    refused(tfwave("simulate", bundle, *arguments), says)


def test_a_bar_that_is_not_shown_prints_no_line(
    tfwave: Command, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rich 14.1 and older ends also one that is disabled by an empty line, where no terminal is."""
    monkeypatch.setattr("rich.progress.Progress.stop", lambda bar: bar.console.print())
    assert tfwave("simulate", bundle).err == ""


def test_other_inputs_are_refused(
    tfwave: Command, bundle: Path, graph: Path, costs: Path, tmp_path: Path
) -> None:
    assert "'--costs FILE" in tfwave("simulate", graph).err.replace("or --", "'--")
    ran = tfwave("simulate", graph, "--costs", costs, "--bandwidth", "1gbit")
    assert (ran.code, "the size of the transfer" in ran.err) == (2, True)
    tfwave("plan", graph, "--policy", "tic", "-o", tmp_path / "p.json")
    ran = tfwave("simulate", bundle, "--plan", tmp_path / "p.json")
    assert (ran.code, "made for another graph" in ran.err) == (2, True)


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("simulate", "--help")
    assert (ran.code, "Examples" in ran.out) == (0, True)
    assert "tfwave simulate demo-run/bundle" in ran.out
