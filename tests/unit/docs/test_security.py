"""SECURITY.md: the tests that it names are there, and nothing that was read is run."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMED = sorted(
    set(
        re.findall(
            r"`((?:unit|cluster|fuzz)/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8")
        )
    )
)
SOURCES = sorted(path for room in ("tfwave", "grappler_passes") for path in (ROOT / room).rglob("*.py"))
RUNNING_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "joblib"}
RUNNING_CALLS = {"eval", "exec", "compile"}


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda value: value)
def test_the_test_of_a_line_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_lines_name_tests() -> None:
    assert len(NAMED) > 20


def test_nothing_is_run_that_was_read() -> None:
    assert [what for path in SOURCES for what in _running(path)] == []


def _running(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RUNNING_CALLS:
            found.append(f"{path}:{node.lineno} {node.func.id}")
            continue
        else:
            names = [node.arg or ""] if isinstance(node, ast.keyword) and node.arg == "allow_pickle" else []
        found += [
            f"{path} {name}" for name in names if name.partition(".")[0] in {*RUNNING_MODULES, "allow_pickle"}
        ]
    return found
