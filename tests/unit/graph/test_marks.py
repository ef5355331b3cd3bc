"""The marks that undo reads: what they are called, and damaged ones."""

import pytest

from grappler_passes.strip import Strip
from tfwave.errors import GraphError
from tfwave.graph import marks
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import AttrValue, GraphDef, NodeDef

KEPT = NodeDef(name="gone", op="NoOp")


def marked(name: str, attr: str, value: AttrValue) -> GraphItem:
    graph = GraphDef()
    graph.node.add(name=name, op="NoOp").attr[attr].CopyFrom(value)
    return GraphItem(graph)


def texts(*data: bytes) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(s=data))


def test_tensorflow_keeps_all_marks_since_they_begin_with_an_underscore() -> None:
    assert {marks.ADDED_BY, marks.INPUTS, marks.DEVICE, marks.REMOVED_NODES} == {
        "_tfwave",
        "_tfwave_inputs",
        "_tfwave_device",
        "_tfwave_removed",
    }


@pytest.mark.parametrize(
    ("name", "attr", "value"),
    [
        ("a", marks.INPUTS, texts(b"\xff")),
        ("a", marks.DEVICE, AttrValue(s=b"\xff")),
        (marks.REMOVED, marks.REMOVED_NODES, texts(b"x")),
        (marks.REMOVED, marks.REMOVED_NODES, texts(b"")),
        (
            marks.REMOVED,
            marks.REMOVED_NODES,
            texts(NodeDef(name="gone", op="NoOp", attr={"_tfwave": AttrValue(s=b"x")}).SerializeToString()),
        ),
    ],
)
def test_damaged_marks_are_refused(name: str, attr: str, value: AttrValue) -> None:
    with pytest.raises(GraphError, match=f"node '{name}': its attribute {attr} is damaged"):
        Strip()(marked(name, attr, value))


def test_a_removed_node_that_is_there_again_is_refused() -> None:
    item = marked(marks.REMOVED, marks.REMOVED_NODES, texts(KEPT.SerializeToString()))
    item.graph.node.add().CopyFrom(KEPT)
    with pytest.raises(GraphError, match="'gone' is used more than once"):
        Strip()(item)


def test_a_node_of_the_user_may_have_the_name_of_ours() -> None:
    graph = GraphDef()
    graph.node.add(name=marks.REMOVED, op="NoOp")
    item = GraphItem(graph)
    assert Strip()(item).item is item
