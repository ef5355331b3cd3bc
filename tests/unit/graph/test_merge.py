"""Graphs of several jobs in one: what is renamed, what comes back, what is refused."""

import gzip
from pathlib import Path

import pytest

from tests.rewrites import in_order
from tests.unit.merged import item, job, node_of
from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.load import parse_graph
from tfwave.graph.marks import ADDED_BY
from tfwave.graph.merge import job_of, merge
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, FunctionDef, GraphDef

INPUTS = Path(__file__).parents[2] / "golden" / "inputs"
REAL = sorted(file for file in INPUTS.glob("*.pb.gz") if "resnet50" not in file.name)


def without_library(graph: GraphDef) -> GraphDef:
    return GraphDef(node=graph.node)


def test_nothing_is_shared_and_each_job_comes_back() -> None:
    merged = merge({"a": item(), "b": item(2.0)})
    verify(merged)
    handles = [node for node in merged.graph.node if node.op == "VarHandleOp"]
    assert [(node.name, node.attr["shared_name"].s) for node in handles] == [("a/w", b"a/w"), ("b/w", b"b/w")]
    assert list(node_of(merged.graph, "b/train").input) == ["b/w", "b/slope", "^b/size"]
    assert list(node_of(merged.graph, "b/start").attr["_class"].list.s) == [b"loc:@b/w"]
    assert merged.fetches == ("a/loss:0", "a/train", "b/loss:0", "b/train")
    assert (merged.feeds, merged.preserve) == (("a/x:0", "b/x:0"), {"a/init", "b/init"})
    for name, value in (("a", 1.0), ("b", 2.0)):
        assert in_order(job_of(merged.graph.node, name)) == in_order(without_library(job(value)))
    assert not job_of(merged.graph.node, "c").node


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name.partition(".")[0])
def test_real_graphs_three_times_each(file: Path) -> None:
    graph = parse_graph(gzip.decompress(file.read_bytes()), file.name)
    merged = merge(dict.fromkeys(("a", "b", "a-2"), GraphItem(graph)))
    verify(merged)
    assert len(merged.graph.node) == 3 * len(graph.node)
    assert len(merged.graph.library.function) == 3 * len(graph.library.function)
    for name in ("a", "b", "a-2"):
        assert in_order(job_of(merged.graph.node, name)) == in_order(without_library(graph))


def test_a_merged_graph_is_merged_again() -> None:
    both = merge({"a": item(), "b": item()})
    merged = merge({"both": both, "a": item()})
    verify(merged)
    assert job_of(merged.graph.node, "both") == without_library(both.graph)
    assert len({n.attr["shared_name"].s for n in merged.graph.node if n.op == "VarHandleOp"}) == 3


@pytest.mark.parametrize(
    ("op", "attr", "before", "after"),
    [
        ("VarHandleOp", "shared_name", b"", b"a/"),
        ("VarHandleOp", "shared_name", b"cd2c89b7-88b7-44c8-ad83-06c2a9158347", None),
        ("HashTableV2", "shared_name", b"words.txt", b"a/words.txt"),
        ("FIFOQueueV2", "shared_name", b"", None),
        ("Enter", "frame_name", b"while", b"a/while"),
        ("_Send", "tensor_name", b"edge_1_x", b"a/edge_1_x"),
    ],
)
def test_what_is_found_by_another_name_than_a_nodes(
    op: str, attr: str, before: bytes, after: bytes | None
) -> None:
    graph = GraphDef()
    graph.node.add(name="n", op=op).attr[attr].s = before
    merged = merge({"a": GraphItem(graph), "b": GraphItem(graph)}).graph
    assert node_of(merged, "a/n").attr[attr].s == (before if after is None else after)
    assert job_of(merged.node, "a") == graph


def called(body: str) -> GraphDef:
    """A call of ``f``, whose body differs, and of the function as an op; ``g`` is called by ``f``."""
    graph = GraphDef()
    call = graph.node.add(name="call", op="PartitionedCall")
    call.attr["f"].func.name = "f"
    call.attr["f"].func.attr["inner"].func.name = "g"
    graph.node.add(name="case", op="Case").attr["branches"].list.func.add().name = "g"
    graph.node.add(name="old", op="g")
    for name in "fg":
        function = graph.library.function.add()
        function.signature.name = name
        function.attr["forward_function_name"].s = b"g"
        function.attr["note"].s = b"\xff"
    inner = graph.library.function[0].node_def.add(name=body, op="StatelessIf")
    inner.attr["then_branch"].func.name = "g"
    graph.library.function[0].node_def.add(name="v", op="VarHandleOp").attr["shared_name"].s = b"v"
    graph.library.gradient.add(function_name="f", gradient_func="g")
    return graph


def test_functions_of_one_name_and_different_bodies_stay_apart() -> None:
    merged = merge({"a": GraphItem(called("one")), "b": GraphItem(called("two"))}).graph
    library: dict[str, FunctionDef] = {f.signature.name: f for f in merged.library.function}
    assert sorted(library) == ["a/f", "a/g", "b/f", "b/g"]
    assert [library[f].node_def[0].name for f in ("a/f", "b/f")] == ["one", "two"]
    assert library["b/f"].node_def[0].attr["then_branch"].func.name == "b/g"
    assert library["b/f"].node_def[1].attr["shared_name"].s == b"b/v"
    assert library["b/f"].attr["forward_function_name"].s == b"b/g"
    assert library["b/f"].attr["note"].s == b"\xff"
    call = node_of(merged, "b/call").attr["f"].func
    assert (call.name, call.attr["inner"].func.name) == ("b/f", "b/g")
    assert node_of(merged, "b/case").attr["branches"].list.func[0].name == "b/g"
    assert node_of(merged, "b/old").op == "b/g"
    assert [(g.function_name, g.gradient_func) for g in merged.library.gradient] == [
        ("a/f", "a/g"),
        ("b/f", "b/g"),
    ]
    assert job_of(merged.node, "b") == without_library(called("two"))


def test_versions_are_those_that_all_can_be_read_by() -> None:
    old, new = job(), job()
    old.versions.producer, new.versions.producer = 24, 2000
    old.versions.min_consumer, new.versions.min_consumer = 0, 12
    new.versions.bad_consumers.extend([99])
    versions = merge({"a": GraphItem(old), "b": GraphItem(new)}).graph.versions
    assert (versions.producer, versions.min_consumer, list(versions.bad_consumers)) == (24, 12, [99])


def test_what_cannot_be_merged() -> None:
    with pytest.raises(GraphError, match="there is one graph: give two or more"):
        merge({"a": item()})
    with pytest.raises(
        GraphError, match=r"no node's name can begin with 'my job/': name the graph's file in"
    ):
        merge({"a": item(), "my job": item()})
    rewritten = job()
    node_of(rewritten, "init").attr[ADDED_BY].s = b"a pass"
    with pytest.raises(GraphError, match="node 'init' of 'b' was rewritten: undo that, merge"):
        merge({"a": item(), "b": GraphItem(rewritten)})


def test_collectives_of_two_jobs_would_meet() -> None:
    graph = job()
    graph.node.add(name="reduce", op="CollectiveReduceV2").attr["T"].type = DT_FLOAT
    merge({"a": item(), "b": GraphItem(graph)})
    with pytest.raises(GraphError, match="the collectives 'reduce' of 'a' and 'reduce' of 'b' would meet"):
        merge({"a": GraphItem(graph), "b": GraphItem(graph)})


def test_an_op_of_several_variables() -> None:
    graph = GraphDef()
    graph.node.add(name="n", op="_VarHandlesOp").attr["shared_names"].list.s.extend([b"v", b"w"])
    merged = merge({"a": GraphItem(graph), "b": GraphItem(graph)}).graph
    assert list(node_of(merged, "b/n").attr["shared_names"].list.s) == [b"b/v", b"b/w"]
