"""The pass inline: what TensorFlow would inline when it runs the graph, under names that it will not use again."""

import re

from grappler_passes.inline import Inline
from tests.rewrites import check_rewrite
from tests.unit.graph.test_functions import branch, call, graph_of, identity, loop


def test_calls_loops_and_branches_become_their_bodies() -> None:
    result = check_rewrite(
        Inline(), graph_of(call(), loop(), branch(), identity("call"), identity("loop", "kept/_3"))
    )
    nodes = {node.name: node.op for node in result.item.graph.node}
    assert not {"PartitionedCall", "While", "If"} & set(nodes.values())
    assert nodes["call"] == "IdentityN"
    assert [name for name in nodes if re.search(r"/_\d+$", name)] == ["kept/_3"]
    assert any("/inline_" in name for name in nodes)


def test_a_graph_without_functions_stays_as_it_is() -> None:
    item = graph_of(identity("x"))
    assert check_rewrite(Inline(), item).item is item
