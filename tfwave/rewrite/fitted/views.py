"""Tensors that come back: all late readers of what lies in a buffer take it from there."""

from collections.abc import Iterator

from tfwave.graph.attrs import CLASS_ATTR
from tfwave.graph.marks import PREFIX
from tfwave.graph.names import TensorName
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.rewrite.fitted.turns import Turns

VIEW_OPS = frozenset(
    {"Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient", "EnsureShape"}
)
"""Ops whose output has the contents of their first input, and lies where that does."""
SLICE_OPS = {"Slice": 0, "Split": 1, "SplitV": 0, "StridedSlice": 0, "Unpack": 0}
"""Ops that allocate nothing if what they give are rows of an input, at aligned addresses: these lie in its buffer.

With the position of that input.
"""


def clone_of(node: NodeDef, name: str) -> NodeDef:
    """The node again, under another name: on the same device, and not a mate of any other."""
    clone = NodeDef()
    clone.CopyFrom(node)
    clone.name = name
    for attr in [attr for attr in clone.attr if attr.startswith(PREFIX) or attr == CLASS_ATTR]:
        del clone.attr[attr]
    return clone


def take_instead(turns: Turns, tensor: TensorName, back: str, returned: str, label: str) -> None:
    """Let all that reads a tensor from the turn of `back` on read `returned`, also through views made before.

    A view that late nodes read is made again of what returned.
    """
    late = turns.readers(tensor, since=back)
    for view in list(_views(turns, tensor, back)):
        _view_again(turns, view, back, returned, label)
    for reader in late:
        turns.redirect(reader, returned)


def _views(turns: Turns, tensor: TensorName, back: str) -> Iterator[NodeDef]:
    """Those made before `back` that have late readers, also through further views."""
    for name, position in turns.readers(tensor, until=back):
        node = turns.graph.node(name)
        if position == 0 and node.op in VIEW_OPS:
            given = TensorName(name, 0)
            if turns.readers(given, since=back) or any(_views(turns, given, back)):
                yield node


def _view_again(turns: Turns, node: NodeDef, back: str, returned: str, label: str) -> None:
    again = clone_of(node, f"{node.name}/{label}")
    kept = [text for text in node.input[1:] if not text.startswith("^")]
    del again.input[:]
    again.input.extend([returned, *kept])
    late = TensorName(node.name, 0)
    name = turns.add(again, back)
    take_instead(turns, late, back, name, label)
