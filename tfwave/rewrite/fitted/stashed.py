"""A tensor that is copied to the host's memory, and back."""

from collections.abc import Sequence
from typing import cast

from tfwave.errors import PassError
from tfwave.graph.marks import FETCH_OP, STASH_OP
from tfwave.graph.names import TensorName, parse_input
from tfwave.graph.ops import REF, OpTable
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, AttrValue, DataType, NodeDef
from tfwave.rewrite.fitted.turns import Turns
from tfwave.rewrite.fitted.views import VIEW_OPS, take_instead


class Stashed:
    """A stash, which copies what lies in a buffer to the host, and a fetch, which gives it back.

    1. The stash waits for the node `after`, the last of the forward pass that uses the buffer, and the first node
       from `gone` on that keeps its turn waits for the stash.
    2. The fetch begins when the nodes are done for which a node in the turn of `back` waits.
    """

    def __init__(self, turns: Turns, names: Sequence[str], after: str, label: str) -> None:
        """Of a buffer, named by all tensors that lie in it one after the other, take what `after` found there last.

        Raises:
            PassError: they are no plain tensor; names it.
        """
        self._turns, self._after, self._label = turns, after, label
        self._tensor = _contents(turns, names, after)
        source = turns.graph.node(self._tensor.node)
        self._kind = OpTable.of(turns.graph.item.graph).output_types(source)[self._tensor.port]
        self._device = source.device
        if self._kind in (DT_RESOURCE, DT_VARIANT) or self._kind >= REF:
            raise PassError(
                f"what '{source.name}' ({source.op}) gives is no plain tensor: it cannot be offloaded"
            )

    def move(self, gone: str, back: str) -> None:
        """Copy it out and back, and let all its readers from the turn of `back` on take the copy."""
        text = f"{self._tensor.node}:{self._tensor.port}" if self._tensor.port else self._tensor.node
        kind = AttrValue(type=cast("DataType", self._kind))
        stash = NodeDef(name=f"{self._tensor.node}/{self._label}/out", op=STASH_OP, device=self._device)
        stash.input.append(text)
        if self._after != self._tensor.node and self._turns.graph.has_node(self._after):
            stash.input.append(f"^{self._after}")
        fetch = NodeDef(name=f"{self._tensor.node}/{self._label}", op=FETCH_OP, device=self._device)
        awaited = self._turns.awaited(self._turns.index(back))
        fetch.input.extend([stash.name, *(f"^{name}" for name in awaited)])
        for node in (stash, fetch):
            node.attr["T"].CopyFrom(kind)
        stash.attr["slot"].s = f"{self._tensor.node}:{self._tensor.port}".encode()
        self._turns.add(stash)
        self._turns.add(fetch, back)
        waiting = self._turns.chained_from(gone)
        if waiting:
            self._turns.graph.add_control_edge(stash.name, waiting)
        take_instead(self._turns, self._tensor, back, fetch.name, self._label)


def _contents(turns: Turns, names: Sequence[str], after: str) -> TensorName:
    """The tensor that was written last until then; what comes after it are views."""
    first, *more = [parse_input(name) for name in names]
    found = first
    for tensor in more:
        if turns.of(tensor.node) <= turns.at(after) and turns.graph.node(tensor.node).op not in VIEW_OPS:
            found = tensor
    return found
