"""The command line, as a user calls it: output, files and exit codes."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.graphs import SERVERS, WORKER, Builder
from tests.unit.test_bundle import FULL
from tfwave.capture.bundle import save_bundle
from tfwave.cli.app import app
from tfwave.plan.io import load_plan
from tfwave.report.conformance import HandOff
from tfwave.report.run import save_run


def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tfwave", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


def error_of(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 2, done
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("tfwave: error: ")
    return line


@pytest.fixture
def graph(tmp_path):
    build = Builder()
    for name in ("w0", "w1"):
        build.op(WORKER, f"use_{name}", [build.pair(name, SERVERS[0], WORKER, send=False)])
    path = tmp_path / "worker.pb"
    path.write_bytes(build.partitions[WORKER].SerializeToString())
    return path


@pytest.fixture
def costs(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text('{"ops": {"use_w0": 0.1, "use_w1": 0.4}, "transfers": {"recv1": 0.2, "recv2": 0.2}}')
    return path


def test_plan_with_costs_in_all_forms(graph, costs, tmp_path):
    done = run("plan", graph, "--costs", costs, "--json", "-o", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "plan.json").read_text())
    assert [t["node"] for t in printed["orders"][0]["transfers"]] == ["recv2", "recv1"]
    piped = run("plan", "-", "--costs", costs, "-o", tmp_path / "plan.pb", stdin=graph.read_bytes())
    assert piped.returncode == 0
    assert load_plan(tmp_path / "plan.pb") == load_plan(tmp_path / "plan.json")


def test_a_plan_needs_costs_and_names_the_one_that_is_missing(graph, tmp_path):
    assert "needs times" in error_of(run("plan", graph))
    some = tmp_path / "some.json"
    some.write_text('{"ops": {"use_w0": 0.1}, "transfers": {"recv1": 0.2, "recv2": 0.2}}')
    assert "use_w1" in error_of(run("plan", graph, "--costs", some, "-o", tmp_path / "p.json"))
    assert not (tmp_path / "p.json").exists()
    done = run("plan", graph, "--costs", some, "--missing", "estimate", "--json")
    assert json.loads(done.stdout)["costs"]["ops"] == "estimated"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('{"ops": {"a": -1}, "transfers": {}}', "a"),
        ('{"ops": {"a": NaN}, "transfers": {}}', "a"),
        ("{", "bad.json"),
    ],
)
def test_bad_costs_are_refused_in_one_line(content, word, graph, tmp_path):
    (tmp_path / "bad.json").write_text(content)
    assert word in error_of(run("plan", graph, "--costs", tmp_path / "bad.json"))


def test_bad_calls_are_refused_in_one_line(graph, tmp_path):
    assert "nosuch" in error_of(run("plan", "nosuch"))
    assert "bundle.json" in error_of(run("inspect", tmp_path))
    assert "tic, tac, fifo" in error_of(run("plan", graph, "--policy", "best"))
    assert f"choose one of {WORKER}" in error_of(run("plan", graph, "--policy", "tic", "--device", "x"))
    assert "nowhere" in error_of(run("plan", graph, "--policy", "tic", "-o", tmp_path / "nowhere" / "p.json"))
    assert "not a run" in error_of(run("conformance", tmp_path))


def test_inspect_checks_a_plan_against_a_bundle(graph, tmp_path):
    save_bundle(FULL, tmp_path / "bundle")
    done = run("plan", tmp_path / "bundle", "-o", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    found = run("inspect", tmp_path / "bundle", "--plan", tmp_path / "plan.json", "--json")
    assert json.loads(found.stdout)["capture"]["steps"] == 2
    assert run("inspect", tmp_path / "bundle").returncode == 0
    wrong = run("inspect", graph, "--plan", tmp_path / "plan.json")
    assert "another graph: it orders the transfer w2:0" in error_of(wrong)


def test_conformance_exits_with_0_only_if_the_order_was_kept(tmp_path):
    for ranks, code in [([0, 1], 0), ([1, 0], 1)]:
        kept = [HandOff(1, "a -> b", rank, "ORDERED") for rank in ranks]
        save_run(tmp_path, {"unordered": [], "ordered": kept})
        assert run("conformance", tmp_path, "--json").returncode == code


@pytest.mark.parametrize("command", ["doctor", "inspect", "plan", "demo", "conformance"])
def test_help_has_examples_and_json(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"tfwave {command}" in result.output
    assert "json" in result.output
