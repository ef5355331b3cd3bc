"""The groups that counter_barrier takes, and the barriers that it makes."""

import pytest

from grappler_passes.counter_barrier import CounterBarrier
from tests.rewrites import check_rewrite
from tfwave.errors import GraphError, PassError
from tfwave.graph.item import GraphItem
from tfwave.passes.base import PassResult
from tfwave.passes.pipeline import Pipeline
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef


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


def branched() -> GraphItem:
    """``before -> switch -> {hot, cold} -> merge -> after``."""
    graph = GraphDef()
    for name, op, inputs in (
        ("pred", "Const", []),
        ("before", "Const", []),
        ("switch", "Switch", ["before", "pred"]),
        ("hot", "Neg", ["switch:1"]),
        ("cold", "Abs", ["switch"]),
        ("merge", "Merge", ["cold", "hot"]),
        ("after", "Neg", ["merge"]),
        ("last", "Neg", ["after"]),
    ):
        node = graph.node.add(name=name, op=op, input=inputs, device="/device:CPU:0")
        node.attr["T"].type = DT_FLOAT
        node.attr["N"].i = 2
    return GraphItem(graph)


def test_a_job_asks_before_each_group_the_first_included() -> None:
    result = check_rewrite(CounterBarrier((("before",), ("after",)), "a job"), branched())
    (first,), (second,) = waits(result, "before"), [w for w in waits(result, "after") if w.startswith("^")]
    asking = [next(n for n in result.item.graph.node if n.name == name[1:]) for name in (first, second)]
    assert [node.op for node in asking] == ["TfwaveCounterBarrier"] * 2
    assert [(node.attr["job"].s, node.attr["group"].i) for node in asking] == [(b"a job", 0), (b"a job", 1)]
    assert [list(node.input) for node in asking] == [[], ["^before"]]
    assert {node.device for node in asking} == {"/device:CPU:0"}


def test_one_group_is_enough_for_a_job() -> None:
    result = check_rewrite(CounterBarrier((("after",),), "a"), branched())
    assert waits(result, "after")[0] == "merge"
    assert len(waits(result, "after")) == 2


def function() -> GraphItem:
    """``x -> a -> b -> y``, as TensorFlow optimizes a function."""
    graph = GraphDef()
    for name, op, inputs in (
        ("x", "_Arg", []),
        ("a", "Neg", ["x"]),
        ("b", "Neg", ["a"]),
        ("y", "_Retval", ["b"]),
    ):
        graph.node.add(name=name, op=op, input=inputs).attr["T"].type = DT_FLOAT
    return GraphItem(graph)


def test_what_a_function_is_given_and_gives_keeps_no_barrier() -> None:
    """TensorFlow would run ``a`` at once: it drops the control edges of ``x`` and ``y``."""
    result = check_rewrite(CounterBarrier((("x", "a"), ("b", "y")), "a job"), function())
    assert (waits(result, "x"), waits(result, "y")) == ([], ["b"])
    assert [len(waits(result, name)) for name in "ab"] == [2, 2]


def test_a_group_of_arguments_alone_is_asked_for_in_its_turn() -> None:
    result = check_rewrite(CounterBarrier((("a",), ("x",), ("b",)), "a job"), function())
    _, second = waits(result, "b")
    (first,) = waits(result, second[1:])
    assert waits(result, first[1:]) == ["^a"]


def test_a_branch_waits_at_its_entries_and_is_waited_for_at_its_ends() -> None:
    """Only ``hot`` is named; the region's other nodes come with it, and none of the two inner ones waits."""
    result = check_rewrite(CounterBarrier((("before",), ("hot",), ("after",))), branched())
    assert [name for name in waits(result, "switch") if name.startswith("^")]
    assert waits(result, "hot") == ["switch:1"]
    assert waits(result, "cold") == ["switch"]
    (second,) = (name for name in waits(result, "after") if name.startswith("^"))
    assert waits(result, second[1:]) == ["^merge"]


def test_a_branch_in_two_groups() -> None:
    with pytest.raises(GraphError, match="'hot' and 'cold' belong to one branch or loop"):
        CounterBarrier((("hot",), ("cold",)))(branched())
