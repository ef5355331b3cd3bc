"""Copies of a step's nodes in the same graph, under names of their own, such as for the steps that follow."""

from collections.abc import Callable, Container, Mapping

from tfwave.graph.access import gives_handle, makes_handle, shares_by_name
from tfwave.graph.attrs import rename_groups, string_attr
from tfwave.graph.flow_ops import ENTER_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.marks import PREFIX
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.reach import upstream_of
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import AttrValue, NodeDef

SCOPE = "cross_step"


def step_name(name: str, step: int) -> str:
    """The name of a node or tensor in a step: ``loss:0`` -> ``cross_step/2/loss:0``; step 0 keeps its names."""
    return f"{SCOPE}/{step}/{name}" if step else name


def find_copied(item: GraphItem, view: GraphView) -> frozenset[str]:
    """Of what the feeds and fetches need, the nodes that each step has for itself: all but handles and constants.

    A constant that is fed or fetched, or that waits for another node, is copied, too.
    """
    table = OpTable.of(item.graph)
    ends = {parse_input(name).node for name in (*item.feeds, *item.fetches)}
    needed = upstream_of(view, [i for i, name in enumerate(view.names) if name in ends])
    return frozenset(
        view.names[node]
        for node in needed
        if view.ops[node] in item.custom_ops
        or (
            not makes_handle(view.nodes[node], table)
            and (view.ops[node] != "Const" or view.fanins[node] or view.names[node] in ends)
        )
    )


def copy_of(node: NodeDef, step: int, copied: Container[str], waits: Mapping[str, list[str]]) -> NodeDef:
    """A node of step 0 in a later step; `waits` are those of step 0 whose copies in the step before come first."""
    copy = copy_as(node, lambda name: step_name(name, step), copied)
    before = [f"^{step_name(name, step - 1)}" for name in waits.get(node.name, ())]
    copy.input.extend(text for text in before if text not in copy.input)
    return copy


def copy_as(node: NodeDef, rename: Callable[[str], str], copied: Container[str]) -> NodeDef:
    """A node under another name, beside it; `rename` gives that of any node, tensor or frame.

    1. Its inputs and colocated nodes are renamed, too, where they are `copied`.
    2. Its frame is another: two loops of one frame name would be one.
    3. What the op keeps under the node's name, where it has no other, stays under that name.
    """
    copy = NodeDef(name=rename(node.name), op=node.op, device=node.device)
    copy.input.extend(
        _renamed(text, rename) if parse_input(text).node in copied else text for text in node.input
    )
    for name, value in plain_attrs(node).items():
        copy.attr[name].CopyFrom(value)
    if node.op in ENTER_OPS:
        copy.attr["frame_name"].s = rename(string_attr(node, "frame_name")).encode()
    if _keeps_by_name(node) and not string_attr(node, "shared_name"):
        copy.attr["shared_name"].s = node.name.encode()
    rename_groups(copy, lambda name: rename(name) if name in copied else name)
    return copy


def _keeps_by_name(node: NodeDef) -> bool:
    """Does an op keep anything under a name? A graph may lack the attribute, where it has its default."""
    signature = OpTable().known(node.op)
    return "shared_name" in node.attr or (
        signature is not None and shares_by_name(signature) and not gives_handle(signature)
    )


def plain_attrs(node: NodeDef) -> dict[str, AttrValue]:
    """The attributes of a node without those that tfwave gave it."""
    return {name: value for name, value in node.attr.items() if not name.startswith(PREFIX)}


def _renamed(text: str, rename: Callable[[str], str]) -> str:
    return f"^{rename(text[1:])}" if text.startswith("^") else rename(text)
