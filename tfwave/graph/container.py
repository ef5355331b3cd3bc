"""Containers: the places where graphs live, read and written in one way.

1. A file with one GraphDef, in binary or text form, or standard input and output (``-``): `GraphFile`.
2. A SavedModel directory, with one graph per meta graph: `SavedModelDirectory`.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from google.protobuf import text_format

from tfwave.errors import GraphError, TfwaveError
from tfwave.files import write_whole
from tfwave.graph.item import GraphItem
from tfwave.graph.load import STANDARD_INPUT, decode_graph, read_bytes
from tfwave.graph.saved_model import SAVED_MODEL, SavedModelDirectory
from tfwave.graph.serialize import check_serializable, serialize
from tfwave.proto.tensorflow_pb2 import GraphDef

STANDARD_OUTPUT = "-"
TEXT_SUFFIX = ".pbtxt"


class Container(Protocol):
    """Graphs in one place; `write` puts them, or what became of them, into a place of the same kind."""

    def items(self) -> tuple[tuple[str, GraphItem], ...]:
        """The graphs, each after its label."""
        ...

    def write(self, items: Sequence[GraphItem], out: str) -> None:
        """Write the container with other graphs, in the order of `items()`; whole or not at all.

        Raises:
            TfwaveError: `out` is the source, or of another kind, or cannot be written, or a graph is longer
                than protobuf allows or lacks what the container refers to; names the file. Nothing is left.
        """
        ...


def open_container(source: str) -> Container:
    """Read the graphs at a path, or from standard input for ``-``.

    Raises:
        GraphError: it cannot be read, or is neither a GraphDef nor a SavedModel; names it.
    """
    path = Path(source)
    if source == STANDARD_INPUT:
        return GraphFile.read(source)
    if path.name == SAVED_MODEL:
        raise GraphError(f"'{source}' is a part of a SavedModel: name its directory, '{path.parent}'")
    return SavedModelDirectory.read(path) if os.path.isdir(path) else GraphFile.read(source)


@dataclass(frozen=True)
class GraphFile:
    """A file, or standard input, that holds one GraphDef."""

    source: str
    graph: GraphDef
    text: bool
    """Whether it was in text form."""

    @classmethod
    def read(cls, source: str) -> "GraphFile":
        """Read a GraphDef from a path or ``-``; the form is told by the content.

        Raises:
            GraphError: as `load_graph`.
        """
        return cls(source, *decode_graph(read_bytes(source), source))

    def items(self) -> tuple[tuple[str, GraphItem], ...]:
        """The graph, after the name of its file."""
        return ((self.source, GraphItem(self.graph)),)

    def write(self, items: Sequence[GraphItem], out: str) -> None:
        """Write the graph: as text if `out` ends in ``.pbtxt``, else in binary; ``-`` keeps the form it had.

        Raises:
            TfwaveError: as `Container.write`.
        """
        (item,) = items
        check_target(self.source, out)
        data = _encode(item.graph, out, text=self._writes_text(out))
        if out == STANDARD_OUTPUT:
            _write_standard_output(data)
        else:
            write_whole(Path(out), data)

    def _writes_text(self, out: str) -> bool:
        return self.text if out == STANDARD_OUTPUT else out.endswith(TEXT_SUFFIX)


def check_target(source: str, out: str) -> None:
    """Refuse to write one graph where a directory is, or where it was read.

    Raises:
        GraphError: `out` is a directory, or the file `source`.
    """
    if out == STANDARD_OUTPUT:
        return
    path = Path(out)
    if os.path.isdir(path):
        raise GraphError(f"cannot write '{out}': '{source}' is one graph, and this is a directory")
    if source != STANDARD_INPUT and _is_same_file(Path(source), path):
        raise GraphError(f"'{out}' is the graph that was read, '{source}': choose another name")


def _is_same_file(source: Path, out: Path) -> bool:
    return os.path.isfile(source) and os.path.isfile(out) and source.samefile(out)


def _encode(graph: GraphDef, name: str, *, text: bool) -> bytes:
    if not text:
        return serialize(graph, name)
    check_serializable(graph, name)
    return text_format.MessageToString(graph).encode()


def _write_standard_output(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise TfwaveError(f"cannot write to standard output: {error.strerror}") from error
