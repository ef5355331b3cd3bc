"""What the signatures of ops tell of a graph: unknown ops, missing functions, outputs that are not there."""

import pytest

from tests.unit.graph.test_functions import call, graph_of, identity
from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, AttrValue, NodeDef

FLOATS = AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT, DT_FLOAT]))


def two_outputs(reader: str) -> GraphItem:
    several = NodeDef(name="two", op="IdentityN", input=["x", "x"], attr={"T": FLOATS})
    return graph_of(several, NodeDef(name="quiet", op="NoOp"), identity(reader))


@pytest.mark.parametrize("reader", ["two", "two:0", "two:1"])
def test_outputs_that_are_there(reader: str) -> None:
    assert len(verify(two_outputs(reader))) == 5


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ("two:2", r"node 'reader': input 'two:2' names output 2 of a node that has 2 \(IdentityN\)"),
        ("x:1", r"node 'reader': input 'x:1' names output 1 of a node that has 1 \(Placeholder\)"),
        ("quiet", r"node 'reader': input 'quiet' names output 0 of a node that has 0 \(NoOp\)"),
    ],
)
def test_outputs_that_are_not_there(reader: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(two_outputs(reader))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (NodeDef(name="n", op="Const", input=["x"]), "node 'n': Const takes 0 data inputs, it has 1"),
        (NodeDef(name="n", op="NextIteration"), "node 'n': NextIteration takes 1 data inputs, it has 0"),
        (
            NodeDef(name="n", op="IdentityN", input=["x"], attr={"T": FLOATS}),
            "node 'n': IdentityN takes 2 data inputs, it has 1",
        ),
    ],
)
def test_too_many_or_too_few_inputs(node: NodeDef, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(graph_of(node))


def test_an_unknown_op_in_a_function() -> None:
    item = graph_of(call())
    item.graph.library.function[0].node_def.add(name="odd", op="NoSuchOp")
    with pytest.raises(GraphError, match="node 'odd': the op 'NoSuchOp' is unknown"):
        verify(item)


def test_a_missing_function_of_a_function() -> None:
    item = graph_of(call())
    item.graph.library.function[1].node_def.add().CopyFrom(call("nosuch"))
    with pytest.raises(GraphError, match="node 'call': it calls the function 'nosuch'"):
        verify(item)
