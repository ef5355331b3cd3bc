"""untie on steps by hand: who takes what a tie passes on, and who waits for what."""

from collections.abc import Sequence

import networkx as nx
import pytest

from grappler_passes.untie import Untie
from tests.rewrites import check_rewrite, edges
from tests.steps import FLOAT, WORKER, Builder
from tfwave.errors import GraphError
from tfwave.graph.functions.nodes import types_attr
from tfwave.proto.tensorflow_pb2 import DT_BOOL, DT_FLOAT, DT_RESOURCE, AttrValue, NodeDef

OWN = "{}/untie_{}"


def tie(build: Builder, name: str, *inputs: str, kinds: Sequence[int] = (DT_FLOAT, DT_FLOAT)) -> str:
    return build.node(name, "IdentityN", *inputs, device=WORKER, T=types_attr(kinds))


def step() -> Builder:
    """Two gradients, of which the second needs the first, and both updates through one tie."""
    build = Builder()
    for name in ("v", "w"):
        build.handle(name)
        build.read(f"read_{name}", name)
    build.add("late", "read_v", "early")
    build.add("early", "read_w")
    tie(build, "tie", "early", "late", "^ready")
    build.node("ready", "NoOp", device=WORKER)
    build.update("update_w", "w", "tie")
    build.update("update_v", "v", "tie:1")
    return build


def rewritten(build: Builder, *fetches: str) -> dict[str, NodeDef]:
    item = check_rewrite(Untie(), build.item(*fetches)).item
    return {node.name: node for node in item.graph.node}


def test_each_gradient_goes_as_soon_as_it_is_there() -> None:
    build = step()
    item = check_rewrite(Untie(), build.item("update_w", "update_v")).item
    assert "late" in nx.ancestors(edges(build.graph), "update_w")
    assert "late" not in nx.ancestors(edges(item.graph), "update_w")
    assert {"early", "late"} < nx.ancestors(edges(item.graph), "update_v")


def test_who_passes_a_tensor_on_is_where_the_tie_is_and_waits_for_what_it_waited_for() -> None:
    build = step()
    tied = next(node for node in build.graph.node if node.name == "tie")
    tied.attr["_class"].list.s.append(b"loc:@read_v")
    nodes = rewritten(build, "update_w", "update_v")
    own = nodes[OWN.format("tie", 1)]
    assert (own.op, list(own.input), own.device) == ("Identity", ["late", "^ready"], WORKER)
    assert own.attr["T"] == FLOAT
    assert own.attr["_class"] == nodes["tie"].attr["_class"]
    assert own.attr["_grappler_do_not_remove"].b  # the optimizer would join what lies before and behind


def test_two_that_take_one_tensor_share_it() -> None:
    build = step()
    build.add("sum", "tie", "tie:1", "tie")
    nodes = rewritten(build, "sum", "update_w")
    first, second = (OWN.format("tie", port) for port in (0, 1))
    assert list(nodes["sum"].input) == [first, second, first]
    assert nodes["update_w"].input[1] == first


def test_one_tie_behind_the_other() -> None:
    build = step()
    tie(build, "after", "tie:1", "tie")
    build.add("sum", "after:1")
    nodes = rewritten(build, "sum")
    assert list(nodes["sum"].input) == [OWN.format("after", 1)]
    assert list(nodes[OWN.format("after", 1)].input) == [OWN.format("tie", 0)]


def test_the_tie_stays_for_whom_it_is_fetched_and_for_what_waits() -> None:
    build = step()
    build.node("train", "NoOp", "^tie")
    nodes = rewritten(build, "tie:1", "train")
    assert list(nodes["train"].input) == ["^tie"]
    assert list(nodes["tie"].input) == ["early", "late", "^ready"]


def test_nothing_is_done_where_nothing_is_tied() -> None:
    """By what passes a single tensor on, or is fed."""
    build = step()
    tie(build, "single", "early", kinds=[DT_FLOAT])
    build.add("sum", "single", "tie")
    assert not Untie()(build.item("sum", feeds=["tie:0", "tie:1"])).edits


def test_handles_are_left_alone() -> None:
    build = Builder()
    build.handle("v")
    build.const("x")
    tie(build, "tie", "v", "x", kinds=(DT_RESOURCE, DT_FLOAT))
    build.update("update", "tie", "tie:1")
    assert list(rewritten(build, "update")["update"].input) == ["tie", OWN.format("tie", 1)]


@pytest.mark.parametrize("taken", [0, 1])
def test_branches_are_left_alone(taken: int) -> None:
    """A tie of a dead and a living tensor is dead."""
    build = Builder()
    build.const("x")
    build.node("p", "Placeholder", dtype=AttrValue(type=DT_BOOL))
    build.node("switch", "Switch", "x", "p", T=FLOAT)
    tie(build, "tie", "switch:1", "x")
    build.node("merge", "Merge", "switch", f"tie:{taken}" if taken else "tie", T=FLOAT, N=AttrValue(i=2))
    assert not Untie()(build.item("merge", feeds=["p:0"])).edits


def test_a_name_that_another_node_has_is_refused() -> None:
    build = step()
    build.const(OWN.format("tie", 0))
    with pytest.raises(GraphError, match="node 'tie/untie_0' cannot be added, another one has that name"):
        Untie()(build.item("update_w"))
