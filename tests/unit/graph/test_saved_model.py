"""SavedModels: each graph is an item, all else is kept, and nothing is left half done."""

from pathlib import Path

import pytest

from tests.containers import field, files, graphs, save, some_graph, some_model, with_noop
from tests.hostile import nested
from tests.unit.test_files import files_of_at_most
from tfwave.errors import GraphError
from tfwave.graph.container import open_container
from tfwave.graph.item import GraphItem
from tfwave.graph.saved_model import SavedModelDirectory
from tfwave.graph.verify import verify
from tfwave.graph.wire import DEEPEST
from tfwave.proto.tensorflow_pb2 import GraphDef, MetaGraphDef, SavedModel, TensorInfo


def test_each_meta_graph_is_an_item(tmp_path: Path) -> None:
    container = open_container(str(save(some_model(), tmp_path / "m")))
    (label, item), (second, plain) = container.items()
    assert (label, second) == ("serve,gpu", "meta graph 1")
    assert (item.feeds, item.fetches) == (("recv1:0",), ("use:0",))
    assert item.preserve == {"recv1", "use", "c", "init"}
    assert (plain.feeds, plain.fetches, plain.preserve) == ((), (), frozenset())
    assert item.graph == plain.graph == some_graph()
    verify(item)


def test_the_parts_of_sparse_and_composite_tensors_are_fed() -> None:
    meta = MetaGraphDef(graph_def=some_graph())
    sparse = field(4, field(1, b"recv1:0") + field(2, b"c:0"))
    composite = field(5, field(1, field(4, b"a:b")) + field(2, field(1, b"use:0")))
    meta.signature_def["s"].inputs["a"].CopyFrom(TensorInfo.FromString(sparse))
    meta.signature_def["s"].inputs["b"].CopyFrom(TensorInfo.FromString(composite))
    container = SavedModelDirectory.of(Path("m"), SavedModel(meta_graphs=[meta]))
    assert sorted(graphs(container)[0].feeds) == ["c:0", "recv1:0", "use:0"]
    assert graphs(container)[0].preserve == {"recv1", "c", "use"}


def test_an_unchanged_saved_model_is_copied_byte_for_byte(tmp_path: Path) -> None:
    source = save(some_model(), tmp_path / "in")
    container = open_container(str(source))
    container.write(graphs(container), str(tmp_path / "out"))
    assert files(tmp_path / "out") == files(source)


def test_a_changed_saved_model_keeps_all_else(tmp_path: Path) -> None:
    """Fields that tfwave does not know too; not the fingerprint, which would be of other graphs."""
    source = save(some_model(), tmp_path / "in")
    before = files(source)
    container = open_container(str(source))
    first, second = graphs(container)
    container.write([with_noop(first), second], str(tmp_path / "out"))
    after = files(tmp_path / "out")
    written = SavedModel.FromString(after.pop("saved_model.pb"))
    assert written.meta_graphs[0].graph_def.node.pop().name == "added"
    assert written == some_model()
    assert after == {k: v for k, v in before.items() if k not in ("saved_model.pb", "fingerprint.pb")}
    assert files(source) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]


def test_an_earlier_saved_model_is_replaced_and_links_are_followed(tmp_path: Path) -> None:
    source = save(some_model(), tmp_path / "in")
    save(SavedModel(), tmp_path / "old")
    (tmp_path / "old" / "stale").write_text("")
    (tmp_path / "link").symlink_to("old")
    container = open_container(str(source))
    container.write(graphs(container), str(tmp_path / "link"))
    assert files(tmp_path / "old") == files(source)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "link", "old"]


def test_links_within_a_saved_model_become_files(tmp_path: Path) -> None:
    source = save(some_model(), tmp_path / "in")
    (source / "assets" / "again.txt").symlink_to("vocab.txt")
    (tmp_path / "link").symlink_to("in")
    container = open_container(str(tmp_path / "link"))
    container.write(graphs(container), str(tmp_path / "out"))
    copied = tmp_path / "out" / "assets" / "again.txt"
    assert copied.read_text() == "a\nb\n"
    assert not copied.is_symlink()


@pytest.mark.parametrize("out", ["in", "link", "in/../in", "in/deeper", "link/variables", "in/assets/x", "."])
def test_a_saved_model_is_never_written_into_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    source = save(some_model(), tmp_path / "in")
    (tmp_path / "link").symlink_to("in")
    before = files(source)
    monkeypatch.chdir(tmp_path)
    for opened in ("in", str(source), "link"):
        container = open_container(opened)
        with pytest.raises(GraphError, match=f"'{out}' is, contains or lies within the SavedModel"):
            container.write([with_noop(item) for item in graphs(container)], out)
    assert files(source) == before


@pytest.mark.parametrize("out", ["-", "o.pb", "o.pbtxt", "file"])
def test_a_saved_model_needs_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    container = open_container(str(save(some_model(), tmp_path / "in")))
    (tmp_path / "file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphError, match=f"cannot write '{out}': .* needs a directory"):
        container.write(graphs(container), out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "in"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_directory_of_other_files_is_kept(tmp_path: Path) -> None:
    container = open_container(str(save(some_model(), tmp_path / "in")))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("mine")
    with pytest.raises(GraphError, match="home' is a directory with other files"):
        container.write(graphs(container), str(tmp_path / "home"))
    assert files(tmp_path / "home") == {"thesis": b"mine"}


def test_a_file_that_cannot_be_copied_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    source = save(some_model(), tmp_path / "in")
    (source / "assets" / "long").write_bytes(bytes(5000))
    container = open_container(str(source))
    with (
        files_of_at_most(1000),
        pytest.raises(GraphError, match=f"cannot copy '{source}/assets/long' .*File too large"),
    ):
        container.write(graphs(container), str(tmp_path / "out"))
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_what_the_saved_model_names_may_not_be_removed(tmp_path: Path) -> None:
    container = open_container(str(save(some_model(), tmp_path / "in")))
    whole, second = graphs(container)
    for lost in ("c", "init", "recv1", "use"):
        graph = GraphDef(node=[n for n in whole.graph.node if n.name != lost], library=whole.graph.library)
        with pytest.raises(GraphError, match=f"node '{lost}', which the SavedModel names"):
            container.write([GraphItem(graph), second], str(tmp_path / "out"))
    graph = GraphDef(node=whole.graph.node)
    with pytest.raises(GraphError, match="function 'f', which the SavedModel names"):
        container.write([GraphItem(graph), second], str(tmp_path / "out"))
    graph.library.function.add().signature.name = "f"
    container.write([GraphItem(graph), second], str(tmp_path / "out"))


def test_every_graph_must_be_given(tmp_path: Path) -> None:
    container = open_container(str(save(some_model(), tmp_path / "in")))
    with pytest.raises(ValueError, match="shorter"):
        container.write(graphs(container)[:1], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def model_with(field_of_meta: bytes) -> SavedModel:
    meta = MetaGraphDef(graph_def=some_graph())
    meta.MergeFromString(field_of_meta)
    return SavedModel(meta_graphs=[meta])


def test_nested_fields_are_read_as_deep_as_protobuf_reads() -> None:
    container = SavedModelDirectory.of(Path("m"), model_with(nested(DEEPEST, data=b"c")))
    assert graphs(container)[0].preserve == {"c"}
    with pytest.raises(GraphError, match=r"'m/saved_model.pb': field 15 nests messages deeper than 100"):
        SavedModelDirectory.of(Path("m"), model_with(nested(DEEPEST + 2)))


def test_what_lies_beside_other_fields_is_read() -> None:
    numbers = b"\x08\xff\x01" + b"\x11" + bytes(8) + b"\x1d" + bytes(4) + b"\x23" + field(5, b"use") + b"\x24"
    container = SavedModelDirectory.of(Path("m"), model_with(field(9, numbers + field(6, b"^c:1"))))
    assert graphs(container)[0].preserve == {"use", "c"}


@pytest.mark.parametrize(
    "broken", [b"\x08", b"\x08" + b"\xff" * 10, b"\x15abc", b"\x00\x00", b"\x0e", b"\x0a\x7f", b"\x0a"]
)
def test_what_is_no_message_holds_no_strings(broken: bytes) -> None:
    container = SavedModelDirectory.of(Path("m"), model_with(field(9, field(1, b"use") + broken)))
    assert graphs(container)[0].preserve == frozenset()
