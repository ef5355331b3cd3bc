"""Reading graphs: both forms, and all that is neither."""

import io
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.errors import GraphError
from tfwave.graph.load import load_graph, parse_graph
from tfwave.proto.tensorflow_pb2 import GraphDef


def some_graph() -> GraphDef:
    build = Builder()
    build.op(WORKER, "use", [build.pair("v", SERVERS[0], WORKER, send=False), build.const(WORKER, "c")])
    graph = build.partitions[WORKER]
    graph.versions.producer = 1882
    return graph


def test_binary_and_text_are_told_apart_by_content(tmp_path: Path) -> None:
    graph = some_graph()
    binary, text = tmp_path / "graph.pbtxt", tmp_path / "graph.pb"
    binary.write_bytes(graph.SerializeToString())
    text.write_text(text_format.MessageToString(graph))
    assert load_graph(binary).graph == graph
    assert load_graph(str(text)).graph == graph


@pytest.mark.parametrize(
    "start", ["", "\n\n", "# a comment\n", "versions { producer: 3 }\n", "library { }\n"]
)
def test_text_may_start_in_many_ways(start: str) -> None:
    graph = parse_graph(f'{start}node {{ name: "a" op: "NoOp" }}'.encode(), "g")
    assert [n.name for n in graph.node] == ["a"]


@pytest.mark.parametrize("length", range(1, 140))
def test_binary_graphs_with_nodes_of_any_length_are_not_taken_for_text(length: int) -> None:
    graph = GraphDef()
    graph.node.add(name="x" * length, op="NoOp")
    graph.versions.producer = 1
    assert parse_graph(graph.SerializeToString(), "g") == graph


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = some_graph()
    data = io.BytesIO(graph.SerializeToString())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    assert load_graph("-").graph == graph


def test_a_truncated_binary_graph_is_refused_unless_it_ends_between_two_nodes() -> None:
    """A message cut between two fields is a whole message of fewer fields: only the graph's own edges tell."""
    whole = some_graph()
    data = whole.SerializeToString(deterministic=True)
    prefixes = [GraphDef(node=whole.node[:count]) for count in range(1, len(whole.node) + 1)]
    for cut in range(len(data)):
        try:
            accepted = parse_graph(data[:cut], "cut")
        except GraphError:
            continue
        assert accepted in prefixes


def test_truncated_text_is_refused() -> None:
    text = text_format.MessageToString(some_graph())
    with pytest.raises(GraphError, match="'cut' is not a GraphDef"):
        parse_graph(text[: text.rindex("}") - 3].encode(), "cut")


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b'{"node": []}',
        b"PK\x03\x04\x14\0",
        b"hello\n",
        b"node\xff\xfe",
        bytes(64),
    ],
)
def test_foreign_bytes_are_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(data)
    with pytest.raises(GraphError, match=f"'{file}'"):
        load_graph(file)


@pytest.mark.parametrize("data", [b"", b" \n\t"])
def test_an_empty_file_is_said_to_be(data: bytes) -> None:
    with pytest.raises(GraphError, match="'g' is empty"):
        parse_graph(data, "g")


def test_a_graph_without_nodes_is_refused() -> None:
    with pytest.raises(GraphError, match="'g' has no nodes"):
        parse_graph(b"versions { producer: 1 }", "g")


def test_nodes_without_an_op_are_refused() -> None:
    graph = GraphDef()
    graph.node.add(name="a")
    with pytest.raises(GraphError, match="without a name or an op"):
        parse_graph(graph.SerializeToString(), "g")


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"gone\.pb': No such file"):
        load_graph(tmp_path / "gone.pb")
    with pytest.raises(GraphError, match=f"'{tmp_path}': Is a directory"):
        load_graph(tmp_path)


def test_text_that_breaks_is_told_where() -> None:
    text = b'node {\n  name: "a"\n  op: "NoOp"\n  inputs: "b"\n}\n'
    with pytest.raises(GraphError, match=r"'g\.pbtxt' .*its text form breaks at line 4, column 3"):
        parse_graph(text, "g.pbtxt")
