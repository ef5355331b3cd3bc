"""`tfwave memory`: what it prints, draws and refuses."""

import builtins
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.memory_steps import DEVICE, Step, bundle_of, declare, graph
from tests.unit.conftest import Command, refused
from tfwave.bundle.bundle import save_bundle
from tfwave.plan.io import load_plan


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    made = graph(
        ("c", "Const", []),
        ("a", "Fill", ["c"]),
        ("b", "Relu", ["a"]),
        ("loss", "Sum", ["b"]),
        ("g", "Neg", ["b"]),
    )
    small, large = Step(), Step()
    small.run("a", 0, (1, 1), allocated=[1])
    large.run("c", 0, (4, 9))
    large.run("a", 10, (2_000_000, 1), allocated=[2_000_000, 500_000], freed=[(12, 500_000), (39, 2_000_000)])
    large.run("b", 20, (2_000_000, 1))
    large.run("loss", 25, (4, 2), allocated=[4])
    large.run("g", 30, (1_000_000, 3), allocated=[1_000_000], freed=[(40, 1_000_000)], lasts=10)
    save_bundle(bundle_of([made], small.stats, large.stats), tmp_path / "captured")
    return tmp_path / "captured"


def test_the_table_shows_the_peak_and_the_largest_tensors(tfwave: Command, captured: Path) -> None:
    ran = tfwave("memory", captured, "--top", 2)
    assert (ran.code, ran.err) == (0, "")
    shown = " ".join(ran.out.split())
    for text in (
        "localhost:0/CPU:0: step 2 of 2, that with the highest peak; 5 ops in 0.04 ms",
        "peak: 2.9 MiB, at 75% of the step, in g",
        "largest piece (a tensor, or an op's scratch): 1.9 MiB",
        "resident (variables, constants, fed): 4 bytes; others in the pool: not known",
        "least pool: 3.8 MiB, by a model of TensorFlow's allocator",
        "first increase, then drop: 100% of",
        "│ a:0 │ 1.9 MiB │ 1 │ 25% │ 100% │ g │",
        "│ g:0 │ 976.6 KiB │ 0 │ 75% │ 100% │ g │",
        "... and 1 more",
    ):
        assert text in shown
    assert "│ loss:0 │ 4 bytes │ 0 │ 62% │ - │ loss │" in " ".join(tfwave("memory", captured).out.split())


def test_json_holds_the_profile_and_the_curve(tfwave: Command, captured: Path) -> None:
    ran = tfwave("memory", captured, "--json", "--device", DEVICE)
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert (document["device"], document["step"], document["steps"]) == (DEVICE, 1, 2)
    assert (document["peak_bytes"], document["peak_op"], document["resident_bytes"]) == (3_000_008, "g", 4)
    assert document["least_pool_bytes"] >= document["peak_bytes"]
    assert document["largest_piece_bytes"] == 2_000_000
    assert document["ops"][1] == {
        "node": "a",
        "takes": 2_000_000,
        "scratch": 500_000,
        "gives": 0,
        "beside": 0,
    }
    assert document["tensors"][0] == {
        "names": ["a:0", "b:0"],
        "bytes": 2_000_000,
        "born": "a",
        "last_read": "g",
        "dies": "g",
        "born_seconds": pytest.approx(10e-6),
        "dies_seconds": pytest.approx(40e-6),
    }
    assert document["tensors"][2]["dies"] is document["tensors"][2]["dies_seconds"] is None
    assert max(point["bytes"] for point in document["curve"]) == 3_000_008
    assert sorted(document["shape"]) == ["drop", "over_average", "peak_at", "rise"]
    assert ran.out == tfwave("memory", captured, "--json").out


@pytest.mark.parametrize(("name", "begins"), [("m.png", b"\x89PNG"), ("m.svg", b"<?xml")])
def test_the_curve_is_drawn(
    tfwave: Command, captured: Path, tmp_path: Path, name: str, begins: bytes
) -> None:
    pytest.importorskip("matplotlib")
    drawn = []
    for _ in range(2):
        ran = tfwave("memory", captured, "--plot", tmp_path / name)
        assert (ran.code, ran.err) == (0, "")
        assert "drawn to" in ran.out
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0].startswith(begins)
    assert drawn[0] == drawn[1]


def test_a_plot_without_matplotlib_names_the_extra(
    tfwave: Command, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("matplotlib"):
            raise builtins.ModuleNotFoundError(f"No module named '{name}'")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    refused(tfwave("memory", captured, "--plot", tmp_path / "m.png"), "'tfwave[plot]'")
    assert not (tmp_path / "m.png").exists()


def test_what_it_cannot_do_is_refused_in_one_line(
    tfwave: Command, captured: Path, bundle: Path, tmp_path: Path
) -> None:
    for arguments, says in (
        ((tmp_path / "gone",), "is not a capture bundle"),
        ((bundle,), "tell nothing of memory: capture the job again"),
        ((captured, "--device", "/x"), "'/x', but of"),
        ((captured, "--plot", tmp_path / "m.html"), "must end in .png or .svg"),
    ):
        refused(tfwave("memory", *arguments), says)
    assert tfwave("memory", captured, "--top", 0).code == 2


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("memory", "--help")
    assert ran.code == 0
    assert "Examples" in ran.out
    assert "tfwave memory captured --json" in ran.out


def test_placement_shows_what_each_allocator_needs(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    plan, drawn = tmp_path / "plan.json", tmp_path / "placed.svg"
    ran = tfwave("memory", captured, "--placement", "-o", plan, "--plot", drawn)
    assert (ran.code, ran.err) == (0, "")
    shown = " ".join(ran.out.split())
    for text in (
        "step 2 as traced; 3 allocations that it takes and gives back",
        "2.9 MiB at once at most",
        "│ bfc, one region │ 2.9 MiB │ 1.000 │",
        "│ cnmem │ 3.3 MiB │ 1.167 │",
        "│ offline │ 2.9 MiB │ 1.000 │",
        f"written to '{plan}'",
    ):
        assert text in shown
    memory = load_plan(plan).memory
    assert memory is not None
    assert (memory.policy, memory.order, memory.tensors) == ("placement", ("c", "a", "b", "loss", "g"), ())
    assert sorted((place.op, place.bytes) for place in memory.places) == [
        ("a", 500_224),
        ("a", 2_000_128),
        ("g", 1_000_192),
    ]
    assert memory.region_bytes == 3_000_320
    assert b"offline placement" in drawn.read_bytes()


def test_what_becomes_the_value_of_a_variable_has_no_place(tfwave: Command, tmp_path: Path) -> None:
    """It would hold it behind the step, and what lies there in the next one would find it taken."""
    made = graph(
        ("w", "VarHandleOp", []),
        ("a", "Fill", []),
        ("moved", "Mul", ["a", "a"]),
        ("assign", "AssignVariableOp", ["w", "moved"]),
        ("rate", "Const", []),
        ("update", "ResourceApplyGradientDescent", ["w", "rate", "a", "^assign"]),
    )
    step, size = Step(), 1_000_192
    step.run("a", 0, (size, 1), allocated=[size], freed=[(35, size)])
    step.run("moved", 10, (size, 2), allocated=[size], freed=[(24, size)])
    step.run("assign", 20)
    step.run("update", 30, allocated=[size], freed=[(34, size)])
    save_bundle(bundle_of([declare(made, "w", 1)], step.stats), tmp_path / "captured")
    assert tfwave("memory", tmp_path / "captured", "--placement", "-o", tmp_path / "plan.json").code == 0
    memory = load_plan(tmp_path / "plan.json").memory
    assert memory is not None
    assert [place.op for place in memory.places] == ["a"]
    assert memory.peak_bytes - memory.region_bytes >= size


def test_placement_as_json_names_each_way(tfwave: Command, captured: Path) -> None:
    document = json.loads(tfwave("memory", captured, "--placement", "--json").out)
    assert (document["as"], document["allocations"], document["live_peak_bytes"]) == ("traced", 3, 3_000_320)
    placings = {each["placing"]: each for each in document["placings"]}
    assert list(placings) == ["bfc", "bfc, one region", "best fit", "cnmem", "gtbm", "offline"]
    assert placings["bfc"]["pool_bytes"] == 6 << 20
    assert placings["offline"]["over_peak"] == 1


def test_a_plan_is_for_placement_only(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    for option in ("-o", "--plan"):
        ran = tfwave("memory", captured, option, tmp_path / "plan.json")
        assert ran.code != 0
        assert "--plan and -o are for --placement" in ran.err
