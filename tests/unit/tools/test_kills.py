"""The kill matrix: what is kept of bugs that are there, and how it is found, in a repository of two files."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BUGS = json.loads((ROOT / "tools/mutants.json").read_text())
KEPT = json.loads((ROOT / "tools/kills.json").read_text())

CODE = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
TEST = "from code_under_test import double\n\n\ndef test_double():\n    assert double(2) == 4\n"


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield import_module("kills")
    sys.modules.pop("kills")


def test_each_verdict_is_on_a_bug_and_by_a_test_that_there_is(kills: Any) -> None:
    assert {(file, why) for file, of in KEPT.items() for why in of} <= {(m["file"], m["why"]) for m in BUGS}
    for verdicts in (found for of in KEPT.values() for found in of.values()):
        for phase, verdict in verdicts.items():
            assert phase in (*kills.CHEAP, *kills.SLOW)
            if verdict != kills.LIVES:
                file, _, test = verdict.partition("[")[0].partition("::")
                assert kills.phase_of(file) == phase
                assert not test or f"def {test.rpartition('::')[2]}(" in (ROOT / file).read_text(), verdict


def test_bugs_that_are_planted_at_once_all_find_their_line(kills: Any) -> None:
    mutants = import_module("planting").load_mutants()
    made = kills.groups(mutants, "unit")
    assert sorted(m.why for group in made for m in group) == sorted(m.why for m in mutants)
    for group in made:
        assert len({m.file.endswith(".py") for m in group}) == 1
        texts = {m.file: (ROOT / m.file).read_text() for m in group}
        for m in group:
            assert texts[m.file].count(m.old) == 1, m.why
            texts[m.file] = texts[m.file].replace(m.old, m.new)


def test_what_a_phase_notices_is_told_from_what_it_does_not(kills: Any, tmp_path: Path) -> None:
    copy, kept = tmp_path / "copy", tmp_path / "kills.json"
    (copy / "tests/unit").mkdir(parents=True)
    (copy / "code_under_test.py").write_text(CODE)
    (copy / "tests/unit/test_code.py").write_text(TEST)
    mutant = import_module("planting").Mutant
    noticed = mutant("code_under_test.py", "2 * x", "3 * x", "threefold", ())
    unnoticed = mutant("code_under_test.py", "x / 2", "x / 3", "a third", ())
    found = kills.Kills(kept, [noticed, unnoticed])
    kills.judge([noticed, unnoticed], "unit", copy, found)
    assert json.loads(kept.read_text()) == {
        "code_under_test.py": {
            "threefold": {"unit": "tests/unit/test_code.py::test_double"},
            "a third": {"unit": "lives"},
        }
    }
    assert (copy / "code_under_test.py").read_text() == CODE
    assert not kills.Kills(kept, []).of(noticed)
    assert kills.Kills(kept, [noticed]).killer(noticed) == ["tests/unit/test_code.py::test_double"]
