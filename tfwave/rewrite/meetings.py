"""Nodes that may wait for each other otherwise than by an edge: at a queue, for a lock, or by a key."""

from collections.abc import Iterator
from dataclasses import dataclass

from tfwave.graph.access import KEYED_OPS, Resource, resource_of, works_on_reference
from tfwave.graph.flow_ops import ENTER_OPS, SWITCH_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.rewrite.resources import ResourceSurvey

_WAITING_OPS = (
    *("QueueEnqueue", "QueueDequeue", "QueueClose", "ReaderRead", "MutexLock", "ConsumeMutexLock"),
    *("BarrierInsertMany", "BarrierTakeMany", "AccumulatorApply", "AccumulatorTake"),
    *("ResourceAccumulatorApply", "ResourceAccumulatorTake", "SparseAccumulator"),
    *("Stage", "Unstage", "MapStage", "MapUnstage", "MapPeek", "OrderedMap"),
)
"""How the names of ops begin that wait until another has given or taken something, or end such a wait."""
_KEYED, _KEY = "Collective", "instance_key"
_PASSING_OPS = frozenset({"Identity", "RefIdentity", *ENTER_OPS, *SWITCH_OPS})


@dataclass(frozen=True)
class Meeting:
    """A node that may wait for others, or end their wait: by which of its ops or those that it calls, and where."""

    node: int
    ops: frozenset[str]
    places: frozenset[Resource]

    def may_wait(self, other: "Meeting") -> bool:
        """May one of the two wait for the other? Those that do the same at a queue do not."""
        ops = self.ops | other.ops
        return bool(self.places & other.places) and (len(ops) > 1 or _KEYED in ops)


def find_meetings(item: GraphItem, view: GraphView) -> list[Meeting]:
    """The nodes of a graph that may wait for each other.

    1. Those that touch one resource (see `ResourceSurvey`); staging areas all count as one.
    2. Those behind one reference.
    3. Collectives of one instance key; or all, where a key is not told by an attribute or a constant.

    Raises:
        GraphError: a handle that cannot be traced to what made it; names the node.
    """
    survey = ResourceSurvey(item, view)
    table = OpTable.of(item.graph)
    found: list[Meeting] = []
    keys: dict[int, str] = {}
    for node, definition in enumerate(view.nodes):
        called = {definition.op, *(leaf.op for leaf in survey.leaves(definition))}
        if any(map(_is_keyed, called)):
            keys[node] = _key(view, node, table)
        if waiting := frozenset(op for op in called if op.startswith(_WAITING_OPS)):
            touched = {touch.resource for touch in survey.touches([node])}
            found.append(Meeting(node, waiting, frozenset({*touched, *_referred(view, node, table)})))
    is_told = all(keys.values())
    collectives = ((node, ("Collective", "", key if is_told else "")) for node, key in keys.items())
    return found + [Meeting(node, frozenset({_KEYED}), frozenset({place})) for node, place in collectives]


def _is_keyed(op: str) -> bool:
    return op.startswith(KEYED_OPS)


def _referred(view: GraphView, node: int, table: OpTable) -> Iterator[Resource]:
    """What the references stand for that a node takes."""
    signature = table.known(view.ops[node])
    if signature is None or not works_on_reference(signature):
        return
    for source in view.fanins[node][: view.data_fanins[node]]:
        place = source
        while view.ops[place] in _PASSING_OPS:
            place = view.fanins[place][0]
        yield resource_of(view.nodes[place])


def _key(view: GraphView, node: int, table: OpTable) -> str:
    """The instance key of a collective; empty if it is not told."""
    definition = view.nodes[node]
    if _KEY in definition.attr:
        return str(definition.attr[_KEY].i)
    signature = table.known(definition.op)
    names = [arg.name for arg in signature.input_arg] if signature is not None else []
    if _KEY not in names:
        return ""
    source = view.nodes[view.fanins[node][names.index(_KEY)]]
    if source.op != "Const":
        return ""
    tensor = source.attr["value"].tensor
    return str(tensor.int_val[0] if tensor.int_val else int.from_bytes(tensor.tensor_content, "little"))
