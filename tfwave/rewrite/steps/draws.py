"""Random ops that keep their state to themselves, in several steps of one call.

A copy of such an op would begin the same sequence anew. So one kernel draws for all steps, in a loop before the
first of them, and each step takes its own draw from a list: the sequence goes on from step to step, and from call
to call, as it does with single steps.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfwave.graph.access import is_random
from tfwave.graph.attrs import CLASS_ATTR
from tfwave.graph.functions.nodes import type_attr
from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.reach import in_control_flow
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_INT32, DT_VARIANT, NodeDef
from tfwave.rewrite.steps.copies import SCOPE, plain_attrs
from tfwave.rewrite.steps.step import Step

_SHAPED_OPS = frozenset({"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"})
"""Ops whose first input is the shape of what they draw."""
_CONSTANTS = {"zero": 0, "one": 1, "any_shape": -1}
_LOOP = (
    ("list", "TensorListReserve", ("any_shape", "count"), None),
    ("enter_number", "Enter", ("zero",), DT_INT32),
    ("enter_list", "Enter", ("list",), DT_VARIANT),
    ("enter_one", "Enter", ("one",), DT_INT32),
    ("enter_count", "Enter", ("count",), DT_INT32),
    ("merge_number", "Merge", ("enter_number", "next_number"), DT_INT32),
    ("merge_list", "Merge", ("enter_list", "next_list"), DT_VARIANT),
    ("less", "Less", ("merge_number", "enter_count"), DT_INT32),
    ("go_on", "LoopCond", ("less",), None),
    ("switch_number", "Switch", ("merge_number", "go_on"), DT_INT32),
    ("switch_list", "Switch", ("merge_list", "go_on"), DT_VARIANT),
    ("number", "Identity", ("switch_number:1",), DT_INT32),
    ("so_far", "Identity", ("switch_list:1",), DT_VARIANT),
    ("with_draw", "TensorListSetItem", ("so_far", "number", "draw"), None),
    ("number_after", "AddV2", ("number", "enter_one"), DT_INT32),
    ("next_number", "NextIteration", ("number_after",), DT_INT32),
    ("next_list", "NextIteration", ("with_draw",), DT_VARIANT),
    ("all", "Exit", ("switch_list",), DT_VARIANT),
)
"""Name, op, inputs and type of what loops around the node ``draw``."""


def has_fixed_seeds(node: NodeDef, table: OpTable) -> bool:
    """Does a node draw the same sequence in each session, from a state of its own?"""
    seeds = [node.attr[name].i for name in ("seed", "seed2") if name in node.attr]
    return any(seeds) and is_random(table.signature(node))


def find_draws(item: GraphItem, step: Step) -> frozenset[str]:
    """The random ops of a step, with fixed seeds, that can draw ahead.

    They have one output, all that they read follows from constants, and they are in no branch and no loop.
    """
    view, table = step.view, OpTable.of(item.graph)
    known = [node for node in step.order if view.ops[node] not in item.custom_ops]
    found = [node for node in known if has_fixed_seeds(view.nodes[node], table)]
    if not found:
        return frozenset()
    fed = {parse_input(name).node for name in item.feeds}
    inside = in_control_flow(view)
    constant: set[int] = set()
    for node in known:
        steady = not table.signature(view.nodes[node]).is_stateful and "Placeholder" not in view.ops[node]
        if steady and node not in inside and view.names[node] not in fed and _reads(view, node) <= constant:
            constant.add(node)
    return frozenset(
        view.names[node]
        for node in found
        if node not in inside
        and _reads(view, node) <= constant
        and len(table.output_types(view.nodes[node])) == 1
    )


def _reads(view: GraphView, node: int) -> set[int]:
    return set(view.fanins[node][: view.data_fanins[node]])


@dataclass(frozen=True)
class Draws:
    """The nodes that draw for all steps of a call in place of one random op."""

    node: NodeDef
    kind: int
    """The type (a `DataType`) of what is drawn."""
    input_kinds: tuple[int, ...]
    steps: int

    @classmethod
    def of(cls, node: NodeDef, table: OpTable, steps: int) -> "Draws":
        """Draw `steps` times a call what a node draws once."""
        return cls(node, table.output_types(node)[0], tuple(table.input_types(node)), steps)

    def loop(self) -> Iterator[NodeDef]:
        """The loop, in which each draw comes after the one before it."""
        for name, value in {**_CONSTANTS, "count": self.steps}.items():
            yield self._constant(name, value)
        for name, op, inputs, kind in _LOOP:
            yield self._made(name, op, [self._name(text) for text in inputs], kind)
        entered: list[str] = []
        for i, (text, kind) in enumerate(zip(self._inputs, self.input_kinds, strict=True)):
            entered.append(self._name(f"enter_input{i}"))
            yield self._made(f"enter_input{i}", "Enter", [text], kind)
        draw = self._made("draw", self.node.op, [*entered, f"^{self._name('so_far')}"])
        for name, value in plain_attrs(self.node).items():
            draw.attr[name].CopyFrom(value)
        yield draw

    def taken(self, step: int, node: NodeDef) -> Iterator[NodeDef]:
        """The draw of one step, in place of a node of that step, whose control inputs it waits for."""
        yield self._constant(f"place{step}", step)
        shaped = node.op in _SHAPED_OPS and self.input_kinds[0] == DT_INT32
        inputs = [
            self._name("all"),
            self._name(f"place{step}"),
            node.input[0] if shaped else self._name("any_shape"),
        ]
        inputs += [text for text in node.input if text.startswith("^")]
        taken = self._made("", "TensorListGetItem", inputs)
        taken.name = node.name
        yield taken

    @property
    def _inputs(self) -> list[str]:
        return [text for text in self.node.input if not text.startswith("^")]

    def _name(self, name: str) -> str:
        return f"{SCOPE}/draws/{self.node.name}/{name}"

    def _constant(self, name: str, value: int) -> NodeDef:
        made = self._made(name, "Const", [])
        made.attr["dtype"].type = made.attr["value"].tensor.dtype = DT_INT32
        made.attr["value"].tensor.tensor_shape.SetInParent()
        made.attr["value"].tensor.int_val.append(value)
        return made

    def _made(self, name: str, op: str, inputs: Iterable[str], kind: int | None = None) -> NodeDef:
        made = NodeDef(name=self._name(name), op=op, device=self.node.device, input=inputs)
        if kind is not None:
            made.attr["T"].CopyFrom(type_attr(kind))
        if op == "Enter":
            made.attr["frame_name"].s = self._name("loop").encode()
            made.attr["is_constant"].b = name not in ("enter_number", "enter_list")
            made.attr["parallel_iterations"].i = 1
        if op == "Merge":
            made.attr["N"].i = 2
        if op.startswith("TensorList"):
            made.attr["element_dtype"].CopyFrom(type_attr(self.kind))
        if op == "TensorListReserve":
            made.attr["shape_type"].type = DT_INT32
        if CLASS_ATTR in self.node.attr:
            made.attr[CLASS_ATTR].CopyFrom(self.node.attr[CLASS_ATTR])
        return made
