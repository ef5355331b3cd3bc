"""What was measured: the page of it, and measuring that is stopped and gone on with."""

import json
import re
import subprocess
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.pages import text_of
from tests.unit.tools.shown import assert_shown
from tools.bench import record
from tools.bench.session import Session
from tools.bench.view import Forecast, View
from tools.bench.views import VIEWS
from tools.measured import PAGE, RESULTS, foretold, page, rows, table

SAVED = "s/modes.stock.s"


def test_the_page_is_what_its_command_makes() -> None:
    assert text_of(PAGE) == page(), "run `make measured`"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_each_run_is_on_the_page_beside_its_machine(path: Path) -> None:
    section = text_of(PAGE).split(f"\n## {path.stem}\n")[1].split("\n## ")[0]
    for run in json.loads(path.read_text())["runs"]:
        assert f"    {run['command']}\n" in section
        assert f"On {run['machine']['cpu']}, {run['machine']['cores']} cores" in section


def test_runs_of_a_machine_are_in_one_table() -> None:
    """Though those of another are between them, as where some were measured again."""
    heads = re.findall(r"^## .+|^On .+(?=; load)", text_of(PAGE), re.MULTILINE)
    sections = "\n".join(heads).split("## ")[1:]
    assert all(len(lines) == len(set(lines)) for lines in map(str.splitlines, sections))


@pytest.mark.parametrize("name", [name for name in VIEWS if (RESULTS / f"{name}.json").exists()])
def test_each_table_has_rows_and_each_of_its_columns_a_value(name: str) -> None:
    runs = json.loads((RESULTS / f"{name}.json").read_text())["runs"]
    assert_shown(name, *(run["result"] for run in runs))


def test_rows_have_the_values_around_them() -> None:
    result = {"settings": {"rate": 1}, "results": [{"modes": {"a": {"x": 1}, "b": {"x": 2}}}, {"modes": {}}]}
    found = rows(result, "results/*/modes/*")
    assert [(row["settings.rate"], row["around"], row["mode"], row["x"]) for row in found] == [
        (1, 1, "a", 1),
        (1, 1, "b", 2),
    ]
    assert rows(result, "elsewhere/*") == []


TIMED = {
    "foretold": {"a": {"gain": 0.25}},
    "modes": {"stock": {"s": 4.0}, "a": {"s": 3.2}, "b": {"s": 2.0}},
}


def test_a_forecast_stands_beside_what_came_of_it() -> None:
    """Of the mode on which others gain there is none, and none of a mode of which none is recorded."""
    view = View(
        "Told.", "modes/*", ("mode", "s:time"), forecast=Forecast("foretold.{mode}.gain", SAVED, "stock")
    )
    (none, told, other) = foretold(view, rows(TIMED, view.rows))
    assert (none, other) == ({}, {})
    assert told == {
        "forecast_gain": 0.25,
        "measured_gain": pytest.approx(0.2),
        "off": pytest.approx(0.05),
    }
    shown = "\n".join(table(view, rows(TIMED, view.rows)))
    assert "| mode | s | forecast gain | measured gain | off |" in shown
    assert "| stock | 4000.00 ms |  |  |  |" in shown
    assert "| a | 3200.00 ms | 25.0% | 20.0% | +5.0 |" in shown
    assert "| b | 2000.00 ms |  |  |  |" in shown
    assert "Forecast gains of 1 row: off by 5.0 points, at most 5.0.\n" in shown


def test_forecasts_may_be_of_seconds_or_of_a_throughput() -> None:
    """How far they are off is the mean of the sizes: one too high does not make up for one too low."""
    found = [{"mode": str(t), "t": 10.0, "was": t, "x": 1.25, "y": 1.0} for t in (7.0, 9.0)]
    view = View("Told.", "", ("mode",), forecast=Forecast("t/was", "/x"))
    assert [row["off"] for row in foretold(view, found)] == pytest.approx(
        [1 - 10 / 7 - 0.2, 1 - 10 / 9 - 0.2]
    )
    both = View("Told.", "", ("mode",), forecast=Forecast("/x", "/y"))
    assert [row["off"] for row in foretold(both, [found[0]])] == pytest.approx([0.2])
    mixed = [{"g": 0.1, "m": 0.2}, {"g": 0.4, "m": 0.1}, {"g": 0.3}]
    shown = "\n".join(table(View("Told.", "", ("g",), forecast=Forecast("g", "m")), mixed))
    assert "Forecast gains of 2 rows: off by 20.0 points, at most 30.0." in shown


def test_a_table_without_a_forecast_says_nothing_of_it() -> None:
    assert "forecast" not in "\n".join(table(View("Told.", "", ("x",)), [{"x": 1, "predicted.gain": 0.5}]))


def test_the_page_says_how_far_forecasts_are_off_in_all() -> None:
    """As its tables have it, by the digits that they show."""
    text = text_of(PAGE)
    found = re.search(r"of (\d+) rows of all tables: off by ([\d.]+) points, at most ([\d.]+)\.", text)
    assert found is not None
    off = [float(cell) for cell in re.findall(r" \| ([+-]\d+\.\d) \|$", text, re.MULTILINE)]
    assert int(found[1]) == len(off)
    assert float(found[2]) == pytest.approx(fmean(map(abs, off)), abs=0.1)
    assert float(found[3]) == max(map(abs, off))


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of two runs each, which say what is in a file."""
    runs = {name: [["-m", "json.tool", str(tmp_path / f"{name}{i}")] for i in (1, 2)] for name in ("a", "b")}
    monkeypatch.setattr(record, "RECORDS", runs)
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    for name in ("a1", "a2", "b1", "b2"):
        (tmp_path / name).write_text(json.dumps({"of": name}))
    return tmp_path


def results(directory: Path, name: str) -> list[Any]:
    return [run["result"]["of"] for run in json.loads((directory / f"{name}.json").read_text())["runs"]]


def test_a_bench_that_was_stopped_goes_on_behind_its_last_run(
    tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, before in (("a2", "a1"), ("b2", "b1")):
        (tiny / name).rename(tiny / "away")
        with pytest.raises(subprocess.CalledProcessError):
            record.record(["a", "b"], "", missing=False)
        (tiny / "away").rename(tiny / name)
        (tiny / before).write_text("not to be read again")
    assert results(tiny, "b") == ["b1"]
    capfd.readouterr()
    record.record(["a", "b"], "", missing=False)
    assert (results(tiny, "a"), results(tiny, "b")) == (["a1", "a2"], ["b1", "b2"])
    assert not (tiny / "unfinished").exists()
    said = capfd.readouterr().err
    assert "4/4" in said
    assert f"json.tool {tiny / 'b2'}\n" in said


def test_a_bench_that_ended_begins_anew(tiny: Path) -> None:
    record.record(["a"], "", missing=False)
    (tiny / "a1").write_text(json.dumps({"of": "anew"}))
    record.record(["a"], "a2", missing=False)
    assert results(tiny, "a") == ["a1", "a2"]
    record.record(["a"], "", missing=True)
    assert results(tiny, "a") == ["a1", "a2"]
    record.record(["a"], "", missing=False)
    assert results(tiny, "a") == ["anew", "a2"]


def test_what_is_left_takes_what_it_took_before(tmp_path: Path) -> None:
    session = Session(tmp_path / "unfinished", ("x", "y", "z"), {"x": 10.0, "y": 20.0})
    assert session.seconds_left() == 45  # z as the mean of the others
    session.finish("x", 4.0)
    assert Session(session.path, session.runs, session.known).seconds_left() == 20 + 12
    assert Session(session.path, ("x",), {}).left() == ["x"]
    assert Session(session.path, ("x",), {}).seconds_left() is None
