"""Containers: what is read comes back, what does not fit is refused, and nothing is left half done."""

import io
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format

from tests.containers import graphs, save, some_graph, some_model, with_noop
from tfwave.errors import GraphError, TfwaveError
from tfwave.graph.container import GraphFile, open_container
from tfwave.graph.item import GraphItem
from tfwave.graph.load import load_graph
from tfwave.graph.serialize import PROTOBUF_LIMIT, check_size
from tfwave.proto.tensorflow_pb2 import GraphDef, SavedModel

SECONDS = 1.0
"""For 100,000 nodes, on a slow and busy machine."""


def binary(path: Path) -> Path:
    path.write_bytes(some_graph().SerializeToString())
    return path


# Files with one graph.


@pytest.mark.parametrize("given", ["binary", "text"])
@pytest.mark.parametrize(("name", "is_text"), [("o.pb", False), ("o.pbtxt", True), ("o", False)])
def test_the_name_of_the_output_chooses_its_form(
    tmp_path: Path, given: str, name: str, is_text: bool
) -> None:
    graph = some_graph()
    source, out = tmp_path / "in", tmp_path / name
    text = text_format.MessageToString(graph).encode()
    source.write_bytes(text if given == "text" else graph.SerializeToString())
    container = open_container(str(source))
    assert container.items() == ((str(source), GraphItem(graph)),)
    container.write(graphs(container), str(out))
    assert out.read_bytes() == (text if is_text else graph.SerializeToString(deterministic=True))
    assert load_graph(out).graph == graph


@pytest.mark.parametrize("form", ["binary", "text"])
def test_standard_output_gets_the_form_of_the_input(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    graph = some_graph()
    text = text_format.MessageToString(graph).encode()
    data = text if form == "text" else graph.SerializeToString(deterministic=True)
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed))
    container = open_container("-")
    container.write(graphs(container), "-")
    assert printed.getvalue() == data


def test_the_graph_that_is_given_is_written(tmp_path: Path) -> None:
    source, out = binary(tmp_path / "in.pb"), tmp_path / "out.pb"
    before = source.read_bytes()
    container = open_container(str(source))
    container.write([with_noop(item) for item in graphs(container)], str(out))
    assert [n.name for n in load_graph(out).graph.node][-1] == "added"
    assert source.read_bytes() == before


def test_equal_graphs_give_equal_bytes(tmp_path: Path) -> None:
    names = [f"attr{i}" for i in range(20)]
    written: list[bytes] = []
    for order in (names, names[::-1]):
        graph = GraphDef()
        node = graph.node.add(name="n", op="NoOp")
        for name in order:
            node.attr[name].i = 1
        GraphFile("-", graph, text=False).write([GraphItem(graph)], str(tmp_path / "out"))
        written.append((tmp_path / "out").read_bytes())
    assert written[0] == written[1]


def aliases(source: Path) -> list[str]:
    """Other names of a file."""
    link, hard = source.with_name("link"), source.with_name("hard")
    link.symlink_to(source)
    os.link(source, hard)
    return [str(source), str(link), str(hard), f"{source.parent}/../{source.parent.name}/{source.name}"]


def test_the_source_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = binary(tmp_path / "in.pb")
    before = source.read_bytes()
    container = open_container(str(source))
    monkeypatch.chdir(tmp_path)
    for out in [*aliases(source), "in.pb"]:
        with pytest.raises(GraphError, match=f"'{out}' is the graph that was read"):
            container.write([with_noop(item) for item in graphs(container)], out)
    assert source.read_bytes() == before


def test_a_graph_does_not_go_into_a_directory(tmp_path: Path) -> None:
    container = open_container(str(binary(tmp_path / "in.pb")))
    (tmp_path / "out").mkdir()
    with pytest.raises(GraphError, match=r"cannot write '.*out': .* this is a directory"):
        container.write(graphs(container), str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    container = open_container(str(binary(tmp_path / "in.pb")))
    for out in (tmp_path / "gone" / "out.pb", tmp_path / "in.pb" / "out.pb"):
        with pytest.raises(TfwaveError, match=f"cannot write '{out}'"):
            container.write(graphs(container), str(out))
    assert [p.name for p in tmp_path.iterdir()] == ["in.pb"]


def test_links_are_followed_and_pipes_are_written_to(tmp_path: Path) -> None:
    container = open_container(str(binary(tmp_path / "in.pb")))
    (tmp_path / "link").symlink_to("target")
    container.write(graphs(container), str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert load_graph(tmp_path / "target").graph == some_graph()
    read, write = os.pipe()
    container.write(graphs(container), f"/dev/fd/{write}")
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == (tmp_path / "target").read_bytes()
    container.write(graphs(container), os.devnull)
    assert Path(os.devnull).is_char_device()


def test_a_loop_of_links_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    container = open_container(str(binary(tmp_path / "in.pb")))
    container.write(graphs(container), str(tmp_path / "loop"))
    assert load_graph(tmp_path / "loop").graph == some_graph()


# What is neither.


def empty_directory(path: Path) -> None:
    path.mkdir()


def directory_with(name: str, data: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        (path / name).write_bytes(data)

    return make


def no_op() -> bytes:
    model = SavedModel()
    model.meta_graphs.add().graph_def.node.add(name="a")
    return model.SerializeToString()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"\x89PNG\r\n"), "is not a GraphDef"),
        (empty_directory, "is not a SavedModel directory: it holds no saved_model.pb"),
        (directory_with("saved_model.pbtxt", b""), "SavedModel in text form: save it again"),
        (directory_with("saved_model.cpb", b""), "SavedModel in chunks: save it again"),
        (
            directory_with("saved_model.pb", b""),
            "saved_model.pb' is not a SavedModel: it holds no meta graph",
        ),
        (directory_with("saved_model.pb", b"\x12\x7f"), "saved_model.pb' is not a SavedModel: truncated"),
        (directory_with("saved_model.pb", no_op()), "without a name or an op"),
    ],
)
def test_what_is_no_container_is_named(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(GraphError, match=f"'{path}.*{says}"):
        open_container(str(path))


def test_the_file_of_a_saved_model_points_to_its_directory(tmp_path: Path) -> None:
    source = save(some_model(), tmp_path / "in")
    with pytest.raises(GraphError, match=f"name its directory, '{source}'"):
        open_container(str(source / "saved_model.pb"))


def test_a_truncated_saved_model_gives_no_other_error(tmp_path: Path) -> None:
    data = some_model().SerializeToString()
    (tmp_path / "m").mkdir()
    for cut in range(0, len(data), 3):
        (tmp_path / "m" / "saved_model.pb").write_bytes(data[:cut])
        try:
            container = open_container(str(tmp_path / "m"))
        except GraphError:
            continue
        assert len(container.items()) <= 2


# Protobuf's limit.


def test_the_limit_of_protobuf() -> None:
    check_size(PROTOBUF_LIMIT, "g")
    with pytest.raises(GraphError, match=r"'g' is 2,147,483,648 bytes long; .* 2,147,483,647 \(2 GB\)"):
        check_size(PROTOBUF_LIMIT + 1, "g")


def test_a_file_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "big.pb").open("wb") as file:
        file.truncate(PROTOBUF_LIMIT + 1)
    with pytest.raises(GraphError, match=r"big\.pb' is 2,147,483,648 bytes .* variables of a SavedModel"):
        open_container(str(tmp_path / "big.pb"))


def test_large_graphs_are_read_and_written_fast(tmp_path: Path) -> None:
    graph = GraphDef()
    for i in range(100_000):
        graph.node.add(name=f"layer/op{i}", op="Identity", input=[f"layer/op{i - 1}"] if i else [])
    (tmp_path / "in.pb").write_bytes(graph.SerializeToString())
    start = time.process_time()
    container = open_container(str(tmp_path / "in.pb"))
    container.write(graphs(container), str(tmp_path / "out.pb"))
    assert time.process_time() - start < SECONDS
