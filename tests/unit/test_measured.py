"""What was measured: the page of it, and measuring that is stopped and gone on with."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.pages import text_of
from tests.shown import assert_shown
from tools.bench import record
from tools.bench.session import Session
from tools.bench.views import VIEWS
from tools.measured import PAGE, RESULTS, page, rows


def test_the_page_is_what_its_command_makes() -> None:
    assert text_of(PAGE) == page(), "run `make measured`"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_each_run_is_on_the_page_beside_its_machine(path: Path) -> None:
    section = text_of(PAGE).split(f"\n## {path.stem}\n")[1].split("\n## ")[0]
    for run in json.loads(path.read_text())["runs"]:
        assert f"    {run['command']}\n" in section
        assert f"On {run['machine']['cpu']}, {run['machine']['cores']} cores" in section


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
