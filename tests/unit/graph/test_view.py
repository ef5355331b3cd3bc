"""GraphView: structure of well-formed graphs, and what it says of the others."""

import random
from itertools import pairwise

import pytest

from tests.graphs import SERVERS, WORKER, Builder, random_job
from tfwave.errors import GraphError
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef

SERVER = SERVERS[0]


def graph_of(*nodes: tuple[str, str, list[str]]) -> GraphDef:
    graph = GraphDef()
    for name, op, inputs in nodes:
        graph.node.add(name=name, op=op, input=inputs)
    return graph


def noops(**inputs: list[str]) -> GraphDef:
    return graph_of(*((name, "AddN", of_node) for name, of_node in inputs.items()))


def test_fanins_keep_input_order_and_repeats_and_fanouts_mirror_them() -> None:
    view = GraphView.of(noops(c=["b:1", "a", "b:1", "^d"], a=[], b=["a"], d=[]))
    assert view.names == ("c", "a", "b", "d")
    assert view.fanins == ((2, 1, 2, 3), (), (1,), ())
    assert view.data_fanins == (3, 0, 1, 0)
    assert view.fanouts == ((), (0, 2), (0, 0), (0,))
    assert view.sends == {}
    assert len(view) == 4


def test_control_edges_are_fanins_but_not_data() -> None:
    view = GraphView.of(noops(a=[], b=["^a"]))
    assert (view.fanins[1], view.data_fanins[1], view.fanouts[0]) == ((0,), 0, (1,))


def test_partitions_are_joined_at_send_and_recv() -> None:
    build = Builder()
    build.const(SERVER, "v")
    recv = build.pair("v", SERVER, WORKER, waits=[])
    build.op(WORKER, "use", [recv])
    view = GraphView.of(build.partitions[WORKER], build.partitions[SERVER])
    at = {name: i for i, name in enumerate(view.names)}
    assert view.sends == {at["recv1"]: at["send1"]}
    assert view.fanins[at["recv1"]] == (at["send1"],)
    assert view.data_fanins[at["recv1"]] == 0
    assert view.fanouts[at["send1"]] == (at["recv1"],)
    order = [view.names[i] for i in view.topological_order]
    assert order == ["v", "send1", "recv1", "use"]


def test_partitions_may_share_node_names() -> None:
    view = GraphView.of(noops(a=[], b=["a"]), noops(b=["a"], a=[]))
    assert view.fanins == ((), (0,), (3,), ())


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (noops(a=["gone"]), "node 'a': input 'gone' names a node that does not exist"),
        (noops(a=["^gone"]), "node 'a': input '\\^gone' names a node that does not exist"),
        (noops(b=[], a=["b:x"]), "node 'a': input 'b:x' is malformed"),
        (noops(b=[], a=["b:"]), "node 'a': input 'b:' is malformed"),
        (noops(b=[], a=["b:-1"]), "node 'a': input 'b:-1' is malformed"),
        (noops(b=[], a=["b:²"]), "node 'a': input 'b:²' is malformed"),
        (noops(a=["^"]), "node 'a': input '\\^' is malformed: it names no node"),
        (noops(b=[], a=["^^b"]), "node 'a': input '\\^\\^b' is malformed"),
        (noops(a=[""]), "node 'a': input '' is malformed"),
        (noops(a=[":0"]), "node 'a': input ':0' is malformed"),
        (noops(b=[], c=[], a=["^b", "c"]), "node 'a': data input 'c' comes after a control input"),
        (graph_of(("a", "A", []), ("b", "A", []), ("a", "B", [])), "node name 'a' is used more than once"),
        (GraphDef(), "has no nodes"),
    ],
)
def test_what_is_malformed_is_named(graph: GraphDef, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        GraphView.of(graph)


def test_no_partition_at_all_is_empty() -> None:
    with pytest.raises(GraphError, match="no nodes"):
        GraphView.of()


def test_a_cycle_is_named_in_edge_order() -> None:
    view = GraphView.of(noops(z=["y"], y=["^x"], x=["z", "a"], a=[], after=["z"]))
    with pytest.raises(GraphError) as caught:
        _ = view.topological_order
    cycle = str(caught.value).removeprefix("the graph has a cycle: ").split(" -> ")
    assert cycle[0] == cycle[-1]
    assert set(cycle) == {"x", "y", "z"}
    edges = {("y", "z"), ("x", "y"), ("z", "x")}
    assert set(pairwise(cycle)) == edges


def test_a_node_that_reads_itself_is_a_cycle() -> None:
    with pytest.raises(GraphError, match="cycle: a -> a"):
        _ = GraphView.of(noops(a=["a"])).topological_order


def test_a_long_cycle_is_shortened() -> None:
    graph = noops(**{f"n{i}": [f"n{(i + 1) % 100}"] for i in range(100)})
    with pytest.raises(GraphError, match="more") as caught:
        _ = GraphView.of(graph).topological_order
    assert len(str(caught.value)) < 200


def test_a_while_loop_is_no_cycle() -> None:
    loop = graph_of(
        ("start", "Enter", []),
        ("merge", "Merge", ["start", "next"]),
        ("body", "Add", ["merge"]),
        ("next", "NextIteration", ["body"]),
    )
    view = GraphView.of(loop)
    assert [view.names[i] for i in view.topological_order] == ["start", "merge", "body", "next"]
    assert view.fanins[1] == (0, 3)
    assert list(view.forward_fanins(1)) == [0]


def test_only_next_iteration_into_merge_closes_a_loop() -> None:
    view = GraphView.of(graph_of(("merge", "Merge", ["next"]), ("next", "Identity", ["merge"])))
    with pytest.raises(GraphError, match="cycle"):
        _ = view.topological_order


def test_the_topological_order_is_one_and_the_protos_stay_untouched() -> None:
    for seed in range(50):
        job = random_job(random.Random(seed))
        before = [p.SerializeToString(deterministic=True) for p in job.partitions]
        view, _ = job.view()
        place = {node: i for i, node in enumerate(view.topological_order)}
        assert sorted(place) == list(range(len(view)))
        assert all(place[f] < place[n] for n in place for f in view.fanins[n])
        assert [p.SerializeToString(deterministic=True) for p in job.partitions] == before
