"""`tfwave colocate`: what it prints, draws and refuses."""

import json
from pathlib import Path

import pytest

from tests.grouped import limit_for
from tests.memory_steps import Step, bundle_of, counted, graph
from tests.unit.conftest import Command, refused
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.memory.slots import room

MB = 1_000_000
PEAK = 2 * MB + 4


def scale(limit: int) -> str:
    """How many times as large the step could be under a limit, rounded down."""
    return f"{room(limit, 1) * 100 // PEAK / 100:.2f}"


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """A step that rises to 2 MB, and falls."""
    made = graph(("c", "Const", []), ("a", "Fill", ["c"]), ("b", "Fill", ["c"]), ("g", "AddN", ["a", "b"]))
    step = Step()
    step.run("a", 0, (MB, 1), allocated=[MB], freed=[(30, MB)])
    step.run("b", 10, (MB, 2), allocated=[MB], freed=[(30, MB)])
    step.run("g", 20, (4, 3), allocated=[4], freed=[(30, 4)])
    for event in step.stats.dev_stats[0].node_stats:
        event.op_end_rel_nanos = 5_000_000
    save_bundle(bundle_of([made], step.stats), tmp_path / "captured")
    return tmp_path / "captured"


def test_jobs_that_fit(tfwave: Command, captured: Path) -> None:
    ran = tfwave("colocate", captured, captured, "--memory", "8MB")
    assert (ran.code, ran.err) == (0, "")
    shown = " ".join(ran.out.split())
    assert "captured-2" in shown
    assert (
        "fits: predicted peak 3.8 MiB of 7.6 MiB; predicted: 15.00 ms for a step of each, 30.00 ms in turn"
        in shown
    )
    assert f"largest batches, all scaled alike: {scale(8 * MB)} x the captured ones; an estimate" in shown


def test_room_for_one_at_a_time_gains_nothing(tfwave: Command, captured: Path) -> None:
    ran = tfwave("colocate", captured, captured, "--memory", str(limit_for(PEAK)))
    assert ran.code == 0
    assert "no gain expected, as there is room for one at a time" in " ".join(ran.out.split())


def test_busy_cores_gain_nothing(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    save_bundle(counted(load_bundle(captured), 0.18), tmp_path / "busy")
    ran = tfwave("colocate", tmp_path / "busy", tmp_path / "busy", "--memory", "8MB")
    shown = " ".join(ran.out.split())
    why = "side by side saves less than 5% (they keep the cores busy: busy 90%, busy-2 90%)"
    assert f"no gain expected, as {why}: 30.00 ms for a step of each" in shown


def test_one_job_is_beside_no_other(tfwave: Command, captured: Path) -> None:
    ran = tfwave("colocate", captured, "--memory", "8MB")
    assert "side by side" not in ran.out


def test_what_the_send_hook_ran_in_a_captured_step_is_not_the_jobs(tfwave: Command, captured: Path) -> None:
    """It marks the steps of a worker that `tfwave.Server` serves, in a graph that a bundle does not hold."""
    before = tfwave("colocate", captured, "--memory", "8MB", "--json").out
    bundle = load_bundle(captured)
    events = bundle.steps[0].dev_stats[0].node_stats
    events.add(node_name="TfwaveStep_G12", all_start_micros=events[0].all_start_micros)
    save_bundle(bundle, captured.with_name("marked") / "captured")
    ran = tfwave("colocate", captured.with_name("marked") / "captured", "--memory", "8MB", "--json")
    assert (ran.code, ran.err, ran.out) == (0, "", before)


def test_jobs_that_do_not_fit(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    ran = tfwave("colocate", captured, "--memory", "1MB", "--plot", tmp_path / "p.svg")
    assert (ran.code, ran.err) == (1, "")
    shown = " ".join(ran.out.split())
    assert (
        "does not fit: the job 'captured' alone peaks at 1.9 MiB by the model, and of the limit of 976.6 KiB"
        in shown
    )
    assert f"{scale(MB)} x the captured ones" in shown
    assert not (tmp_path / "p.svg").exists()


def test_json_holds_the_plan(tfwave: Command, captured: Path) -> None:
    ran = tfwave("colocate", captured, captured, "--memory", "8MB", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert document["fits"] is True
    assert [job["name"] for job in document["jobs"]] == ["captured", "captured-2"]
    plan = document["plan"]
    turns = [turn for slot in plan["slots"] for turn in slot]
    assert len(turns) == sum(len(job["groups"]) for job in plan["jobs"])
    assert plan["jobs"][0]["groups"][0]["ops"][0] == "a"
    assert plan["seconds"] < plan["in_turn_seconds"]
    narrow = tfwave("colocate", captured, "--memory", "1MB", "--json")
    assert narrow.code == 1
    assert json.loads(narrow.out)["plan"] is None


def test_algorithm_one_and_its_split_size_are_options(tfwave: Command, captured: Path) -> None:
    pair = ("colocate", captured, captured, "--memory", "8MB", "--json")
    plans = {
        extra: json.loads(tfwave(*pair, *extra).out)["plan"]
        for extra in ((), ("--policy", "algorithm1"), ("--policy", "algorithm1", "--split-size", "1MB"))
    }
    found = [[len(job["groups"]) for job in plan["jobs"]] for plan in plans.values()]
    assert found == [[1, 1], [1, 1], [3, 3]]
    assert tfwave(*pair, "--policy", "tac").code == 2
    ran = tfwave(*pair, "--split-size", "none")
    assert (ran.code, "'none' is no size of a memory" in ran.err) == (2, True)


@pytest.mark.parametrize(("name", "begins"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml")])
def test_the_plan_is_drawn(tfwave: Command, captured: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib")
    drawn = []
    for _ in range(2):
        ran = tfwave("colocate", captured, captured, "--memory", "8MB", "--plot", tmp_path / name)
        assert (ran.code, ran.err) == (0, "")
        assert "drawn to" in ran.out
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0].startswith(begins)
    assert drawn[0] == drawn[1]


def test_what_it_cannot_do_is_refused_in_one_line(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    for arguments, says in (
        ((tmp_path / "gone", "--memory", "8MB"), "is not a capture bundle"),
        ((captured, "--memory", "plenty"), "'plenty' is no size of a memory"),
        ((captured, "--memory", "8MB", "--plot", tmp_path / "m.html"), "must end in .png or .svg"),
        ((captured, "--memory", "8MB", "--device", "/x"), "'/x', but of"),
    ):
        refused(tfwave("colocate", *arguments), says)
    assert tfwave("colocate", captured).code == 2


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("colocate", "--help")
    assert ran.code == 0
    assert "tfwave colocate resnet bert --memory 512MiB" in ran.out
