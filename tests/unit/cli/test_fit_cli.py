"""`tfwave fit`: what it prints, writes and refuses."""

import importlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.memory_steps import Step, bundle_of, declare, graph
from tests.unit.conftest import Command, refused
from tfwave.bundle.bundle import Bundle, load_bundle, save_bundle
from tfwave.errors import BundleError
from tfwave.offload.batch import largest_batch
from tfwave.offload.captured import captured_step
from tfwave.offload.curve import fitted_curve, plain_curve
from tfwave.offload.question import Question
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import DT_FLOAT

MIB = 2**20


def training(mebibytes: int) -> Bundle:
    """x -> a -> b -> loss, then db -> da -> g -> update, which want a, b and a mask of b."""
    made = graph(
        ("w", "VarHandleOp", []),
        ("read", "ReadVariableOp", ["w"]),
        ("x", "Const", []),
        ("a", "Mul", ["x", "read"]),
        ("b", "Exp", ["a"]),
        ("mask", "Sign", ["b"]),
        ("loss", "Sqrt", ["b"]),
        ("dloss", "OnesLike", ["loss"]),
        ("db", "Mul", ["dloss", "mask"]),
        ("da", "Mul", ["db", "a"]),
        ("g", "Mul", ["da", "b"]),
        ("rate", "Const", []),
        ("update", "ResourceApplyGradientDescent", ["w", "rate", "g"]),
    )
    declare(made, "w", 1)
    for node in made.node:
        node.attr["dtype" if node.op in {"Const", "ReadVariableOp", "VarHandleOp"} else "T"].type = DT_FLOAT
    step, size = Step(), mebibytes * MIB
    step.run("read", 0, (4, 9))
    step.run("x", 1, (4, 10))
    at = {"a": 10, "b": 20, "mask": 30, "loss": 40, "dloss": 50, "db": 60, "da": 70, "g": 80}
    dies = {"a": 75, "b": 85, "mask": 65, "loss": 95, "dloss": 65, "db": 75, "da": 85, "g": 95}
    for place, (name, begin) in enumerate(at.items()):
        bytes_ = 4 if name == "loss" else size
        step.run(name, begin, (bytes_, 100 + place), allocated=[bytes_], freed=[(dies[name], bytes_)])
    step.run("update", 90)
    return bundle_of([made], step.stats, fetches=["loss:0", "update"])


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    save_bundle(training(8), tmp_path / "captured")
    return tmp_path / "captured"


def test_it_says_how_the_step_fits_and_writes_the_plan(
    tfwave: Command, captured: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    ran = tfwave("fit", captured, "--memory", "34MiB", "-o", plan)
    assert (ran.code, ran.err) == (0, "")
    shown = " ".join(ran.out.split())
    for text in (
        "step 1 holds 40.0 MiB as captured",
        "it fits into 34 MiB with some tensors away",
        "largest batch, estimated from one capture",
        "tensors that are away",
        f"written to '{plan}'",
    ):
        assert text in shown
    memory = load_plan(plan).memory
    assert memory is not None
    assert (memory.limit_bytes, memory.policy) == (34 * MIB, "greedy")
    assert memory.least_bytes <= 34 * MIB
    assert "predicted: peak" in " ".join(tfwave("inspect", "--plan", plan).out.split())


def test_with_placement_it_says_where_all_lies(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    ran = tfwave("fit", captured, "--memory", "26MiB", "--placement", "-o", plan)
    assert (ran.code, ran.err) == (0, "")
    memory = load_plan(plan).memory
    assert memory is not None
    assert memory.tensors
    assert memory.region_bytes < memory.peak_bytes <= 26 * MIB
    added = {f"{name.partition(':')[0]}" for tensor in memory.tensors for name in tensor.names}
    assert added & {place.op.partition("/")[0] for place in memory.places if "/" in place.op}
    assert set(memory.apart) <= {place.op for place in memory.places}
    shown = " ".join(tfwave("inspect", "--plan", plan).out.split())
    assert f"{len(memory.places)} places" in shown
    told = json.loads(tfwave("fit", captured, "--memory", "26MiB", "--placement", "--json").out)
    assert told["extra_seconds"] == memory.extra_seconds > 0


def test_json_is_the_same_each_time(tfwave: Command, captured: Path) -> None:
    ran = tfwave("fit", captured, "--memory", "34MiB", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert found["fits"]
    assert found["memory"]["peak_bytes"] <= found["usable_bytes"] < found["limit_bytes"] == 34 * MIB
    assert found["largest_batch"]["plain"] < 1 < found["largest_batch"]["fitted"]
    assert ran.out == tfwave("fit", captured, "--memory", "34MiB", "--json").out


@pytest.mark.parametrize("placement", [[], ["--placement"]])
def test_a_batch_that_does_not_fit_is_above_the_largest_that_does(
    tfwave: Command, captured: Path, placement: list[str]
) -> None:
    """Also where all that is held would have room, and does not find it in one piece."""
    asked = "fit", captured, "--json", *placement, "--memory"
    least = json.loads(tfwave(*asked, "8MiB").out)["least_bytes"]
    less = least - 1 if placement else round(least * 0.98)  # it is looked for in steps
    for limit, fits in ((less, False), (least, True)):
        found = json.loads(tfwave(*asked, str(limit)).out)
        assert found["fits"] is fits
        assert (found["largest_batch"]["fitted"] >= 1) is fits
        assert found["largest_batch"]["plain"] <= found["largest_batch"]["fitted"]


@pytest.mark.parametrize(
    ("device", "estimated", "kept"), [("/cpu:0", False, 0.02), ("/gpu:0", False, 0.1), ("/cpu:0", True, 0.1)]
)
def test_a_tenth_of_a_gpus_pool_is_kept_free_and_for_estimates(
    device: str, *, estimated: bool, kept: float
) -> None:
    captured = captured_step(training(8))
    there = replace(captured, step=replace(captured.step, device=device))
    assert Question(there, None, 10_000 * MIB, estimated=estimated).usable == 10_000 * MIB * (1 - kept)


def test_a_pool_has_whole_mebibytes(tfwave: Command, captured: Path) -> None:
    """Of a part TensorFlow's has nothing; a planned one has what it is given."""
    at_least = {}
    for placement in ([], ["--placement"]):
        asked = "fit", captured, "--json", *placement, "--memory"
        least = at_least[bool(placement)] = json.loads(tfwave(*asked, "64MiB").out)["least_bytes"]
        found = json.loads(tfwave(*asked, str(least + MIB - 1)).out)
        whole = least if not placement else least + MIB - 1
        assert found["memory"]["limit_bytes"] == whole
        assert found["usable_bytes"] == int(whole * 0.98)
    assert at_least[False] % MIB == 0
    assert at_least[True] % MIB


def test_two_captures_tell_how_bytes_grow(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    save_bundle(training(16), tmp_path / "twice")
    ran = tfwave("fit", captured, "--memory", "84MiB", "--at-other-batch", tmp_path / "twice", "--json")
    assert json.loads(ran.out)["largest_batch"]["plain"] == pytest.approx(0.98 * 84 / 40, rel=0.01)
    plan = tmp_path / "plan.json"
    ran = tfwave("fit", captured, "--memory", "84MiB", "--at-other-batch", captured, "-o", plan)
    assert (ran.code, "hold the same bytes" in ran.err, plan.exists()) == (2, True, False)


def test_two_captures_are_of_one_step_at_batches_that_differ(captured: Path) -> None:
    step = captured_step(load_bundle(captured)).step
    renamed = tuple(replace(op, node=f"other/{op.node}") if i % 3 else op for i, op in enumerate(step.ops))
    with pytest.raises(BundleError, match=r"different steps, which share 4 of 11 ops: capture the same step"):
        largest_batch(step, 84 * MIB, replace(step, ops=renamed))
    hardly = tuple(replace(b, bytes=b.bytes + b.bytes // 250) for b in step.buffers)
    with pytest.raises(BundleError, match="hardly differ: capture the step at another batch"):
        largest_batch(step, 84 * MIB, replace(step, buffers=hardly))


def test_a_step_without_room_ends_with_code_1(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    ran = tfwave("fit", captured, "--memory", "8MiB", "-o", tmp_path / "none.json")
    assert ran.code == 1
    (needed,) = re.findall(
        r"it does not fit into 8 MiB: it needs (.*) at the least", " ".join(ran.out.split())
    )
    assert "may do with less: ask with --placement" in ran.out
    assert "--placement" not in tfwave("fit", captured, "--memory", "8MiB", "--placement").out
    enough = tfwave("fit", captured, "--memory", needed)
    assert enough.code == 0
    assert "--placement" not in enough.out
    assert not (tmp_path / "none.json").exists()
    least = json.loads(tfwave("fit", captured, "--memory", "8MiB", "--json").out)["least_bytes"]
    assert tfwave("fit", captured, "--memory", least).code == 0
    assert tfwave("fit", captured, "--memory", round(least * 0.98)).code == 1


def test_what_it_cannot_plan_is_refused_in_one_line(
    tfwave: Command, captured: Path, bundle: Path, tmp_path: Path
) -> None:
    looped = Step()
    for at in (0, 10):
        looped.run("a", at, (8, 1), allocated=[8], freed=[(at + 4, 8)])
    save_bundle(bundle_of([graph(("a", "NoOp", []))], looped.stats), tmp_path / "looped")
    still = Step()
    still.run("a", 0, (8, 1), allocated=[8], freed=[(4, 8)])
    save_bundle(bundle_of([graph(("a", "NoOp", []))], still.stats, fetches=["a"]), tmp_path / "still")
    for place, says in (
        (bundle, "ran in 2 parts"),
        (tmp_path / "looped", "'a' ran 2 times in the step"),
        (tmp_path / "still", "its backward pass is not found"),
        (tmp_path / "gone", "is not a capture bundle"),
    ):
        refused(tfwave("fit", place, "--memory", "1MiB"), says)
    assert "no size of a memory" in tfwave("fit", captured, "--memory", "much").err


@pytest.mark.parametrize(("name", "begins"), [("m.png", b"\x89PNG"), ("m.svg", b"<?xml")])
def test_what_is_held_and_away_is_drawn(
    tfwave: Command, captured: Path, tmp_path: Path, name: str, begins: bytes
) -> None:
    pytest.importorskip("matplotlib")
    drawn: list[bytes] = []
    for _ in range(2):
        ran = tfwave("fit", captured, "--memory", "34MiB", "--plot", tmp_path / name)
        assert (ran.code, ran.err) == (0, "")
        assert f"drawn to '{tmp_path / name}'" in ran.out
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0].startswith(begins)
    assert drawn[0] == drawn[1]
    ran = tfwave("fit", captured, "--memory", "8MiB", "--plot", tmp_path / name)
    assert (ran.code, "drawn to" in ran.out) == (1, True)
    assert (tmp_path / name).read_bytes() != drawn[0]
    ran = tfwave("fit", captured, "--memory", "34MiB", "--plot", tmp_path / "m.html")
    assert (ran.code, "must end in .png or .svg" in ran.err) == (2, True)


def test_the_drawn_curves_are_what_is_held_and_away(captured: Path) -> None:
    """`a` is made again behind db; in between, it is not there."""
    asked = Question(captured_step(load_bundle(captured)), None, 36 * MIB)
    assert asked.fit is not None
    plain, curve = plain_curve(asked.captured.step), fitted_curve(asked.fit.forecast)
    assert (plain // MIB).tolist() == [0, 0, 8, 16, 24, 24, 32, 40, 32, 24, 8]
    assert (curve.held // MIB).tolist() == [0, 0, 8, 16, 16, 16, 24, 32, 32, 24, 8]
    assert (curve.recomputed // MIB).tolist() == [0, 0, 0, 0, 8, 8, 8, 8, 0, 0, 0]
    assert not curve.offloaded.any()


def test_exact_without_scipy_names_the_extra(
    tfwave: Command, captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("scipy"):
            raise ModuleNotFoundError(f"No module named '{name}'")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    ran = tfwave("fit", captured, "--memory", "34MiB", "--policy", "exact")
    assert (ran.code, ran.out) == (2, "")
    assert "'tfwave[exact]'" in ran.err


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("fit", "--help")
    assert (ran.code, "tfwave fit captured --memory 512MiB" in ran.out) == (0, True)


def test_a_plan_is_placed_as_it_would_run(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    plan, other = tmp_path / "plan.json", tmp_path / "other.json"
    assert tfwave("fit", captured, "--memory", "1GiB", "--policy", "dymem", "-o", plan).code == 0
    placed = tfwave("memory", captured, "--placement", "--plan", plan, "--json")
    traced = tfwave("memory", captured, "--placement", "--json")
    assert (placed.code, placed.err) == (0, "")
    document = json.loads(placed.out)
    assert document["as"] == "planned"
    assert document["allocations"] > json.loads(traced.out)["allocations"]
    renamed = plan.read_text().replace('"db"', '"other"')
    other.write_text(renamed)
    assert (
        "is for another step than that of the bundle"
        in tfwave("memory", captured, "--placement", "--plan", other).err
    )
    save_plan(Plan(placement=Placement(1)), other)
    assert "has no section memory" in tfwave("memory", captured, "--placement", "--plan", other).err
