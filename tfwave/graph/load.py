"""Reading GraphDefs: binary or text, from a file or standard input."""

import io
import sys
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from tfwave.errors import GraphError
from tfwave.files import read_file
from tfwave.graph.item import GraphItem
from tfwave.graph.serialize import PROTOBUF_LIMIT, check_size
from tfwave.graph.wire import DEEPEST
from tfwave.proto.tensorflow_pb2 import GraphDef

STANDARD_INPUT = "-"
_PART = 2**20
_TEXT_BEGINS = (b"node", b"versions", b"library", b"#", b"version")


def load_graph(source: str | Path) -> GraphItem:
    """Read a GraphDef, in binary or text form (told apart by content), from a path or ``-``.

    Raises:
        GraphError: no such file, or it is not a GraphDef, or it is empty or longer than protobuf allows.
    """
    graph = parse_graph(read_bytes(source), str(source))
    return GraphItem(graph)


def read_bytes(source: str | Path) -> bytes:
    """The content of a file, or of standard input for ``-``.

    Raises:
        GraphError: it cannot be read, or is longer than protobuf allows; names it.
    """
    try:
        if str(source) == STANDARD_INPUT:
            return _read_standard_input()
        check_size(Path(source).stat().st_size, str(source))
        return read_file(source)
    except OSError as error:
        raise GraphError(f"cannot read graph '{source}': {error.strerror}") from error


def _read_standard_input() -> bytes:
    """All of it, or, as it may never end, little more than is allowed."""
    data = io.BytesIO()
    while data.tell() <= PROTOBUF_LIMIT and (part := sys.stdin.buffer.read(_PART)):
        data.write(part)
    return data.getvalue()


def parse_graph(data: bytes, name: str) -> GraphDef:
    """Parse a GraphDef in binary or text form; `name` is used in messages.

    Raises:
        GraphError: as `decode_graph`.
    """
    return decode_graph(data, name)[0]


def decode_graph(data: bytes, name: str) -> tuple[GraphDef, bool]:
    """A GraphDef, and whether the bytes are its text form; `name` is used in messages.

    Raises:
        GraphError: the bytes are empty, are not a GraphDef, have no nodes, or are longer than protobuf allows.
    """
    check_size(len(data), name)
    if not data.strip():
        raise GraphError(f"graph '{name}' is empty: expected a GraphDef in binary or text form")
    text, wrong = _parse_text(data, name)
    graph = _parse_binary(data, name, wrong) if text is None else text
    if not graph.node:
        raise GraphError(f"graph '{name}' has no nodes")
    return graph, text is not None


def _parse_text(data: bytes, name: str) -> tuple[GraphDef | None, str]:
    """The graph in text form; or None, and what is wrong with the bytes if they are no binary form either."""
    wrong = f"truncated, another format, or deeper than {DEEPEST} messages"
    if not data.lstrip().startswith(_TEXT_BEGINS):
        return None, wrong
    text = data.decode(errors="replace")
    try:
        graph = text_format.Parse(text, GraphDef())
    except text_format.ParseError as error:
        return None, f"its text form breaks at line {error.GetLine()}, column {error.GetColumn()}"
    except RecursionError as error:
        raise _too_deep(name) from error
    if text.encode() != data:
        return None, wrong
    try:
        GraphDef.FromString(graph.SerializeToString())
    except DecodeError as error:
        raise _too_deep(name) from error
    return graph, ""


def _too_deep(name: str) -> GraphError:
    """Protobuf's text form has no limit, but nobody could read what is made of it."""
    return GraphError(
        f"'{name}' nests messages deeper than {DEEPEST}, which TensorFlow does not read either: "
        "name functions in attributes without attributes of their own"
    )


def _parse_binary(data: bytes, name: str, wrong: str) -> GraphDef:
    try:
        graph = GraphDef.FromString(data)
    except DecodeError as error:
        raise GraphError(
            f"'{name}' is not a GraphDef ({wrong}): "
            "expected the bytes of graph_def.SerializeToString() or its text form"
        ) from error
    if not all(node.name and node.op for node in graph.node):
        raise GraphError(f"'{name}' is not a GraphDef: it holds nodes without a name or an op")
    return graph
