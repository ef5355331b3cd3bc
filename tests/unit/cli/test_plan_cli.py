"""What the commands that decide write, and what `tfwave inspect --plan` shows of it."""

import json
from pathlib import Path

import pytest

from tests.grouped import limit_for
from tests.unit.cli.test_colocate_cli import MB, PEAK, captured
from tests.unit.conftest import Command, Ran
from tests.unit.distribute.test_balance_graphs import job_bundle
from tests.unit.plan.test_verdict import two_steps
from tfwave.plan.io import load_plan
from tfwave.proto.tensorflow_pb2 import GraphDef

__all__ = ["captured", "job_bundle"]


@pytest.fixture
def overlapping(tmp_path: Path) -> Path:
    """A graph of two steps, in which the second one pulls behind pushes of the first."""
    graph = tmp_path / "two_steps.pb"
    graph.write_bytes(GraphDef(node=two_steps()[0].nodes).SerializeToString())
    return graph


def shown(ran: Ran) -> str:
    assert (ran.code, ran.err) == (0, "")
    return " ".join(ran.out.split())


def test_one_plan_takes_what_several_commands_decide(
    tfwave: Command, captured: Path, job_bundle: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    tfwave("plan", job_bundle, "-o", plan)
    tfwave("balance", job_bundle, "--add-to", plan, "-o", plan)
    assert "written to" in shown(
        tfwave("colocate", captured, captured, "--memory", "8MB", "--add-to", plan, "-o", plan)
    )
    found = load_plan(plan)
    assert found.has_order
    assert found.placement is not None
    assert found.groups is not None
    assert [planned.job.name for planned in found.groups.jobs] == ["captured", "captured-2"]
    text = shown(tfwave("inspect", "--plan", plan))
    for part in (
        "policy tac",
        "jobs in 7.6 MiB",
        "side by side, slots: 1; predicted: peak 3.8 MiB, 15.00 ms for a step of each, 30.00 ms in turn",
        "variables on 2 servers",
        "no placement gives the busiest less than 7.9 KiB",
    ):
        assert part in text
    assert json.loads(tfwave("inspect", "--plan", plan, "--json").out) == json.loads(plan.read_text())
    assert "The plan belongs to this graph: the order." in shown(
        tfwave("inspect", job_bundle, "--plan", plan)
    )
    belongs = "The plan belongs to this graph: the job 'captured', the job 'captured-2'."
    assert belongs in shown(tfwave("inspect", captured, "--plan", plan))


def test_steps_that_overlap_go_by_urgency_whatever_the_policy(
    tfwave: Command, overlapping: Path, tmp_path: Path
) -> None:
    ran = tfwave("plan", overlapping, "--policy", "fifo")
    assert (ran.code, "policy urgency" in ran.out) == (0, True)
    assert ran.err == "steps overlap: ordered by urgency, not by --policy fifo\n"
    costs = tmp_path / "costs.json"
    view, known = two_steps()
    found = {"ops": known.ops, "transfers": known.transfers}
    named = {kind: {view.names[node]: taken for node, taken in of.items()} for kind, of in found.items()}
    costs.write_text(json.dumps(named))
    for line in (("plan", overlapping), ("simulate", overlapping, "--costs", costs)):
        ran = tfwave(*line, "--policy", "nosuch")
        assert (ran.code, ran.out) == (2, "")
        assert "there is no policy 'nosuch'" in ran.err


def test_estimates_need_the_time_of_a_transfer(tfwave: Command, graph: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    for policy in ("tac", "fifo"):
        costs.write_text('{"ops": {"a": 2, "b": 1, "grad": 1}, "transfers": {}}')
        line = ("plan", graph, "--costs", costs, "--policy", policy, "--missing", "estimate")
        ran = tfwave(*line)
        assert (ran.code, ran.out) == (2, "")
        assert "estimates need the time of at least one transfer" in ran.err
        costs.write_text('{"ops": {"a": 2, "b": 1, "grad": 1}, "transfers": {"recv1": 3}}')
        assert tfwave(*line).code == 0


def test_without_add_to_a_plan_is_written_anew(tfwave: Command, job_bundle: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    tfwave("plan", job_bundle, "-o", plan)
    tfwave("balance", job_bundle, "-o", plan)
    assert not load_plan(plan).has_order


def test_what_does_not_fit_is_not_written(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    ran = tfwave("colocate", captured, "--memory", str(limit_for(PEAK) - MB), "-o", plan)
    assert ran.code == 1
    assert "written to" not in ran.out
    assert not plan.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("inspect",), "there is nothing to inspect: give a graph, a bundle or --plan FILE"),
        (("balance", "{bundle}", "--add-to", "{plan}"), "give -o FILE, too"),
        (("balance", "{bundle}", "--add-to", "{gone}", "-o", "{plan}"), "cannot read plan"),
    ],
)
def test_what_cannot_be_is_refused(
    tfwave: Command, job_bundle: Path, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    places = {"bundle": job_bundle, "plan": tmp_path / "plan.json", "gone": tmp_path / "gone.json"}
    ran = tfwave(*(argument.format(**places) for argument in arguments))
    assert ran.code == 2
    assert says in ran.err
    assert not (tmp_path / "plan.json").exists()
