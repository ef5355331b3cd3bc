"""Which variables of a graph can be cut into blocks, and why the others cannot."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tfwave.graph.access import (
    HANDLE_OP,
    IN_PLACE_OPS,
    REFERENCE_OPS,
    VARIABLE_OPS,
    Resource,
    is_anonymous,
    resource_of,
    variables_named,
)
from tfwave.graph.item import GraphItem
from tfwave.graph.names import natural_key, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import (
    DT_BFLOAT16,
    DT_DOUBLE,
    DT_FLOAT,
    DT_HALF,
    DT_RESOURCE,
    NodeDef,
)
from tfwave.rewrite.blocks.elementwise import UPDATES
from tfwave.rewrite.blocks.layout import Layout, layout_of
from tfwave.rewrite.blocks.shapes import shape_of

READ = "ReadVariableOp"
QUESTION = "VarIsInitializedOp"

_ITEM_BYTES: Mapping[int, int] = {DT_BFLOAT16: 2, DT_HALF: 2, DT_FLOAT: 4, DT_DOUBLE: 8}
"""The types of variables that are cut, and the bytes of an element."""
_MOST_BLOCKS = 4096
"""One variable has no more; more are taken for a mistake."""


@dataclass(frozen=True)
class WholeVariable:
    """A variable that is too large and yet stays whole; `bytes` are those of its value."""

    name: str
    bytes: int
    reason: str


@dataclass(frozen=True)
class SplitPlan:
    """What cutting the variables of a graph into blocks comes to.

    `layouts` has the variables that are cut, by the name of their handle, in natural order; slots of optimisers are
    variables too. `whole` has those that cannot be, in the same order.
    """

    layouts: Mapping[str, Layout]
    whole: tuple[WholeVariable, ...]

    @property
    def blocks(self) -> int:
        """How many blocks there are in all."""
        return sum(map(len, self.layouts.values()))


def plan_split(item: GraphItem, max_bytes: int, view: GraphView | None = None) -> SplitPlan:
    """What `split_variables` would do to a graph with blocks of at most `max_bytes`; nothing is changed.

    `view` is the graph's, where it is at hand.

    Raises:
        GraphError: the graph is malformed.
    """
    return _Survey(item, view or verify(item), max_bytes).plan()


class _Survey:
    """Asks of each variable that is too large whether all that uses it can use its blocks instead."""

    def __init__(self, item: GraphItem, view: GraphView, max_bytes: int) -> None:
        self._view = view
        self._ops = OpTable.of(item.graph)
        self._kept = item.preserve | {parse_input(name).node for name in (*item.feeds, *item.fetches)}
        self._fed = {parse_input(name).node for name in item.feeds}
        self._index = {name: i for i, name in enumerate(view.names)}
        self._shared = Counter(resource_of(node) for node in view.nodes if node.op == HANDLE_OP)
        bodies = [node for function in item.graph.library.function for node in function.node_def]
        others = (*bodies, *(node for node in view.nodes if node.op != HANDLE_OP))
        self._inside = frozenset(variable for node in others for variable in variables_named(node))
        self._in_place = next((node for node in (*view.nodes, *bodies) if node.op in IN_PLACE_OPS), None)
        self._whole: dict[str, str] = {}
        self._layouts: dict[str, Layout] = {}
        for node in view.nodes:
            if variable_bytes(node) > max_bytes:
                self._add(node, max_bytes)

    def plan(self) -> SplitPlan:
        """Take out what has an obstacle, then what is updated together with such, until all is settled."""
        whole = self._whole
        pending = sorted(self._layouts, key=natural_key)
        while found := {name: why for name in pending if (why := self._obstacle(name, whole))}:
            whole |= found
            pending = [name for name in pending if name not in found]
        left = [
            WholeVariable(name, variable_bytes(self._node(name)), whole[name])
            for name in sorted(whole, key=natural_key)
        ]
        return SplitPlan({name: self._layouts[name] for name in pending}, tuple(left))

    def _add(self, node: NodeDef, max_bytes: int) -> None:
        """Take up a variable that is too large, if anything uses it."""
        shape, item_bytes = _static(node)
        if node.op in REFERENCE_OPS:
            self._whole[node.name] = "a reference variable, build it with use_resource=True"
        elif not self._view.fanouts[self._index[node.name]]:
            return
        elif variable_bytes(node) > _MOST_BLOCKS * max_bytes:
            self._whole[node.name] = f"it would be more than {_MOST_BLOCKS} blocks"
        elif (layout := layout_of(shape, item_bytes, max_bytes)) is not None:
            self._layouts[node.name] = layout

    def _node(self, name: str) -> NodeDef:
        return self._view.nodes[self._index[name]]

    def _obstacle(self, name: str, whole: Mapping[str, str]) -> str:
        """Why a variable stays whole; empty if it need not.

        Case 1: its handle itself is wanted or not its only one, or its blocks have no names of their own. Case 2:
        it is used otherwise than by reading and updating all of it. Case 3: another variable that is updated with
        it stays whole, or has another shape. Case 4: what is read may be changed where it lies.
        """
        users = [self._view.nodes[user] for user in self._view.fanouts[self._index[name]]]
        by_users = (
            self._unfit(user, name) or self._uneven(user, name, whole)
            for user in sorted(users, key=lambda user: natural_key(user.name))
        )
        return self._unfit_handle(name) or next(filter(None, by_users), "")

    def _unfit_handle(self, name: str) -> str:
        if name in self._kept:
            return "its handle is to be kept"
        if self._in_place is not None:
            return f"'{self._in_place.name}' is an {self._in_place.op}, which may change it where it lies"
        return self._unfit_name(self._node(name), len(self._layouts[name]))

    def _unfit_name(self, node: NodeDef, blocks: int) -> str:
        variable = resource_of(node)
        if is_anonymous(node) or variable in self._inside:
            return "its handle is made elsewhere too"
        if self._shared[variable] > 1:
            return "several handles share it"
        if not variable[2]:
            return "it has no name"
        taken = self._taken(variable, blocks)
        return f"a block of it would have the name '{taken}', which another variable has" if taken else ""

    def _taken(self, variable: Resource, blocks: int) -> str:
        """The name of a block that is that of another variable, too; empty if all are free."""
        kind, container, name = variable
        names = [f"{name}/block_{block}" for block in range(blocks)]
        return next((n for n in names if {(kind, container, n)} & (self._shared.keys() | self._inside)), "")

    def _unfit(self, user: NodeDef, name: str) -> str:
        if f"^{name}" in user.input:
            return f"'{user.name}' waits for its handle"
        if user.op == READ:
            return f"'{user.name}', which reads it, is fed" if user.name in self._fed else ""
        if user.op == QUESTION:
            return ""
        if user.op not in UPDATES:
            return f"'{user.name}' is a {user.op}, which needs it whole"
        return "" if handles_of(user, self._ops).count(name) == 1 else f"'{user.name}' takes it twice"

    def _uneven(self, user: NodeDef, name: str, whole: Mapping[str, str]) -> str:
        if user.op not in UPDATES:
            return ""
        for other in handles_of(user, self._ops):
            if other in whole or self._layouts.get(other) != self._layouts[name]:
                return f"'{user.name}' updates it with '{other}', which stays whole or has another shape"
        return ""


def handles_of(user: NodeDef, ops: OpTable) -> list[str]:
    """The nodes whose handles an update takes, in order."""
    kinds = ops.input_types(user)
    return [
        parse_input(text).node for text, kind in zip(user.input, kinds, strict=False) if kind == DT_RESOURCE
    ]


def variable_bytes(node: NodeDef) -> int:
    """The bytes of a variable's value, by its handle or reference; 0 for other nodes, and for sizes not static."""
    shape, item_bytes = _static(node)
    return prod(shape) * item_bytes if node.op in VARIABLE_OPS else 0


def _static(node: NodeDef) -> tuple[Sequence[int], int]:
    kind, shape = node.attr.get("dtype"), node.attr.get("shape")
    sizes = shape_of(shape.shape) if shape is not None else None
    known = [size for size in sizes or () if size is not None]
    if kind is None or sizes is None or len(known) < len(sizes):
        return (), 0
    return known, _ITEM_BYTES.get(kind.type, 0)
