"""The offline cut against TensorFlow's own, on real models: edge for edge."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.full import each
from tests.numerics.corpus import FUNCTIONS, LARGE, SAMPLES, TASKS, load
from tests.numerics.graph.cut_graphs import edges
from tfwave.graph.partition.cut import cut
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef

pytestmark = pytest.mark.tensorflow


def cuts(name: str) -> tuple[list[GraphDef], list[GraphDef]]:
    """Ours and TensorFlow's, of one step: what only keeps the initialisation alive is left out."""
    sample = load(name)
    item = replace(sample.item(), preserve=frozenset())
    theirs = [GraphDef.FromString(data) for data in sample.partition_graphs(sample.graph)]
    client = "/job:worker/task:0" if name in TASKS else ""
    return list(cut(item, devices=sample.devices, default=client)), theirs


def received(partitions: Iterable[GraphDef]) -> int:
    nodes = [node for graph in partitions for node in graph.node if node.op in RECV_OPS]
    return sum(not node.attr["client_terminated"].b for node in nodes)


@pytest.mark.parametrize("name", each(SAMPLES, LARGE))
def test_the_cut_is_tensorflows(name: str) -> None:
    ours, theirs = cuts(name)
    assert edges(theirs)
    assert edges(ours) == edges(theirs)
    assert received(ours) == received(theirs)
    if name not in FUNCTIONS:
        keys = [{t.key for t in find_transfers(GraphView.of(*graphs)).data} for graphs in (ours, theirs)]
        assert keys[0] == keys[1]
