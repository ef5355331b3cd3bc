"""Reading node attributes without touching the node: indexing a protobuf map inserts what is missing."""

from tfwave.proto.tensorflow_pb2 import NodeDef

CLASS_ATTR = "_class"
CLASS_PREFIX = "loc:@"
NOTED_SHAPES = "_output_shapes"
"""TensorFlow notes shapes in one kind of file, and not in another."""


def string_attr(node: NodeDef, name: str) -> str:
    """A string attribute, or the empty string where the node has none of that name."""
    value = node.attr.get(name)
    return value.s.decode(errors="replace") if value is not None else ""


def flag_attr(node: NodeDef, name: str) -> bool:
    """A boolean attribute, or False where the node has none of that name."""
    value = node.attr.get(name)
    return value is not None and value.b


def colocated_with(node: NodeDef) -> list[str]:
    """The nodes that a node says it stays with."""
    value = node.attr.get(CLASS_ATTR)
    texts = [] if value is None else [text.decode(errors="replace") for text in value.list.s]
    return [text.removeprefix(CLASS_PREFIX) for text in texts if text.startswith(CLASS_PREFIX)]
