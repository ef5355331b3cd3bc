"""The difference of two graphs, by what a reader wants to know."""

import json
import random
import time

import pytest

from tests.graphs import WORKER, Builder, random_job
from tfwave.errors import GraphError
from tfwave.graph.diff import Edit, GraphDiff, NodeChange, diff
from tfwave.proto.tensorflow_pb2 import GraphDef

NODES = 100_000
SECONDS = 3.0
"""For `NODES`, on a slow and busy machine."""


def some_graph() -> GraphDef:
    build = Builder()
    build.const(WORKER, "a")
    build.const(WORKER, "b")
    build.op(WORKER, "sum", ["a", "b", "^done"])
    build.op(WORKER, "done", ["^a"])
    graph = build.partitions[WORKER]
    graph.versions.producer = 1882
    function = graph.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="body", op="NoOp")
    function.ret["y"] = "body"
    return graph


def changed(graph: GraphDef, name: str) -> NodeChange:
    (change,) = diff(some_graph(), graph).nodes.changed
    assert change.name == name
    return change


def test_equal_graphs_do_not_differ() -> None:
    found = diff(some_graph(), some_graph())
    assert found == GraphDiff()
    assert found.equal
    assert not found


def test_nodes_that_came_and_went_are_sorted() -> None:
    graph = some_graph()
    del graph.node[1]
    for name in ("z", "c", "m"):
        graph.node.add(name=name, op="NoOp")
    found = diff(some_graph(), graph)
    assert found.nodes.added == ("c", "m", "z")
    assert found.nodes.removed == ("b",)
    assert found.nodes.changed == ()
    assert found
    assert not found.equal
    back = diff(graph, some_graph())
    assert (back.nodes.added, back.nodes.removed) == (found.nodes.removed, found.nodes.added)


def test_data_and_control_edges_are_told_apart() -> None:
    graph = some_graph()
    graph.node[2].input[:] = ["b", "a", "^done"]
    assert changed(graph, "sum").edits == {"inputs": Edit(("a", "b"), ("b", "a"))}
    graph.node[2].input[:] = ["a", "b", "^b", "^done"]
    assert changed(graph, "sum").edits == {"control_inputs": Edit(("^done",), ("^b", "^done"))}


def test_the_order_of_control_edges_is_no_difference() -> None:
    graph, other = some_graph(), some_graph()
    graph.node[2].input[:] = ["a", "b", "^done", "^b"]
    other.node[2].input[:] = ["a", "b", "^b", "^done"]
    assert diff(graph, other).equal


def test_op_device_and_attributes_by_name() -> None:
    graph = some_graph()
    node = graph.node[2]
    node.op, node.device = "Add", ""
    node.attr["N"].i = 3
    node.attr["new"].s = b"x"
    del node.attr["T"]
    change = changed(graph, "sum")
    assert change.edits == {"op": Edit("AddN", "Add"), "device": Edit(WORKER, "")}
    assert change.attrs == {"N": Edit("2", "3"), "T": Edit("DT_FLOAT", None), "new": Edit(None, "'x'")}


def test_large_tensors_differ_by_digest() -> None:
    graph = some_graph()
    graph.node[0].attr["value"].tensor.tensor_content = bytes(1000)
    edit = changed(graph, "a").attrs["value"]
    assert edit.before == "DT_FLOAT [] float_val {1.0}"
    assert str(edit.after).startswith("DT_FLOAT [] sha256:")


def test_functions_and_their_bodies() -> None:
    graph = some_graph()
    function = graph.library.function[0]
    function.ret["y"] = "other"
    function.node_def.add(name="other", op="NoOp")
    function.node_def[0].op = "Const"
    graph.library.function.add().signature.name = "g"
    found = diff(some_graph(), graph)
    assert (found.functions.added, found.functions.removed) == (("g",), ())
    (change,) = found.functions.changed
    assert change.name == "f"
    assert change.edits == {"return y": Edit("body", "other")}
    assert change.nodes.added == ("other",)
    assert change.nodes.changed == (NodeChange("body", {"op": Edit("NoOp", "Const")}, {}),)
    assert not found.nodes
    assert diff(graph, some_graph()).functions.removed == ("g",)


def test_the_rest_of_a_graph() -> None:
    graph = some_graph()
    graph.versions.producer = 1
    assert diff(some_graph(), graph).edits == {"versions": Edit("producer: 1882", "producer: 1")}


def test_the_difference_as_json() -> None:
    graph = some_graph()
    graph.node[2].op = "Add"
    graph.node.add(name="new", op="NoOp")
    no_functions = {"added": [], "removed": [], "changed": []}
    edits = {"op": {"before": "AddN", "after": "Add"}}
    assert json.loads(json.dumps(diff(some_graph(), graph).to_dict())) == {
        "equal": False,
        "nodes": {
            "added": ["new"],
            "removed": [],
            "changed": [{"name": "sum", "edits": edits, "attrs": {}}],
        },
        "functions": no_functions,
        "edits": {},
    }


@pytest.mark.parametrize("seed", range(10))
def test_the_same_difference_whatever_the_order(seed: int) -> None:
    rng = random.Random(seed)
    job, other = random_job(rng), random_job(rng)
    found = diff(job.partitions[0], other.partitions[0])
    nodes = {n.name for n in job.partitions[0].node}
    shuffled = [_shuffled(j.partitions[0], rng) for j in (job, other)]
    assert json.dumps(diff(*shuffled).to_dict()) == json.dumps(found.to_dict())
    assert nodes - set(found.nodes.removed) == nodes & {n.name for n in other.partitions[0].node}


def _shuffled(graph: GraphDef, rng: random.Random) -> GraphDef:
    nodes = list(graph.node)
    rng.shuffle(nodes)
    return GraphDef(node=nodes)


def test_a_name_used_twice_is_refused() -> None:
    graph = some_graph()
    graph.node.add(name="a", op="NoOp")
    for pair in ((graph, some_graph()), (some_graph(), graph)):
        with pytest.raises(GraphError, match="node name 'a' is used more than once"):
            diff(*pair)
    graph = some_graph()
    graph.library.function.add().signature.name = "f"
    with pytest.raises(GraphError, match="function name 'f' is used more than once"):
        diff(some_graph(), graph)


def test_large_graphs_are_compared_fast() -> None:
    graph, other = GraphDef(), GraphDef()
    for i in range(NODES):
        node = graph.node.add(name=f"op{i}", op="Identity", input=[f"op{i - 1}"] if i else [])
        node.attr["T"].type = 1
    other.CopyFrom(graph)
    for node in other.node[::10]:
        node.input.append("^op0")
    start = time.process_time()
    found = diff(graph, other)
    assert time.process_time() - start < SECONDS
    assert len(found.nodes.changed) == NODES // 10
