"""A tensor that is made again: clones of the ops that made it."""

from collections.abc import Sequence

from tfwave.errors import PassError
from tfwave.graph.access import REPEATABLE_OPS, is_random, works_on_reference
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, NodeDef
from tfwave.rewrite.fitted.turns import Turns
from tfwave.rewrite.fitted.views import VIEW_OPS, clone_of, take_instead


class MadeAgain:
    """The clones of the ops `again`, which run before the node `back`.

    1. What the ops read of each other, also through views, the clones read of each other; all else they read where
       it is.
    2. A variable is not read a second time: what the step read of it before its update is kept for the clones.
    3. The first clones wait for what a node in the turn of `back` waits for. All their names end with `label`.
    """

    def __init__(self, turns: Turns, again: Sequence[str], back: str, label: str) -> None:
        """Add the clones, which nothing reads yet.

        Raises:
            PassError: an op that may give something else when it runs twice; names it.
        """
        self._turns, self._back, self._label = turns, back, label
        table = OpTable.of(turns.graph.item.graph)
        nodes = [turns.graph.node(name) for name in again]
        self._clones = {
            node.name: f"{node.name}/{label}" for node in nodes if not _reads_variable(node, table)
        }
        for node in nodes:
            if node.name in self._clones:
                _check_repeats(node, table)
                turns.add(self._clone(node), back)

    def take(self, names: Sequence[str]) -> None:
        """Let all later readers of these tensors (``node:port``) take what the clones made.

        Of a buffer's tensors the last is the first, as it may be a view of one before it.
        """
        for name in reversed(names):
            tensor = parse_input(name)
            if tensor.node in self._clones:
                clone = self._clones[tensor.node]
                returned = f"{clone}:{tensor.port}" if tensor.port else clone
                take_instead(self._turns, tensor, self._back, returned, self._label)

    def _clone(self, node: NodeDef) -> NodeDef:
        clone = clone_of(node, self._clones[node.name])
        given = [text for text in node.input if not text.startswith("^")]
        inputs = [self._input(text) for text in given]
        if inputs == given:
            inputs.extend(f"^{name}" for name in self._turns.awaited(self._turns.index(self._back)))
        del clone.input[:]
        clone.input.extend(inputs)
        return clone

    def _input(self, text: str) -> str:
        source = parse_input(text)
        clone = self._cloned(source.node)
        if clone is None:
            return text
        return f"{clone}:{source.port}" if source.port else clone

    def _cloned(self, name: str) -> str | None:
        """The clone of an op, or of a view of what one gives, which nobody says to make again: it is made here."""
        if name not in self._clones:
            node = self._turns.graph.node(name)
            if node.op not in VIEW_OPS or self._cloned(parse_input(node.input[0]).node) is None:
                return None
            self._clones[name] = f"{name}/{self._label}"
            self._turns.add(self._clone(node), self._back)
        return self._clones[name]


def _reads_variable(node: NodeDef, table: OpTable) -> bool:
    return node.op in {"ReadVariableOp", "_ReadVariablesOp"} or (
        node.op == "Identity" and table.input_types(node)[0] == DT_RESOURCE
    )


def _check_repeats(node: NodeDef, table: OpTable) -> None:
    signature = table.signature(node)
    stateful = signature.is_stateful and node.op not in REPEATABLE_OPS
    if not stateful and not works_on_reference(signature) and DT_RESOURCE not in table.input_types(node):
        return
    why = "draws other numbers" if is_random(signature) else "may give something else"
    raise PassError(
        f"node '{node.name}' ({node.op}) {why} when it runs twice: make a plan of this graph, "
        "which keeps it or offloads it"
    )
