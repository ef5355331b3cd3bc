"""Well-formed graphs, with the names that must be in them."""

import pytest

from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

CHAIN = GraphDef(node=[NodeDef(name="a", op="Placeholder"), NodeDef(name="b", op="Identity", input=["a"])])


def test_a_sound_graph_gives_its_view() -> None:
    item = GraphItem(CHAIN, feeds=("a:0",), fetches=("b",), preserve=frozenset({"a"}))
    assert verify(item).names == ("a", "b")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (GraphItem(CHAIN, feeds=("c:0",)), "feed 'c:0'"),
        (GraphItem(CHAIN, fetches=("c",)), "fetch 'c'"),
        (GraphItem(CHAIN, preserve=frozenset({"c"})), "preserved node 'c'"),
        (GraphItem(GraphDef(node=[NodeDef(name="a", op="Identity", input=["a"])])), "cycle: a -> a"),
    ],
)
def test_what_is_wrong_is_named(item: GraphItem, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(item)
