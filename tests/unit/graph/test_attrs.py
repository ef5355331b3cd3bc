"""Attributes of nodes that say whom they stay with."""

from tfwave.graph.attrs import CLASS_ATTR, colocated_with, rename_groups
from tfwave.proto.tensorflow_pb2 import NodeDef


def test_groups_get_other_names_whatever_their_bytes() -> None:
    """A name may hold bytes that are no text; and what is no group stays."""
    node = NodeDef(name="n")
    node.attr[CLASS_ATTR].list.s[:] = [b"loc:@a", b"loc:@\xff", b"a"]
    rename_groups(node, lambda name: f"job/{name}")
    assert list(node.attr[CLASS_ATTR].list.s) == [b"loc:@job/a", b"loc:@job/\xff", b"a"]
    assert colocated_with(node) == ["job/a", "job/\ufffd"]


def test_a_node_without_groups_gets_none() -> None:
    node = NodeDef(name="n")
    rename_groups(node, str.upper)
    assert CLASS_ATTR not in node.attr
