"""What commands print into a pipe: tables that hold at 80 columns, without colour."""

import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

from tests.golden.kept import unpack
from tests.unit.cli.test_fit_cli import training
from tests.unit.conftest import Command
from tests.unit.reports import run_on_disk
from tfwave.bundle.bundle import save_bundle
from tfwave.cli.output import console

WIDTH = 80
BORDERS = ("┏", "┃", "┡", "│", "└")
HEADS = r"┓\n(.+?)\n┡"
COMMANDS = (
    "inspect bert_training",
    "plan bert_training",
    "simulate bert_training --sweep bandwidth=100mbit,10gbit --sweep workers=1,4",
    "balance bert_training",
    "memory resnet_alone --top 5",
    "fit resnet_alone --memory 60MiB",
    "colocate gru_alone resnet_alone --memory 128MiB",
    "conformance run",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of real jobs, with names as long as they come, and a run."""
    place = tmp_path_factory.mktemp("inputs")
    unpack(place)
    (place / "run").mkdir()
    run_on_disk(place / "run")
    return place


@pytest.mark.parametrize("line", COMMANDS)
def test_tables_hold_at_80_columns_under_headings_and_without_colour(
    line: str, tfwave: Command, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(inputs)
    for name, value in (("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("COLUMNS", str(WIDTH))):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(console, "_width", None)  # of when it was made
    out = tfwave(*line.split()).out
    rows = [text for text in out.splitlines() if text[:1] in BORDERS]
    assert len(rows) > 3
    assert max(map(len, rows)) <= WIDTH
    assert "…" not in "".join(rows)
    assert "\x1b" not in out
    assert all(heading.strip() for table in re.findall(HEADS, out, re.DOTALL) for heading in headings(table))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plan bundle --json", "planning 'bundle'"),
        ("memory captured --placement --json", "placing what 'captured' holds"),
        ("colocate captured --memory 4MiB --json", "planning jobs in 4MiB"),
        ("fit captured --memory 64MiB --json", "fitting 'captured' into 64MiB"),
        ("report bundle -o page.html", "writing 'page.html'"),
    ],
)
def test_a_terminal_shows_what_is_under_way_and_a_pipe_does_not(
    line: str, said: str, tfwave: Command, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_bundle(training(1), bundle.parent / "captured")
    monkeypatch.chdir(bundle.parent)
    piped = tfwave(*line.split())
    monkeypatch.setenv("TERM", "xterm")
    terminal = Console(stderr=True, force_terminal=True)
    monkeypatch.setattr(import_module("tfwave.cli.output"), "progress_console", terminal)
    shown = tfwave(*line.split())
    assert (said in shown.err, said in piped.err) == (True, False)
    assert (shown.code, shown.out) == (piped.code, piped.out)


def test_names_are_shown_as_they_are_whatever_brackets_they_have(
    tfwave: Command, inputs: Path, graph: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graph.parent)
    Path("t[").mkdir()
    shutil.copy(graph, "t[/a]")
    ran = tfwave("rewrite", "t[/a]", "--passes", "strip", "-o", "t[/b]")
    assert (ran.code, "t[/a]" in ran.err, "written to 't[/b]'" in ran.err) == (0, True, True)
    ran = tfwave("simulate", bundle, "--trace", "t[/c]")
    assert (ran.code, "written to 't[/c]'" in ran.out) == (0, True)
    names = ("gru[lr=0.1]", "gru:key:")
    for name in names:
        shutil.copytree(inputs / "gru_alone", name)
    ran = tfwave("colocate", *names, "--memory", "128MiB")
    assert (ran.code, [name in ran.out for name in names]) == (0, [True, True])


def headings(table: str) -> list[str]:
    """Of each column, from all lines that they take."""
    lines = [text.strip("┃").split("┃") for text in table.splitlines()]
    return ["".join(parts) for parts in zip(*lines, strict=True)]
