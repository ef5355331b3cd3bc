"""A graph for networkx and for other tools: what nodes and edges say."""

import io
import json
import random
import re
from pathlib import Path

import networkx as nx
import pytest

from tests.bundles import SIZES, small_bundle
from tests.graphs import SERVERS, WORKER
from tests.uncut import random_uncut
from tests.unit.conftest import Command
from tfwave.errors import TfwaveError
from tfwave.graph.export import dot, graphml
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.order.order import Order, Ranked
from tfwave.order.registry import find_policy
from tfwave.planner.uncaptured import as_it_runs, plan_graph
from tfwave.proto.tensorflow_pb2 import GraphDef

OWN = "tests.unit.graph.test_networkx"


def by_hand() -> GraphView:
    graph = GraphDef()
    graph.node.add(name="a", op="Split", device=SERVERS[0])
    graph.node.add(name='b "q" \\', op="AddN", device=WORKER, input=["a:1", "a", "a:1", "^a"])
    return GraphView.of(graph)


def test_nodes_and_edges_say_what_they_are() -> None:
    graph = by_hand().to_networkx({1: 8})
    assert graph.nodes[0] == {"name": "a", "op": "Split", "device": SERVERS[0]}
    assert graph.nodes[1]["bytes"] == 8
    edges = [(source, target, e["port"], e["control"]) for source, target, e in graph.edges(data=True)]
    assert edges == [(0, 1, 1, False), (0, 1, 0, False), (0, 1, 1, False), (0, 1, -1, True)]


def test_a_send_leads_to_its_recv_and_all_else_is_an_input() -> None:
    item = random_uncut(random.Random(5))
    view = as_it_runs(item, verify(item))
    graph = view.to_networkx()
    assert list(graph) == list(range(len(view)))
    assert [sorted(graph.predecessors(i)) for i in graph] == [sorted(set(f)) for f in view.fanins]
    assert graph.number_of_edges() == sum(map(len, view.fanins))
    assert view.sends
    for recv, send in view.sends.items():
        assert graph.get_edge_data(send, recv) == {0: {"port": 0, "control": False}}


def test_graphml_is_read_back() -> None:
    view = by_hand()
    read = nx.read_graphml(io.BytesIO(graphml(view, {1: 8}).encode()), node_type=int, force_multigraph=True)
    graph = view.to_networkx({1: 8})
    assert list(read.nodes.data()) == list(graph.nodes.data())
    assert list(read.edges.data()) == list(graph.edges.data())


def test_names_that_xml_cannot_hold_are_written() -> None:
    graph = GraphDef()
    graph.node.add(name="a\x01b", op="NoOp")
    read = nx.parse_graphml(graphml(GraphView.of(graph)))
    assert read.nodes["0"]["name"] == "a\ufffdb"


def test_dot_has_each_device_node_and_edge() -> None:
    text = dot(by_hand(), {1: 8})
    assert re.findall(r"subgraph cluster_(\d) \{\n    label=\"(.*)\"", text) == [
        ("0", SERVERS[0]),
        ("1", WORKER),
    ]
    assert '1 [label="b \\"q\\" \\\\\\nAddN\\n8 bytes"]' in text
    edges = [line.strip() for line in text.splitlines() if "->" in line]
    assert edges == [*["0 -> 1"] * 3, "0 -> 1 [style=dashed]"]


def test_inspect_writes_both(tfwave: Command, bundle: Path, tmp_path: Path) -> None:
    files = tmp_path / "g.graphml", tmp_path / "g.dot"
    ran = tfwave("inspect", bundle, "--graphml", files[0], "--dot", files[1])
    assert (ran.code, ran.out.count("written to")) == (0, 2)
    graph = nx.read_graphml(files[0])
    sent = {data["name"]: data["bytes"] for _, data in graph.nodes(data=True) if "bytes" in data}
    assert sorted(sent.values()) == sorted(SIZES.values())
    assert len(graph) == len(small_bundle().view)
    assert files[1].read_text().count(" bytes") == len(sent)
    json.loads(tfwave("inspect", bundle, "--dot", files[1], "--json").out)


def test_without_a_graph_nothing_can_be_written(tfwave: Command, tmp_path: Path) -> None:
    ran = tfwave("inspect", "--dot", tmp_path / "g.dot")
    assert (ran.code, "give a graph or a bundle" in ran.err) == (2, True)


def backwards(view: GraphView, transfers: list[Transfer], costs: object) -> Order:
    return tuple(Ranked(t, 0.0) for t in sorted(transfers, key=lambda t: t.sort_key, reverse=True))


def forgetful(view: GraphView, transfers: list[Transfer], costs: object) -> Order:
    return backwards(view, transfers, costs)[1:]


def repeating(view: GraphView, transfers: list[Transfer], costs: object) -> Order:
    return (backwards(view, transfers, costs) * 2)[: len(transfers) + 1]


def test_a_policy_of_ones_own_makes_the_plan() -> None:
    item = random_uncut(random.Random(5))
    plan = plan_graph(item, verify(item), f"{OWN}:backwards")
    assert plan.policy == f"{OWN}:backwards"
    for order in plan.orders:
        names = [(t.key.node, t.key.port) for t in order.transfers]
        assert len(names) > 1
        assert names == sorted(names, reverse=True)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (f"{OWN}:forgetful", r"orders .* 0 times: order each transfer that it is given once"),
        (f"{OWN}:repeating", r"orders .* 2 times"),
        (f"{OWN}:nothing", "there is no policy .*nothing': module"),
        ("no.such.module:x", "there is no policy 'no.such.module:x': No module"),
    ],
)
def test_a_faulty_policy_of_ones_own_is_refused(policy: str, says: str) -> None:
    item = random_uncut(random.Random(5))
    with pytest.raises(TfwaveError, match=says):
        plan_graph(item, verify(item), policy)


def test_a_transfer_before_one_that_it_waits_for_is_refused() -> None:
    graph = small_bundle().graphs
    view = GraphView.of(*graph)
    transfers = find_transfers(view).data  # grad waits for all pulls
    order = find_policy(f"{OWN}:backwards")(view, [t for t in transfers if t.key.node != "grad"], ...)
    assert [ranked.transfer.key.node for ranked in order] == ["v3", "v2", "v1"]
    with pytest.raises(TfwaveError, match=r"orders grad:0;.* before v3:0;.*, which it waits for"):
        find_policy(f"{OWN}:gradient_first")(view, transfers, ...)


def gradient_first(view: GraphView, transfers: list[Transfer], costs: object) -> Order:
    return tuple(Ranked(t, 0.0) for t in sorted(transfers, key=lambda t: t.key.node))
