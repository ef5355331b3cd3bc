"""The notes that carry an order: what they say, and malformed ones."""

import pytest

from tests.graphs import SERVERS, WORKER
from tfwave.errors import GraphError
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.view import GraphView
from tfwave.plan.annotation import Annotation, annotated_orders, rank_note
from tfwave.proto.tensorflow_pb2 import GraphDef

CHANNEL = Channel(SERVERS[0], WORKER)
OTHER = Channel(SERVERS[1], WORKER)


def noted(**notes: list[bytes]) -> GraphView:
    graph = GraphDef()
    for name, texts in notes.items():
        graph.node.add(name=name, op="NoOp").attr["_tfwave_rank"].list.s.extend(texts)
    return GraphView.of(graph)


def test_notes_read_back_by_rank() -> None:
    first, last = TransferKey("b", 0, CHANNEL), TransferKey("a", 1, CHANNEL)
    other = TransferKey("a", 0, OTHER)
    note = rank_note([(1, last), (0, other)]).list.s
    view = noted(a=list(note), b=list(rank_note([(0, first)]).list.s))
    assert annotated_orders(view) == {
        CHANNEL: (Annotation(0, first, "b"), Annotation(1, last, "a")),
        OTHER: (Annotation(0, other, "a"),),
    }


def test_a_note_does_not_depend_on_the_order_of_its_entries() -> None:
    entries = [(11, TransferKey("a", 0, CHANNEL)), (2, TransferKey("a", 0, OTHER))]
    assert rank_note(entries) == rank_note(reversed(entries))


@pytest.mark.parametrize(
    "text",
    ["", "x", "1", ";a:0;s;d", "-1;a:0;s;d", "²;a:0;s;d", "9" * 5000 + ";a:0;s;d", "0;a;s;d", "0;a:0;s"],
)
def test_a_malformed_note_names_its_node(text: str) -> None:
    with pytest.raises(GraphError, match="node 'bearer'"):
        annotated_orders(noted(bearer=[text.encode()]))
