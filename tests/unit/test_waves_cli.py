"""`tfwave waves`: what it says of tick-tock before a run, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.memory_steps import DEVICE, Step, bundle_of, graph
from tests.unit.conftest import Command
from tfwave.capture.bundle import StepSummary, save_bundle
from tfwave.memory.waves import room

MB = 1_000_000
OPS = 10
"""Each way: so many take 1 MB, one after another, and as many more give it back."""


def save(path: Path, core_seconds: float | None) -> Path:
    takes = [(f"a{i}", "Fill", ["c"]) for i in range(OPS)]
    gives = [(f"b{i}", "Sum", [f"a{OPS - 1 - i}"]) for i in range(OPS)]
    step = Step()
    for i in range(OPS):
        end = 10 * (2 * OPS - i)
        step.run(f"a{i}", 10 * i, (MB, i + 1), lasts=10, allocated=[MB], freed=[(end, MB)])
    for i in range(OPS):
        step.run(f"b{i}", 10 * (OPS + i), lasts=10)
    made = bundle_of([graph(("c", "Const", []), *takes, *gives)], step.stats)
    summary = StepSummary(seconds=0.1, missing_transfers=0, core_seconds=core_seconds)
    known = {"steps": [summary], "cores": 2}
    save_bundle(type(made)(made.manifest.model_copy(update=known), made.graphs, made.steps), path)
    return path


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """A step that rises to 10 MB, falls, and keeps 30 % of two cores busy."""
    return save(tmp_path / "captured", 0.06)


def test_a_memory_bound_step_gains(tfwave: Command, captured: Path) -> None:
    ran = tfwave("waves", captured, "--memory", "10.5MB", "--pace", "steady")
    assert (ran.code, ran.err) == (0, "")
    shown = " ".join(ran.out.split())
    for text in (
        "localhost:0/CPU:0: step 1 of 1, 0.20 ms needs 10.0 MB of 10.5 MB (95%), 0 bytes of it resident",
        "bound by memory, a batch 1.03 times as large fits",
        "keeps 30% of the compute units busy (counted): whatever runs beside it, no more than x3.33",
        "gain expected: x",
        "number of waves: 2",
    ):
        assert text in shown


def test_no_gain_is_an_answer_with_its_reason(tfwave: Command, captured: Path) -> None:
    for arguments, why in (
        (
            ("--memory", "100MB", "--compute-share", 0.6),
            "not bound by memory: a batch 9.8 times as large fits",
        ),
        (("--memory", "10.5MB", "--compute-share", 1), "one wave keeps 100% of the compute units busy"),
        (("--memory", "10.5MB", "--sync-ms", 2, "--pace", "steady"), "the exchange of gradients takes 91%"),
    ):
        ran = tfwave("waves", captured, *arguments)
        assert (ran.code, ran.err) == (1, "")
        shown = " ".join(ran.out.split())
        assert "tick-tock will not help: x" in shown
        assert why in shown
        assert "number of waves: 1" in shown


def test_json_holds_the_figures_of_each_offset(tfwave: Command, captured: Path) -> None:
    ran = tfwave("waves", captured, "--memory", "10.5MB", "--pace", "steady", "--device", DEVICE, "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert (document["gain_expected"], document["memory_bound"], document["waves"]) == (True, True, 2)
    assert (document["peak_bytes"], document["limit_bytes"]) == (10 * MB, 10_500_000)
    assert document["usable_bytes"] == {"one_wave": room(10_500_000, 1), "two_waves": room(10_500_000, 2)}
    assert (document["compute_share"], document["compute_share_counted"]) == (pytest.approx(0.3), True)
    assert document["speedup_ceiling"] == pytest.approx(1 / 0.3)
    peaks = {choice["offset"]: choice["peak_bytes"] for choice in document["offsets"]}
    assert len(peaks) == 19
    assert list(peaks.values()) == sorted(peaks.values(), reverse=True)
    assert (peaks[0.05], peaks[0.95]) == (20 * MB, 10 * MB)
    best = max(document["offsets"], key=lambda choice: choice["speedup"])
    assert (best["offset"], best["speedup"]) == (document["best_offset"], document["speedup"]["predicted"])
    assert document["text"].startswith("gain expected")
    assert ran.out == tfwave("waves", captured, "--memory", 10_500_000, "--pace", "steady", "--json").out


def test_how_busy_a_step_is_must_be_known(tfwave: Command, tmp_path: Path) -> None:
    unknown = save(tmp_path / "unknown", None)
    ran = tfwave("waves", unknown, "--memory", "10.5MB")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "tfwave: error: the bundle does not say how busy the cores were: give --compute-share, or capture it "
        "again\n"
    )
    ran = tfwave("waves", unknown, "--memory", "10.5MB", "--compute-share", 0.3)
    assert "30% of the compute units busy (given)" in " ".join(ran.out.split())


def test_what_it_cannot_do_is_refused_in_one_line(
    tfwave: Command, captured: Path, bundle: Path, tmp_path: Path
) -> None:
    for arguments, says in (
        ((tmp_path / "gone",), "is not a capture bundle"),
        ((bundle,), "tell nothing of memory: capture the job again"),
        ((captured, "--device", "/x"), "'/x', but of"),
        ((captured, "--compute-share", 2), "give a share in (0, 1]"),
        ((captured, "--sync-ms", -1), "the exchange of gradients"),
    ):
        ran = tfwave("waves", *arguments, "--memory", "1GB")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("tfwave: error: ")
        assert ran.err.count("\n") == 1
        assert says in ran.err
    assert tfwave("waves", captured, "--memory", "some").code == 2
    assert tfwave("waves", captured, "--memory", "1GB", "--pace", "fast").code == 2


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("waves", "--help")
    assert ran.code == 0
    assert "Examples" in ran.out
    assert "tfwave waves captured --memory 512MiB --json" in ran.out
