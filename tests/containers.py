"""A graph, and a SavedModel that refers to its nodes and functions in all the ways there are."""

from pathlib import Path

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.graph.container import Container
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import GraphDef, SavedModel


def some_graph() -> GraphDef:
    build = Builder()
    build.op(WORKER, "use", [build.pair("v", SERVERS[0], WORKER, send=False), build.const(WORKER, "c")])
    build.op(WORKER, "init", ["^c"])
    graph = build.partitions[WORKER]
    graph.versions.producer = 1882
    for name in ("f", "unused"):
        graph.library.function.add().signature.name = name
    return graph


def field(number: int, data: bytes) -> bytes:
    """A string or message of fewer than 128 bytes, on the wire."""
    return bytes([number << 3 | 2, len(data)]) + data


SAVER = field(3, field(1, b"c:0"))
COLLECTION = field(4, field(1, b"ops") + field(2, field(1, field(1, b"^init"))))
OBJECTS = field(7, field(2, field(1, b"f")))


def some_model() -> SavedModel:
    """Two meta graphs; the second has a signature only."""
    model = SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.extend(["serve", "gpu"])
    meta.graph_def.CopyFrom(some_graph())
    signature = meta.signature_def["serving_default"]
    signature.inputs["x"].name = "recv1:0"
    signature.outputs["z"].name = "use:0"
    signature.outputs["again"].name = "use:0"
    meta.MergeFromString(SAVER + COLLECTION + OBJECTS)
    model.meta_graphs.add().graph_def.CopyFrom(some_graph())
    return model


def save(model: SavedModel, path: Path) -> Path:
    (path / "variables").mkdir(parents=True)
    (path / "assets").mkdir()
    (path / "saved_model.pb").write_bytes(model.SerializeToString())
    (path / "variables" / "variables.index").write_bytes(bytes(range(256)))
    (path / "variables" / "saved_model.pb").write_bytes(b"a variable")
    (path / "assets" / "vocab.txt").write_text("a\nb\n")
    (path / "keras_metadata.pb").write_bytes(b"\x0akeras")
    (path / "fingerprint.pb").write_bytes(b"\x08\x01")
    return path


def files(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


def graphs(container: Container) -> list[GraphItem]:
    return [item for _, item in container.items()]


def with_noop(item: GraphItem) -> GraphItem:
    graph = GraphDef()
    graph.CopyFrom(item.graph)
    graph.node.add(name="added", op="NoOp")
    return GraphItem(graph)
