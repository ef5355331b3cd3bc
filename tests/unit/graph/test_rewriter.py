import pytest

from tests.rewrites import in_order
from tfwave.errors import GraphError
from tfwave.graph import marks
from tfwave.graph.edits import (
    AttrSet,
    ControlEdgeAdded,
    DeviceChanged,
    InputRedirected,
    InputsReplaced,
    NodeAdded,
    NodeRemoved,
)
from tfwave.graph.item import GraphItem
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, AttrValue, GraphDef, NodeDef

CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"


def chain() -> GraphItem:
    """a -> b -> c, and d that nothing reads."""
    graph = GraphDef()
    graph.versions.producer = 2000
    for name, inputs in (("a", []), ("b", ["a"]), ("c", ["b", "^a"]), ("d", [])):
        node = graph.node.add(name=name, op="Identity" if inputs else "Placeholder", input=inputs)
        node.attr["T" if inputs else "dtype"].type = DT_FLOAT
    return GraphItem(graph, feeds=("a",), fetches=("c:0",), preserve=frozenset({"b"}))


@pytest.fixture
def rewriter() -> GraphRewriter:
    return GraphRewriter(chain(), "test{n=1}")


def undone(item: GraphItem) -> GraphItem:
    undo = GraphRewriter(item)
    undo.undo()
    return undo.finish()


def test_nothing_asked_is_nothing_done(rewriter: GraphRewriter) -> None:
    assert rewriter.finish() is rewriter.item


def test_added_nodes_say_who_added_them(rewriter: GraphRewriter) -> None:
    name = rewriter.add_node("new", "Identity", ["a"], device=CPU1, attrs={"T": AttrValue(type=DT_FLOAT)})
    node = next(n for n in rewriter.finish().graph.node if n.name == name)
    assert (node.op, list(node.input), node.device, node.attr["T"].type) == (
        "Identity",
        ["a"],
        CPU1,
        DT_FLOAT,
    )
    assert marks.added_by(node) == "test{n=1}"
    assert rewriter.edits == [NodeAdded(node)]


def test_adding_twice_adds_once(rewriter: GraphRewriter) -> None:
    for _ in range(2):
        rewriter.add_node("new", "NoOp", ["^a"])
        rewriter.add_control_edge("new", "c")
    assert len(rewriter.edits) == 2
    assert list(rewriter.node("c").input) == ["b", "^a", "^new"]


def test_a_name_that_is_taken_is_refused(rewriter: GraphRewriter) -> None:
    with pytest.raises(GraphError, match="'b' cannot be added, another one has that name: rename yours"):
        rewriter.add_node("b", "NoOp")
    rewriter.add_node("new", "NoOp")
    with pytest.raises(GraphError, match=r"'new' cannot be added.*strip the graph first"):
        rewriter.add_node("new", "NoOp", ["^a"])


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_what_is_fed_preserved_or_fetched_stays(rewriter: GraphRewriter, name: str) -> None:
    with pytest.raises(GraphError, match=f"'{name}' cannot be removed"):
        rewriter.remove_node(name)


@pytest.mark.parametrize(
    "edit",
    [
        lambda r: r.node("x"),
        lambda r: r.add_control_edge("x", "a"),
        lambda r: r.add_control_edge("a", "x"),
        lambda r: r.redirect("b", 0, "x:1"),
        lambda r: r.remove_node("x"),
    ],
)
def test_unknown_names_are_named(rewriter: GraphRewriter, edit: object) -> None:
    with pytest.raises(GraphError, match="no node 'x'"):
        edit(rewriter)  # type: ignore[operator]
    assert not rewriter.edits


def test_every_edit_is_logged_and_undone(rewriter: GraphRewriter) -> None:
    before = in_order(rewriter.item.graph)
    rewriter.add_node("gate", "Identity", ["a"], attrs={"T": AttrValue(type=DT_FLOAT)})
    rewriter.redirect("b", 0, "gate")
    rewriter.add_control_edge("gate", "c")
    rewriter.replace_inputs("c", ["gate", "^b"])
    rewriter.move("b", CPU1)
    rewriter.note("a", "rank", AttrValue(i=3))
    rewriter.remove_node("d")
    kinds = [type(edit) for edit in rewriter.edits]
    assert kinds == [
        NodeAdded,
        InputRedirected,
        ControlEdgeAdded,
        InputsReplaced,
        DeviceChanged,
        AttrSet,
        NodeRemoved,
        NodeAdded,
    ]
    item = rewriter.finish()
    assert in_order(rewriter.item.graph) == before
    assert {n.name for n in item.graph.node} == {"a", "b", "c", "gate", marks.REMOVED}
    assert in_order(undone(item).graph) == before


def test_undo_goes_back_over_several_rewrites() -> None:
    original = chain()
    item = original
    for tensor, device in (("one", CPU1), ("two", "")):
        rewriter = GraphRewriter(item, tensor)
        rewriter.add_node(tensor, "Identity", ["a"], attrs={"T": AttrValue(type=DT_FLOAT)})
        rewriter.redirect("b", 0, tensor)
        rewriter.move("b", device)
        item = rewriter.finish()
    assert in_order(undone(item).graph) == in_order(original.graph)


def test_a_node_without_inputs_gets_none_back(rewriter: GraphRewriter) -> None:
    rewriter.add_control_edge("a", "d")
    item = undone(rewriter.finish())
    assert in_order(item.graph) == in_order(rewriter.item.graph)


def test_a_replaced_node_comes_back(rewriter: GraphRewriter) -> None:
    rewriter.replace_node(NodeDef(name="b", op="NoOp", input=["^a"]))
    rewriter.replace_inputs("c", ["a"])
    item = rewriter.finish()
    assert next(n.op for n in item.graph.node if n.name == "b") == "NoOp"
    assert in_order(undone(item).graph) == in_order(rewriter.item.graph)


def test_a_changed_node_that_is_removed_later_comes_back_as_the_user_made_it() -> None:
    first = GraphRewriter(chain(), "first")
    first.add_control_edge("a", "d")
    second = GraphRewriter(first.finish(), "second")
    second.remove_node("d")
    assert in_order(undone(second.finish()).graph) == in_order(first.item.graph)


def test_undo_takes_the_step_marker_of_the_hook() -> None:
    item = chain()
    graph = GraphDef()
    graph.CopyFrom(item.graph)
    graph.node.add(name="tfwave_step", op="TfwaveStep_G12")
    assert in_order(undone(GraphItem(graph)).graph) == in_order(item.graph)


def test_undo_of_an_untouched_graph_is_nothing() -> None:
    item = chain()
    assert undone(item) is item


def test_redirect_changes_the_input_at_its_position() -> None:
    graph = chain().graph
    attrs = {"T": AttrValue(type=DT_FLOAT), "N": AttrValue(i=3)}
    graph.node.add(name="sum", op="AddN", input=["a", "b", "c", "^d"], attr=attrs)
    rewriter = GraphRewriter(GraphItem(graph))
    rewriter.redirect("sum", 1, "a")
    assert list(rewriter.node("sum").input) == ["a", "a", "c", "^d"]
    assert rewriter.edits == [InputRedirected("sum", 1, "b", "a")]
