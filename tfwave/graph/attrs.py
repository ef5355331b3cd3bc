"""Reading node attributes without touching the node: indexing a protobuf map inserts what is missing."""

from collections.abc import Callable, Mapping

from tfwave.proto.tensorflow_pb2 import AttrValue, NodeDef

CLASS_ATTR = "_class"
CLASS_PREFIX = "loc:@"
NOTED_SHAPES = "_output_shapes"
"""TensorFlow notes shapes in one kind of file, and not in another."""
KEEP_ATTR = "_grappler_do_not_remove"
"""Grappler honours this attribute: it neither bypasses, merges nor folds the node."""
KEEP: Mapping[str, AttrValue] = {KEEP_ATTR: AttrValue(b=True)}


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


def rename_groups(node: NodeDef, rename: Callable[[str], str]) -> None:
    """Give each node that a node says it stays with the name that `rename` gives it."""
    if CLASS_ATTR in node.attr:
        groups = node.attr[CLASS_ATTR].list.s
        groups[:] = [_regrouped(group, rename) for group in groups]


def _regrouped(group: bytes, rename: Callable[[str], str]) -> bytes:
    text = group.decode(errors="surrogateescape")
    if not text.startswith(CLASS_PREFIX):
        return group
    renamed = CLASS_PREFIX + rename(text.removeprefix(CLASS_PREFIX))
    return renamed.encode(errors="surrogateescape")
