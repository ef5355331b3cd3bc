"""SavedModel directories: one graph per meta graph, and all else as it is.

A meta graph refers to its graph by name. What those names reach must stay when the graph is rewritten:

1. Signatures: the tensors that are fed and fetched.
2. The rest of the meta graph (saver, collections, asset files, the object graph of TensorFlow 2): nodes.
3. The object graph: functions of the library.

TensorFlow does not check ``fingerprint.pb`` against the graphs: it reports what the file says, right or wrong,
and computes it anew where it is absent. So it goes along with graphs that did not change, and is left out
otherwise.
"""

import os
import shutil
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from tfwave.errors import GraphError
from tfwave.files import check_inside, overlap, real_path, whole_directory
from tfwave.graph.item import GraphItem
from tfwave.graph.load import read_bytes
from tfwave.graph.serialize import check_serializable, serialize
from tfwave.graph.wire import DEEPEST, unknown_strings
from tfwave.proto.tensorflow_pb2 import GraphDef, MetaGraphDef, SavedModel, TensorInfo

SAVED_MODEL = "saved_model.pb"
FINGERPRINT = "fingerprint.pb"

_OTHER_FORMS = {
    "saved_model.pbtxt": "in text form: save it again in binary form",
    "saved_model.cpb": "in chunks: save it again without experimental_image_format",
}
_FILE_SUFFIXES = (".pb", ".pbtxt")


@dataclass(frozen=True)
class MetaGraph:
    """One graph of a SavedModel, with what the SavedModel refers to by name."""

    label: str
    item: GraphItem
    functions: frozenset[str]
    """The functions of the library that the object graph names."""


@dataclass(frozen=True)
class SavedModelDirectory:
    """A SavedModel on disk. The proto is shared, never edited in place."""

    path: Path
    saved_model: SavedModel
    meta_graphs: tuple[MetaGraph, ...]

    @classmethod
    def read(cls, path: Path) -> "SavedModelDirectory":
        """Read the graphs of a SavedModel; variables and assets are not read.

        Raises:
            TfwaveError: the directory is not a SavedModel, or one that cannot be read; or as `check_inside`, for
                nothing outside of it is read. Names the file.
        """
        return cls.of(path, _parse(path))

    @classmethod
    def of(cls, path: Path, saved_model: SavedModel) -> "SavedModelDirectory":
        """A SavedModel that was read from `path`.

        Raises:
            GraphError: its messages nest deeper than protobuf allows; names the file and the field.
        """
        metas = enumerate(saved_model.meta_graphs)
        try:
            return cls(path, saved_model, tuple([_meta_graph(meta, i) for i, meta in metas]))
        except DecodeError as error:
            raise GraphError(
                f"'{path / SAVED_MODEL}': {error}, which TensorFlow does not read either: take it "
                "anew from where it was saved"
            ) from error

    def items(self) -> tuple[tuple[str, GraphItem], ...]:
        """The graph of each meta graph, after its tags."""
        return tuple([(meta.label, meta.item) for meta in self.meta_graphs])

    def write(self, items: Sequence[GraphItem], out: str) -> None:
        """Write a SavedModel with other graphs and a copy of all other files; an earlier one is replaced.

        Raises:
            TfwaveError: as `Container.write`.
        """
        _check_target(self.path, out)
        graphs = [item.graph for item in items]
        for meta, graph in zip(self.meta_graphs, graphs, strict=True):
            _check_kept(meta, graph, out)
        changed = any(graph != meta.item.graph for meta, graph in zip(self.meta_graphs, graphs, strict=True))
        data = serialize(_with_graphs(self.saved_model, graphs), out) if changed else None
        with whole_directory(real_path(Path(out))) as target:
            _copy(self.path, target, leave=(SAVED_MODEL, FINGERPRINT) if changed else ())
            if data is not None:
                (target / SAVED_MODEL).write_bytes(data)


def _parse(path: Path) -> SavedModel:
    file = path / SAVED_MODEL
    if not os.path.exists(file):
        raise _not_a_saved_model(path)
    check_inside(path)
    try:
        saved_model = SavedModel.FromString(read_bytes(file))
    except DecodeError as error:
        raise GraphError(
            f"'{file}' is not a SavedModel: truncated, another format, or deeper than {DEEPEST} messages"
        ) from error
    if not saved_model.meta_graphs:
        raise GraphError(f"'{file}' is not a SavedModel: it holds no meta graph")
    if not all(node.name and node.op for meta in saved_model.meta_graphs for node in meta.graph_def.node):
        raise GraphError(f"'{file}' is not a SavedModel: it holds nodes without a name or an op")
    return saved_model


def _not_a_saved_model(path: Path) -> GraphError:
    for name, way_out in _OTHER_FORMS.items():
        if (path / name).exists():
            return GraphError(f"'{path}' holds a SavedModel {way_out}")
    return GraphError(f"'{path}' is not a SavedModel directory: it holds no {SAVED_MODEL}")


def _meta_graph(meta: MetaGraphDef, position: int) -> MetaGraph:
    nodes = {node.name for node in meta.graph_def.node}
    signatures = [meta.signature_def[key] for key in sorted(meta.signature_def)]
    feeds = _tensors([info for s in signatures for _, info in sorted(s.inputs.items(), key=_key)], nodes)
    fetches = _tensors([info for s in signatures for _, info in sorted(s.outputs.items(), key=_key)], nodes)
    library = {function.signature.name for function in meta.graph_def.library.function}
    named = {_node_of(text) for text in (*feeds, *fetches)}
    functions: set[str] = set()
    for text in unknown_strings(meta):  # a name too many is preserved rather than one too few
        named |= {_node_of(text)} & nodes
        functions |= {text} & library
    label = ",".join(meta.meta_info_def.tags) or f"meta graph {position}"
    item = GraphItem(meta.graph_def, feeds, fetches, frozenset(named & nodes))
    return MetaGraph(label, item, frozenset(functions))


def _key(entry: tuple[str, TensorInfo]) -> str:
    return entry[0]


def _tensors(infos: Iterable[TensorInfo], nodes: Set[str]) -> tuple[str, ...]:
    """The names of the tensors, once each. Sparse and composite ones have several, in unknown fields."""
    names = [name for info in infos for name in ([info.name] if info.name else _parts(info, nodes))]
    return tuple(dict.fromkeys(names))


def _parts(info: TensorInfo, nodes: Set[str]) -> list[str]:
    return [text for text in unknown_strings(info) if ":" in text and _node_of(text) in nodes]


def _node_of(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _check_target(source: Path, out: str) -> None:
    target = Path(out)
    if (
        out == "-"
        or target.suffix in _FILE_SUFFIXES
        or (os.path.exists(target) and not os.path.isdir(target))
    ):
        raise GraphError(f"cannot write '{out}': '{source}' is a SavedModel, which needs a directory")
    if overlap(source, target):
        raise GraphError(
            f"'{out}' is, contains or lies within the SavedModel '{source}': choose another place"
        )
    if os.path.isdir(target) and any(target.iterdir()) and not (target / SAVED_MODEL).exists():
        raise GraphError(f"'{out}' is a directory with other files, not a SavedModel: choose another name")


def _check_kept(meta: MetaGraph, graph: GraphDef, out: str) -> None:
    check_serializable(graph, f"{out}: {meta.label}")
    lost = meta.item.preserve.difference([node.name for node in graph.node])
    if lost:
        raise GraphError(f"cannot write '{out}': node '{min(lost)}', which the SavedModel names, was removed")
    lost = meta.functions.difference([function.signature.name for function in graph.library.function])
    if lost:
        raise GraphError(
            f"cannot write '{out}': function '{min(lost)}', which the SavedModel names, was removed"
        )


def _with_graphs(saved_model: SavedModel, graphs: Iterable[GraphDef]) -> SavedModel:
    copy = SavedModel()
    copy.CopyFrom(saved_model)
    for meta, graph in zip(copy.meta_graphs, graphs, strict=True):
        meta.graph_def.CopyFrom(graph)
    return copy


def _copy(source: Path, target: Path, *, leave: Sequence[str]) -> None:
    """Copy all files but those to leave, which lie at the top; links become the files that they lead to."""
    check_inside(source)

    def left_out(folder: str, _names: list[str]) -> Sequence[str]:
        return leave if Path(folder) == source else ()

    try:
        shutil.copytree(source, target, ignore=left_out, copy_function=shutil.copyfile, dirs_exist_ok=True)
    except shutil.Error as error:
        file, _, why = error.args[0][0]
        raise GraphError(f"cannot copy '{file}' of the SavedModel: {why}") from error
