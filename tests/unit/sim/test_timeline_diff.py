"""Timelines as files, of captured steps, and what differs between two."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.bundles import SERVER, SIZES, small_bundle, traced_step
from tests.graphs import WORKER
from tests.unit.conftest import Command
from tfwave.bundle.bundle import save_bundle
from tfwave.errors import TfwaveError
from tfwave.sim.timeline import Interval, Timeline
from tfwave.whatif.difference import Use, compare
from tfwave.whatif.measured import measured_timeline
from tfwave.whatif.timeline_file import load_timeline, save_timeline

PULLS = f"{SERVER} -> {WORKER}"


def a_timeline() -> Timeline:
    return Timeline(
        (
            Interval(0.0, 1.0, PULLS, "edge_7_v", "transfer", 10),
            Interval(0.5, 2.0, WORKER, "a", "op"),
            Interval(1.0, 3.0, PULLS, "edge_8_c", "control"),
            Interval(1.0, 3.0, WORKER, "b", "op"),
        ),
        4.0,
        {PULLS: 1, WORKER: 2},
    )


def test_a_file_holds_a_timeline(tmp_path: Path) -> None:
    save_timeline(a_timeline(), tmp_path / "one.json")
    assert load_timeline(tmp_path / "one.json") == a_timeline()
    save_timeline(load_timeline(tmp_path / "one.json"), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"version": 2}, "is of version 2"),
        ({"kind": "plan"}, "'kind'"),
        ({"more": 1}, "'more'"),
        ({"makespan_seconds": -1}, "'makespan_seconds'"),
        ({"servers": {}}, "is damaged"),
        ({"servers": {WORKER: 0}}, "'servers'"),
        ({"intervals": [{}]}, "'intervals' -> '0' -> 'begin_seconds'"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, edit: dict[str, Any], says: str) -> None:
    file = tmp_path / "t.json"
    save_timeline(a_timeline(), file)
    file.write_text(json.dumps(json.loads(file.read_text()) | edit))
    with pytest.raises(TfwaveError) as refused:
        load_timeline(file)
    assert str(file) in str(refused.value)
    assert says in str(refused.value)


def test_truncated_and_foreign_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    save_timeline(a_timeline(), file)
    whole = file.read_bytes()
    for content in (
        whole[:-20],
        b"",
        b"\xff\xfe",
        b"[]",
        whole.replace(b'"end_seconds": 2.0', b'"end_seconds": 0.1'),
    ):
        file.write_bytes(content)
        with pytest.raises(TfwaveError, match=r"t\.json' is"):
            load_timeline(file)
    with pytest.raises(TfwaveError, match="cannot read timeline"):
        load_timeline(tmp_path / "gone")


def test_a_captured_step_is_the_median_of_those_traced() -> None:
    found = measured_timeline(small_bundle())
    ops = {i.name: i for i in found.intervals if i.kind == "op"}
    assert {name: round(i.seconds, 9) for name, i in ops.items()} == {
        "a": 1.5e-3,
        "b": 2e-3,
        "grad": 2.5e-3,
        "apply": 150e-6,
    }
    assert ops["a"].begin_seconds == pytest.approx(5e-6)
    pulls = [i for i in found.intervals if i.resource == PULLS]
    assert [(i.name, i.bytes) for i in pulls] == [
        (f"edge_{n}_{name}", SIZES[name]) for n, name in enumerate(("v1", "v2", "v3"), 1)
    ]
    for one, other in pairwise(pulls):
        assert other.begin_seconds == pytest.approx(one.end_seconds)
    assert found.makespan_seconds == pytest.approx(max(i.end_seconds for i in found.intervals))


def test_runs_of_an_op_add_up() -> None:
    bundle = small_bundle()
    step = traced_step({"a": 1000, "b": 1000, "grad": 1000, "apply": 100})
    again = step.dev_stats[1].node_stats.add(node_name="a", all_start_micros=1_004_000)
    again.op_end_rel_micros = again.all_end_rel_micros = 500
    (op,) = [i for i in measured_timeline(replace(bundle, steps=(step,))).intervals if i.name == "a"]
    assert (op.begin_seconds, op.seconds) == (pytest.approx(5e-6), pytest.approx(1.5e-3))


def test_what_differs() -> None:
    a = a_timeline()
    b = Timeline(
        (
            Interval(0.0, 2.0, PULLS, "edge_99_v", "transfer", 10),
            Interval(2.0, 2.5, PULLS, "edge_100_v", "transfer", 10),
            Interval(0.75, 2.25, WORKER, "a", "op"),
            Interval(3.0, 4.0, WORKER, "c", "op"),
        ),
        5.0,
        {PULLS: 1, WORKER: 2},
    )
    found = compare(a, b)
    assert (found.makespan_a, found.makespan_b) == (4.0, 5.0)
    assert found.uses == (
        Use(PULLS, 1.0, 2.5, 0.25, 0.5),
        Use(WORKER, 3.5, 2.5, 2.5 / 4, 2.5 / 5),
    )
    assert [(s.name, s.later, s.longer) for s in found.shifts] == [("v", 0.0, 1.0), ("a", 0.25, 0.0)]
    assert [s.name for s in found.most_shifted(5)] == ["a"]
    assert [s.name for s in found.most_changed(5)] == ["v"]
    assert found.most_changed(0) == []
    assert (found.only_a, found.only_b) == (((WORKER, "b"),), ((PULLS, "v (1)"), (WORKER, "c")))


def test_nothing_differs_from_itself(tfwave: Command, bundle: Path) -> None:
    document = json.loads(tfwave("timeline-diff", bundle, bundle, "--json").out)
    assert document["in_both"] == 8
    assert [document[key] for key in ("most_shifted", "most_changed", "only_a", "only_b")] == [[]] * 4


def test_the_command_compares_a_capture_with_a_simulation(
    tfwave: Command, bundle: Path, tmp_path: Path
) -> None:
    tfwave("simulate", bundle, "--bandwidth", "10gbit", "--workers", 2, "--timeline", tmp_path / "t.json")
    ran = tfwave("timeline-diff", bundle, tmp_path / "t.json", "--top", 1)
    assert ran.code == 0, ran.err
    shown = " ".join(ran.out.split())
    for text in (
        "8 ops and transfers are in both",
        "ps:0/CPU:0 -> worker:0/CPU:0",
        "only in B:",
        "and 7 more",
    ):
        assert text in shown
    document = json.loads(tfwave("timeline-diff", bundle, tmp_path / "t.json", "--json").out)
    assert document["most_changed"][0]["name"] == "v3"
    assert document["only_a"] == []
    assert len(document["only_b"]) == 8


def test_the_command_tells_what_became_slower(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    slow = traced_step({"a": 1500, "b": 2000, "grad": 9000, "apply": 150})
    save_bundle(replace(small_bundle(), steps=(slow, slow)), tmp_path / "slow")
    document = json.loads(tfwave("timeline-diff", bundle, tmp_path / "slow", "--json", "--top", 1).out)
    (worst,) = document["most_changed"]
    assert (worst["name"], worst["seconds_b"]) == ("grad", pytest.approx(9e-3))


def test_the_command_refuses_what_is_neither(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    for other in (tmp_path / "x.json", tmp_path / "gone", tmp_path):
        ran = tfwave("timeline-diff", bundle, other)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert str(other) in ran.err


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("timeline-diff", "--help")
    assert (ran.code, "Examples" in ran.out) == (0, True)
    assert "tfwave timeline-diff demo-run/bundle" in ran.out
