"""No command writes over what it reads, nor over what it has just written."""

from pathlib import Path

import pytest

from tests.unit.conftest import Command

LINES = (
    "plan worker.pb --policy tic -o worker.pb",
    "plan worker.pb --costs plan.json -o plan.json",
    "balance worker.pb -o ./worker.pb",
    "inspect worker.pb --dot link.pb",
    "inspect worker.pb --graphml worker.pb",
    "inspect --plan plan.json worker.pb --dot plan.json",
    "simulate bundle --plan plan.json --trace plan.json",
    "simulate bundle --timeline bundle/bundle.json",
    "fit bundle --memory 1GB -o bundle/bundle.json",
    "fit bundle --memory 1GB --plot bundle/held.png",
    "fit bundle --memory 1GB --at-other-batch other -o other",
    "memory bundle --placement -o bundle/graphs/000.pb",
    "memory bundle --placement --plan plan.json -o plan.json",
    "memory bundle --plot bundle/held.png",
    "waves bundle --memory 1GB --graph worker.pb -o worker.pb",
    "colocate bundle bundle --memory 1GB -o bundle/bundle.json",
    "colocate bundle --memory 1GB --plot bundle/held.png",
    "embeddings plan.json -o plan.json",
    "burst plan plan.json --devices 2 --batch 2 -o plan.json",
    "burst profile worker.pb -o worker.pb",
    "report bundle plan.html -o plan.html",
    "report bundle plan.md -o plan.html",
    "report bundle -o bundle/page.html",
    "rewrite worker.pb --plan plan.json --passes strip -o plan.json",
)


@pytest.fixture
def inputs(graph: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = graph.parent
    assert place == bundle.parent
    (place / "link.pb").symlink_to(graph)
    for name in ("plan.json", "plan.md", "plan.html"):
        (place / name).write_bytes(b"read")
    (place / "other").mkdir()
    monkeypatch.chdir(place)
    return place


def held(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("line", LINES)
def test_what_is_read_is_not_written_over(tfwave: Command, inputs: Path, line: str) -> None:
    before = held(inputs)
    ran = tfwave(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert "' is, contains or lies within '" in ran.err
    assert "', which is read: choose another name" in ran.err
    assert held(inputs) == before


@pytest.mark.parametrize(
    "line",
    [
        "plan worker.pb --policy tic -o {}",
        "inspect worker.pb --graphml {}",
        "fit bundle --memory 1GB --plot {}",
        "simulate bundle --trace {}",
        "report bundle -o {}",
        "burst profile my_models:resnet -o {}",
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(
    tfwave: Command, inputs: Path, line: str
) -> None:
    for place, why in (
        ("no/new.png", "there is no directory 'no', make it first"),
        ("other", "it is a directory"),
    ):
        ran = tfwave(*line.format(place).split())
        assert (ran.code, ran.out) == (2, "")
        assert f"cannot write '{place}': {why}" in ran.err


@pytest.mark.parametrize(
    "line",
    [
        "plan {} --policy tic",
        "balance {}",
        "waves {} --memory 1GB",
        "colocate {} --memory 1GB",
        "fit {} --memory 1GB",
        "embeddings {}",
        "burst plan {} --devices 2 --batch 2",
    ],
)
def test_what_a_plan_is_added_to_is_read_before_anything_else(
    tfwave: Command, inputs: Path, line: str
) -> None:
    ran = tfwave(*line.format("gone").split(), "--add-to", "plan.json", "-o", "new.json")
    assert (ran.code, ran.out) == (2, "")
    assert "plan 'plan.json': it is not a plan" in ran.err
    assert not (inputs / "new.json").exists()


@pytest.mark.parametrize(
    "line",
    [
        "colocate gone --memory 1GB --plot held.gif",
        "fit gone --memory 1GB --plot held.gif",
        "memory gone --plot held.gif",
    ],
)
def test_a_picture_of_another_kind_is_refused_before_anything_is_computed(
    tfwave: Command, inputs: Path, line: str
) -> None:
    assert inputs
    ran = tfwave(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert "cannot draw 'held.gif': its name must end in .png or .svg" in ran.err


@pytest.mark.parametrize(
    "line",
    ["plan worker.pb --policy tic -o -", "inspect worker.pb --dot -", "report bundle -o -"],
)
def test_no_file_is_named_as_standard_output_is(tfwave: Command, inputs: Path, line: str) -> None:
    before = held(inputs)
    ran = tfwave(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert "'-' is standard output, and this is written to a file: give its name" in ran.err
    assert held(inputs) == before


@pytest.mark.parametrize(
    "line",
    [
        "inspect worker.pb --graphml new --dot ./new",
        "simulate bundle --trace new.json --timeline new.json",
        "colocate bundle --memory 1GB --plot new.svg -o new.svg",
        "fit bundle --memory 1GB --plot new.svg -o new.svg",
        "memory bundle --placement --plot new.svg -o new.svg",
    ],
)
def test_two_things_are_not_written_to_one_file(tfwave: Command, inputs: Path, line: str) -> None:
    before = held(inputs)
    ran = tfwave(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert "are one file, and two are to be written: name them apart" in ran.err
    assert held(inputs) == before


def test_a_page_that_is_named_as_its_facts_is_told_its_ending(tfwave: Command, inputs: Path) -> None:
    assert inputs
    assert "its name must end in .html or .htm" in tfwave("report", "bundle", "-o", "page.md").err


def test_what_is_thrown_away_may_be_two_things(tfwave: Command, inputs: Path) -> None:
    assert inputs
    assert tfwave("inspect", "worker.pb", "--graphml", "/dev/null", "--dot", "/dev/null").code == 0


def test_a_plan_that_is_added_to_may_be_written_over(tfwave: Command, inputs: Path) -> None:
    assert tfwave("plan", "worker.pb", "--policy", "tic", "-o", "p.json").code == 0
    before = (inputs / "p.json").read_bytes()
    ran = tfwave("plan", "worker.pb", "--policy", "fifo", "--add-to", "p.json", "-o", "p.json")
    assert (ran.code, ran.err) == (0, "")
    assert (inputs / "p.json").read_bytes() != before


def test_standard_input_and_names_beside_what_is_read_are_no_input(tfwave: Command, inputs: Path) -> None:
    graph = (inputs / "worker.pb").read_bytes()
    assert tfwave("plan", "-", "--policy", "tic", "-o", "p.json", stdin=graph).code == 0
    assert tfwave("plan", "bundle", "-o", "bundle.json").code == 0
    run = inputs / "run"
    run.mkdir()
    assert "is read" not in tfwave("report", "run", "-o", "run/report.html").err
