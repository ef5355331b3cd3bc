"""The pass cut: what it takes out comes back, also from a graph that stays on one device."""

from dataclasses import replace

import pytest

from grappler_passes.cut import Cut
from tests.rewrites import check_rewrite
from tests.unit.graph.test_functions import graph_of, identity, loop
from tfwave.graph import marks
from tfwave.graph.attrs import CLASS_ATTR, colocated_with
from tfwave.graph.item import GraphItem


@pytest.mark.parametrize("fetches", [(), ("reader:0",)])
def test_what_was_lowered_on_one_device_comes_back(fetches: tuple[str, ...]) -> None:
    graph = graph_of(loop("small", "same"), identity("loop"), identity("x", "unused")).graph
    result = check_rewrite(Cut(), GraphItem(graph, fetches=fetches))
    nodes = {node.name: node for node in result.item.graph.node}
    assert all(node.op != "While" for node in nodes.values())
    assert ("unused" in nodes) == (not fetches)
    assert marks.REMOVED in nodes


def test_what_is_left_stays_with_nothing_that_is_gone() -> None:
    item = graph_of(identity("x", "loss"), identity("x", "near"), identity("near", "gradient"))
    for name in ("loss", "near"):
        item.graph.node[-1].attr[CLASS_ATTR].list.s.append(f"loc:@{name}".encode())
    item.graph.node[-2].attr[CLASS_ATTR].list.s.append(b"loc:@loss")
    result = check_rewrite(Cut(), replace(item, fetches=("gradient:0",)))
    nodes = {node.name: node for node in result.item.graph.node}
    assert "loss" not in nodes
    assert colocated_with(nodes["gradient"]) == ["near"]
    assert CLASS_ATTR not in nodes["near"].attr
