"""`tfwave merge`: what it writes, prints and refuses."""

import json
from pathlib import Path

import pytest

from tests.containers import save, some_model
from tests.unit.conftest import Command
from tests.unit.merged import job
from tfwave.graph.load import load_graph


@pytest.fixture
def a(tmp_path: Path) -> Path:
    (tmp_path / "a.pb").write_bytes(job().SerializeToString(deterministic=True))
    return tmp_path / "a.pb"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    (tmp_path / "b.pb").write_bytes(job(2.0).SerializeToString(deterministic=True))
    return tmp_path / "b.pb"


def test_the_new_names_are_told_and_two_runs_write_the_same(
    tfwave: Command, a: Path, b: Path, tmp_path: Path
) -> None:
    out, again = tmp_path / "both.pb", tmp_path / "again.pb"
    ran = tfwave("merge", a, b, "--fetch", "loss:0", "-o", out)
    assert (ran.code, ran.out) == (0, "")
    assert all(name in ran.err for name in ("a/loss:0", "b/loss:0", "a/x:0"))
    answer = json.loads(
        tfwave("merge", a, b, "--fetch", "loss:0", "--fetch", "train", "-o", again, "--json").out
    )
    assert answer["jobs"][1] == {
        "name": "b",
        "source": str(b),
        "nodes": 13,
        "feeds": ["b/x:0"],
        "fetches": ["b/loss:0", "b/train"],
    }
    assert (answer["output"], answer["nodes"]) == (str(again), 26)
    assert out.read_bytes() == again.read_bytes()


def test_a_graph_that_is_given_again_gets_a_number(tfwave: Command, a: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "a.pbtxt"
    assert tfwave("undo", a, "-o", other).code == 0
    ran = tfwave("merge", a, a, other, "-o", tmp_path / "three.pbtxt", "--json")
    assert [one["name"] for one in json.loads(ran.out)["jobs"]] == ["a", "a-2", "a-3"]
    assert (tmp_path / "three.pbtxt").read_text().startswith("node {")
    assert len(load_graph(tmp_path / "three.pbtxt").graph.node) == 39


def test_a_saved_model_goes_in_with_its_signatures(tfwave: Command, a: Path, tmp_path: Path) -> None:
    model = some_model()
    del model.meta_graphs[1]
    place = save(model, tmp_path / "served")
    ran = tfwave("merge", a, place, "-o", tmp_path / "both.pb", "--json")
    assert json.loads(ran.out)["jobs"][1] | {"nodes": 0} == {
        "name": "served",
        "source": str(place),
        "nodes": 0,
        "feeds": ["served/recv1:0"],
        "fetches": ["served/use:0"],
    }


def test_standard_input_is_a_job(tfwave: Command, a: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.pb"
    ran = tfwave("merge", "-", a, "-o", out, "--json", stdin=a.read_bytes())
    assert [one["name"] for one in json.loads(ran.out)["jobs"]] == ["job", "a"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{a}", "-o", "{out}"], "there is one graph: give two or more to merge"),
        (["{a}", "{no}", "-o", "{out}"], "cannot read graph '{no}': No such file"),
        (["{a}", "{b}", "-o", "{b}"], "'{b}' is the graph that was read"),
        (["{a}", "{b}", "-o", "{dir}"], "this is a directory"),
        (["{a}", "{b}", "-o", "{no}/out.pb"], "cannot write '{no}/out.pb': No such file"),
        (["{a}", "{b}", "-o", "-", "--json"], "cannot both go to standard output"),
        (["-", "-", "-o", "{out}"], "standard input can be read once"),
        (["{a}", "{bundle}", "-o", "{out}"], "'{bundle}' is a capture bundle, whose graphs are optimized"),
        (["{a}", "{two}", "-o", "{out}"], "'{two}' holds 2 graphs: save one of its meta graphs"),
        (
            ["{a}", "{b}", "--fetch", "x:0", "--fetch", "y", "-o", "{out}"],
            "the fetch 'y' names a node that none",
        ),
        (["{a}", "{bad}", "-o", "{out}"], "'{bad}': node 'odd': the op 'Odd' is unknown"),
    ],
)
def test_what_is_refused(  # noqa: PLR0917
    tfwave: Command, a: Path, b: Path, bundle: Path, tmp_path: Path, arguments: list[str], says: str
) -> None:
    odd = job()
    odd.node.add(name="odd", op="Odd")
    (tmp_path / "bad.pb").write_bytes(odd.SerializeToString())
    places = {
        "a": a,
        "b": b,
        "out": tmp_path / "out.pb",
        "no": tmp_path / "no.pb",
        "dir": tmp_path,
        "bundle": bundle,
        "two": save(some_model(), tmp_path / "two"),
        "bad": tmp_path / "bad.pb",
    }
    ran = tfwave("merge", *(text.format(**places) for text in arguments))
    assert ran.code == 2
    assert says.format(**places) in " ".join(ran.err.split())
    assert not (tmp_path / "out.pb").exists()
    assert tfwave("merge", a, tmp_path / "bad.pb", "--custom-op", "Odd", "-o", tmp_path / "odd.pb").code == 0
