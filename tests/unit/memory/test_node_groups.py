"""Where a step is cut, and what its groups hold."""

import pytest

from tests.graphs import WORKER, by_name
from tests.grouped import graph_of, profile_of
from tfwave.errors import GraphError, MissingCost, PlanError
from tfwave.graph.view import GraphView
from tfwave.memory.groups import levelled, node_groups
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.units import unit_levels
from tfwave.plan.groups import NodeGroup
from tfwave.proto.tensorflow_pb2 import GraphDef

CHAIN = GraphView.of(graph_of(a="", b="a", c="b", d="c", e="d"))
TRIANGLE = profile_of(("a", 10, 0, 0), ("b", 10, 5, 0), ("c", 1, 0, 1), ("d", 0, 8, 10), ("e", 0, 0, 10))


def names(groups: tuple[NodeGroup, ...]) -> list[str]:
    return ["".join(group.ops) for group in groups]


def sample_loop() -> GraphDef:
    """``before -> (enter .. exit) -> after``, with ``beside`` and ``late`` on other paths."""
    graph = graph_of(before="", beside="", after="exit", late="beside", last="after late")
    graph.node.add(name="enter", op="Enter", input=["before"]).attr["frame_name"].s = b"loop"
    graph.node.add(name="enter2", op="Enter", input=["late"]).attr["frame_name"].s = b"loop"
    for name, op, inputs in (
        ("merge", "Merge", ["enter", "next"]),
        ("body", "AddN", ["merge", "enter2"]),
        ("next", "NextIteration", ["body"]),
        ("exit", "Exit", ["merge"]),
    ):
        graph.node.add(name=name, op=op, input=inputs)
    for node in graph.node:
        node.device = WORKER
    return graph


def test_cut_where_the_net_reaches_the_split_size_up_or_down() -> None:
    groups = node_groups(CHAIN, TRIANGLE, 15)
    assert names(groups) == ["ab", "cde"]
    assert [group.net for group in groups] == [20, -20]
    assert [group.allocates for group in groups] == [True, False]
    assert [(group.first_level, group.last_level) for group in groups] == [(0, 1), (2, 4)]


def test_a_split_size_that_is_just_reached_cuts() -> None:
    assert names(node_groups(CHAIN, TRIANGLE, 10)) == ["a", "b", "cd", "e"]
    assert names(node_groups(CHAIN, TRIANGLE, 11)) == ["ab", "cde"]


def test_what_is_left_at_the_end_is_a_group() -> None:
    assert names(node_groups(CHAIN, TRIANGLE, 1000)) == ["abcde"]
    assert names(node_groups(CHAIN, TRIANGLE, 20)) == ["ab", "cde"]


def test_the_transient_peak_is_above_the_level_before_the_group() -> None:
    """Scratch and what is taken and given inside a group count; what others hold does not."""
    assert [group.transient for group in node_groups(CHAIN, TRIANGLE, 15)] == [25, 8]
    assert [group.transient for group in node_groups(CHAIN, TRIANGLE, 10)] == [10, 15, 8, 0]


def test_the_piece_is_the_most_that_one_op_asks_for_at_once() -> None:
    """For what lives on, or as scratch; not for both together."""
    groups = node_groups(CHAIN, profile_of(("a", 3, 9, 0), ("b", 7, 5, 0), ("c", 6, 4, 16)), 10)
    assert [(group.ops, group.piece) for group in groups] == [(("a", "b"), 9), (("c",), 6)]


def test_in_one_group_nothing_orders_the_ops() -> None:
    """Profiled in another order than by level, one group holds what was held then; two hold more."""
    view = GraphView.of(graph_of(a="", b="", c="a", d="b"))
    profile = profile_of(("a", 10, 0, 0), ("c", 0, 0, 10), ("b", 10, 0, 0), ("d", 0, 0, 10))
    assert [group.transient for group in levelled(view, profile).whole] == [10]
    assert [group.transient for group in node_groups(view, profile, 20)] == [20, 0]
    assert [group.transient for group in node_groups(view, profile, 1000)] == [10]


def test_ops_come_by_the_longest_path() -> None:
    """The shortest path puts ``c`` beside ``b``, although it reads it (erratum 3)."""
    view = GraphView.of(graph_of(a="", b="a", c="a b"))
    profile = profile_of(("a", 1, 0, 0), ("b", 1, 0, 0), ("c", 1, 0, 0))
    groups = node_groups(view, profile, 1)
    assert names(groups) == ["a", "b", "c"]
    assert [group.first_level for group in groups] == [0, 1, 2]


def test_ties_go_by_name_with_numbers_as_numbers() -> None:
    view = GraphView.of(graph_of(op10="", op9="", op1=""))
    groups = node_groups(view, profile_of(("op10", 0, 0, 0), ("op9", 0, 0, 0), ("op1", 0, 0, 0)), 1)
    assert groups[0].ops == ("op1", "op9", "op10")


def test_nodes_without_a_run_are_in_no_group() -> None:
    assert names(node_groups(CHAIN, profile_of(("a", 1, 0, 0), ("c", 0, 0, 1)), 9)) == ["ac"]
    assert node_groups(CHAIN, profile_of(), 9) == ()


def test_a_loop_is_one_unit_with_all_its_runs() -> None:
    """Case 1: the body runs three times. Case 2: what another op does between them is not in it."""
    runs = [("before", 1, 0, 0), ("beside", 1, 0, 0), ("late", 1, 0, 0), ("enter", 0, 0, 0)]
    loop = [("body", 9, 0, 0), ("merge", 0, 0, 9)] * 3
    profile = profile_of(*runs, *loop, ("exit", 2, 0, 0), ("after", 0, 0, 2), ("last", 0, 0, 3))
    groups = node_groups(GraphView.of(sample_loop()), profile, 1)
    assert [group.ops for group in groups] == [
        ("before",),
        ("beside",),
        ("late",),
        ("body", "enter", "exit", "merge"),
        ("after",),
        ("last",),
    ]
    assert (groups[3].net, groups[3].transient) == (2, 9)


def test_a_loop_waits_for_all_of_its_enters() -> None:
    """Its first Enter is at level 1; taken as one node, it comes behind ``late``, which its second waits for."""
    view = GraphView.of(sample_loop())
    ran = [(node.name, 1, 0, 0) for node in sample_loop().node]
    order = [name for group in node_groups(view, profile_of(*ran), 1) for name in group.ops]
    assert order.index("late") < order.index("enter") < order.index("after")


def test_loops_inside_a_loop_are_cut_no_more_than_it() -> None:
    graph = sample_loop()
    inner = graph.node.add(name="inner_enter", op="Enter", input=["body"], device=WORKER)
    inner.attr["frame_name"].s = b"inner"
    graph.node.add(name="inner_exit", op="Exit", input=["inner_enter"], device=WORKER)
    next(n for n in graph.node if n.name == "next").input[0] = "inner_exit"
    ran = profile_of(*[(node.name, 1, 0, 0) for node in graph.node])
    groups = node_groups(GraphView.of(graph), ran, 1)
    assert max(len(group.ops) for group in groups) == 8
    assert sum(len(group.ops) for group in groups) == len(graph.node)


def test_a_loop_that_waits_for_itself() -> None:
    graph = sample_loop()
    next(n for n in graph.node if n.name == "beside").input.append("after")
    with pytest.raises(GraphError, match="the branch or loop of node 'body' waits for what it gives out"):
        node_groups(GraphView.of(graph), profile_of(("before", 1, 0, 0)), 1)


def test_levels_without_loops_are_those_of_the_view() -> None:
    view = GraphView.of(graph_of(a="", b="a", c="a b", d="^a"))
    assert unit_levels(view, range(4)) == dict(enumerate(view.levels))


def test_a_tensor_stays_until_its_last_reader_in_the_new_order() -> None:
    """Profiled, ``z`` read ``big`` before ``a`` did, which freed it; by name, ``a`` comes first."""
    graph = graph_of(big="", a="big", z="big")
    profile = profile_of(("big", 50, 0, 0), ("z", 3, 0, 3), ("a", 0, 0, 50))
    groups = node_groups(GraphView.of(graph), profile, 1)
    assert [("".join(group.ops), group.net, group.transient) for group in groups] == [
        ("big", 50, 50),
        ("az", -50, 3),
    ]


def test_a_buffer_that_is_handed_on_is_read_by_the_readers_of_both() -> None:
    graph = graph_of(big="", a="view", view="big", z="big deep", deep="view")
    profile = profile_of(
        ("big", 50, 0, 0), ("view", 0, 0, 0), ("deep", 1, 0, 0), ("z", 0, 0, 1), ("a", 0, 0, 50)
    )
    groups = node_groups(GraphView.of(graph), profile, 1)
    assert [("".join(group.ops), group.net) for group in groups[-1:]] == [("z", -51)]


def test_what_reads_a_common_scalar_frees_its_own_when_it_did() -> None:
    """Only ``last`` can have freed ``rate``: the 50 bytes that ``m`` freed are another tensor's."""
    graph = graph_of(rate="", big="", m="rate big", n="rate", last="rate m n")
    profile = profile_of(
        ("rate", 1, 0, 0), ("big", 50, 0, 0), ("n", 3, 0, 0), ("m", 0, 0, 50), ("last", 0, 0, 4)
    )
    groups = node_groups(GraphView.of(graph), profile, 1)
    assert [("".join(g.ops), g.net) for g in groups[2:]] == [("m", -50), ("n", 3), ("last", -4)]


def test_the_outputs_of_one_op_are_freed_one_by_one() -> None:
    """``b`` and ``a`` read the first output, which ``a`` freed; ``z`` reads the second."""
    graph = graph_of(two="", a="two", b="two", z="two:1 b")
    profile = profile_of(("two", 57, 0, 0), ("b", 1, 0, 0), ("a", 0, 0, 50), ("z", 0, 0, 8))
    groups = node_groups(GraphView.of(graph), profile, 1)
    assert [("".join(g.ops), g.net) for g in groups[1:]] == [("ab", -49), ("z", -8)]


def test_of_two_devices_with_one_name_the_profiled_one_counts() -> None:
    mine, other = graph_of(a="", b="a"), graph_of(b="", a="b")
    for node in other.node:
        node.device = "/job:other"
    for view in (GraphView.of(mine, other), GraphView.of(other, mine)):
        assert names(node_groups(view, profile_of(("a", 1, 0, 0), ("b", 0, 0, 1)), 1)) == ["a", "b"]


def test_seconds_are_those_of_the_ops() -> None:
    costs = by_name(CHAIN, {"a": 0.5, "b": 0.25, "c": 0.0, "d": 1.0, "e": 0.0}, {})
    assert [group.seconds for group in node_groups(CHAIN, TRIANGLE, 15, costs)] == [0.75, 1.0]
    graph = GraphDef()
    graph.node.add(name="product", op="MatMul")
    view = GraphView.of(graph)
    with pytest.raises(MissingCost, match="'product'"):
        node_groups(view, profile_of(("product", 1, 0, 0)), 1, by_name(view, {}, {}))


def test_a_profile_of_another_graph() -> None:
    with pytest.raises(GraphError, match="names the node 'x', which the graph has not"):
        node_groups(CHAIN, MemoryProfile(WORKER, [OpMemory("x", 1, 0, 0)], 0), 1)


@pytest.mark.parametrize("split_size", [0, -1])
def test_a_split_size_that_cuts_nothing(split_size: int) -> None:
    with pytest.raises(PlanError, match="above 0"):
        node_groups(CHAIN, TRIANGLE, split_size)
