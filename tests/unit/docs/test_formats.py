"""The page of file formats: each names what the code writes, and what is written is read back as it was."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from tests.bundles import small_bundle
from tests.pages import DOCS, text_of
from tests.plans import plan_by_hand
from tests.staged import captured, whole
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.burst.profile import Layer, Profile, read_profile
from tfwave.colocate.checkpoints import Checkpoints, Standing
from tfwave.cost.file import load_costs
from tfwave.demo import run as demo
from tfwave.graph.names import Channel
from tfwave.plan.io import load_plan, save_plan
from tfwave.report.conformance import HandOff
from tfwave.report.page.given import FIGURES_FILE
from tfwave.report.run import HAND_OFFS_FILE, load_run, save_run
from tfwave.sim.timeline import Interval, Timeline
from tfwave.staging.capture import read_capture
from tfwave.whatif.timeline_file import load_timeline, save_timeline

PAGE = DOCS / "reference" / "formats.md"
NAMES = re.compile(r"`([^`]+)`")


def tables(section: str) -> list[set[str]]:
    """What the first columns of a section's tables name."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text_of(PAGE), re.MULTILINE | re.DOTALL)
    found: list[set[str]] = []
    for table in re.findall(r"^\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE):
        found.append({name for row in table.splitlines() for name in NAMES.findall(row.split("|")[1])})
    return found


def inner(section: str, field: str) -> set[str]:
    """What a field's row says is in it."""
    (row,) = re.findall(rf"^\| `{field}` \| (.*) \|$", text_of(PAGE), re.MULTILINE)
    assert tables(section)
    return set(NAMES.findall(row))


def plan(path: Path) -> Mapping[str, object]:
    made = plan_by_hand({Channel("/job:ps/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0"): ["e"]})
    for file in (path, path.with_suffix(".pb")):
        save_plan(made, file)
        assert load_plan(file) == made
    return {}


def costs(path: Path) -> Mapping[str, object]:
    view = small_bundle().view
    (name, *_) = [node.name for node in view.nodes if node.op not in {"_Recv", "_Send"}]
    path.write_text(json.dumps({"ops": {name: 0.5}, "transfers": {}}))
    assert 0.5 in load_costs(path, view).ops.values()
    return json.loads(path.read_text())


def timeline(path: Path) -> Mapping[str, object]:
    made = Timeline((Interval(0.0, 1.0, "a worker", "a", "op", 0),), 1.0, {"a worker": 1})
    save_timeline(made, path)
    assert load_timeline(path) == made
    return json.loads(path.read_text())


def profile(path: Path) -> Mapping[str, object]:
    layer = Layer(name="a", output_bytes=4, weight_bytes=8, seconds={1: 0.5})
    made = Profile(model="tiny", layers=(layer,))
    made.write(path)
    assert read_profile(path) == made
    assert set(Layer.model_fields) == {"name", "reads", "output_bytes", "weight_bytes", "seconds"}
    return json.loads(path.read_text())


def pool(path: Path) -> Mapping[str, object]:
    directory = path.parent / "pool"
    kept = Checkpoints(directory, 64)
    kept.save({"a": Standing(3, lambda prefix: Path(f"{prefix}.index").write_bytes(b"x") and None)})
    assert Checkpoints(directory, 64).find("a") == kept.find("a")
    return json.loads((directory / "pool.json").read_text())


def bundle(path: Path) -> Mapping[str, object]:
    directory = path.parent / "bundle"
    made = small_bundle()
    save_bundle(made, directory)
    assert load_bundle(directory) == made
    assert {file.name for file in directory.iterdir()} | {"own"} == tables("Bundle")[0]
    return json.loads((directory / "bundle.json").read_text())


def capture(path: Path) -> Mapping[str, object]:
    made = captured([whole("a", 10, 4)], [{"a": [0, 1]}, {"a": [1]}]).model_copy(
        update={"core_seconds": 0.03}
    )
    made.write(path)
    assert read_capture(path) == made
    return json.loads(path.read_text())


FORMATS: Mapping[str, Callable[[Path], Mapping[str, object]]] = {
    "Plan": plan,
    "Bundle": bundle,
    "Costs": costs,
    "Timeline": timeline,
    "Profile": profile,
    "Pool": pool,
    "Embedding capture": capture,
}
ELSEWHERE = {"Hand-off log", "Run directory"}


def test_each_section_is_tested() -> None:
    assert set(re.findall(r"^## (.+)$", text_of(PAGE), re.MULTILINE)) == {*FORMATS, *ELSEWHERE}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_the_fields_that_the_page_names_and_reads_back(name: str, tmp_path: Path) -> None:
    written = FORMATS[name](tmp_path / "file.json")
    named = tables(name)
    assert set(written) == (named[-1] if named else set())


@pytest.mark.parametrize(
    ("name", "field", "part"),
    [
        ("Timeline", "intervals", ("intervals", 0)),
        ("Profile", "layers", ("layers", 0)),
        ("Pool", "jobs", ("jobs", "a")),
    ],
)
def test_what_is_nested_is_named_too(
    name: str, field: str, part: tuple[str, str | int], tmp_path: Path
) -> None:
    found: object = FORMATS[name](tmp_path / "file.json")
    for key in part:
        found = found[key]  # type: ignore[index]
    assert isinstance(found, dict)
    assert inner(name, field) == set(found)


def test_a_hand_off_is_a_list_of_what_the_page_names(tmp_path: Path) -> None:
    hand_off = HandOff(1, "a to b", 0, "IN_TURN")
    save_run(tmp_path, {"unordered": [], "ordered": [hand_off]})
    assert load_run(tmp_path) == {"unordered": [], "ordered": [hand_off]}
    (written,) = json.loads((tmp_path / HAND_OFFS_FILE).read_text())["ordered"]
    text = text_of(PAGE).split("## Hand-off log")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(HandOff._fields)
    assert len(written) == len(HandOff._fields)


def test_a_run_directory_has_what_the_demo_writes() -> None:
    source = text_of(Path(demo.__file__))
    (named,) = tables("Run directory")
    assert {HAND_OFFS_FILE, FIGURES_FILE, demo.PAGE} < named
    for name in named - {HAND_OFFS_FILE}:
        assert f'"{name}"' in source, name


def test_an_interval_has_no_field_beside_those() -> None:
    assert inner("Timeline", "intervals") == {field.name for field in fields(Interval)}
