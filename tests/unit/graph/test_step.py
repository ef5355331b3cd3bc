"""What one step takes of a graph."""

import pytest

from tests.unit.merged import FETCHES, job
from tfwave.errors import GraphError
from tfwave.graph.step import step_of


def test_what_the_fetches_need_and_the_whole_library() -> None:
    graph = job()
    graph.library.function.add().signature.name = "f"
    graph.node[0].attr["_output_shapes"].list.shape.add()
    step = step_of(graph, FETCHES)
    assert {node.name for node in graph.node} - {node.name for node in step.node} == {"first", "init"}
    assert [function.signature.name for function in step.library.function] == ["f"]
    assert "_output_shapes" not in step.node[0].attr
    assert "_output_shapes" in graph.node[0].attr


def test_a_fetch_that_is_not_there() -> None:
    with pytest.raises(GraphError, match="the fetch 'x0' names a node that the graph does not have"):
        step_of(job(), ["loss:0", "x0:1"])
