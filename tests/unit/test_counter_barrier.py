"""The groups that counter_barrier takes, and the barriers that it makes."""

import pytest

from grappler_passes.counter_barrier import CounterBarrier
from tests.rewrites import check_rewrite
from tfwave.errors import GraphError, PassError
from tfwave.graph.item import GraphItem
from tfwave.passes.base import PassResult
from tfwave.passes.pipeline import Pipeline
from tfwave.proto.tensorflow_pb2 import GraphDef


def five() -> GraphItem:
    graph = GraphDef()
    for name in "abcde":
        graph.node.add(name=name, op="NoOp")
    return GraphItem(graph)


def waits(result: PassResult, name: str) -> list[str]:
    return next(list(node.input) for node in result.item.graph.node if node.name == name)


def test_one_barrier_between_each_two_groups() -> None:
    result = check_rewrite(CounterBarrier((("a", "b"), ("c",), ("d", "e"))), five())
    (first,), (second,) = waits(result, "c"), waits(result, "e")
    assert waits(result, first[1:]) == ["^a", "^b"]
    assert waits(result, second[1:]) == ["^c"]
    assert waits(result, "d") == [second]


def test_barriers_of_two_passes_stand_beside_each_other() -> None:
    both = Pipeline((CounterBarrier((("a",), ("b",))), CounterBarrier((("a",), ("c",)))))
    result = check_rewrite(both, five())
    assert waits(result, "b") != waits(result, "c")


@pytest.mark.parametrize(
    "groups", [(), (("a",),), (("a",), ()), (("a",), ("a",)), (("a", "a"), ("b",)), (("a",), ("b", "a"))]
)
def test_groups_that_no_barrier_can_part(groups: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(PassError, match="counter_barrier"):
        CounterBarrier(groups)


def test_a_node_that_is_not_there() -> None:
    with pytest.raises(GraphError, match="counter_barrier: the graph has no node 'x'"):
        CounterBarrier((("a",), ("x",)))(five())
