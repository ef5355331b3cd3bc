"""The graph of a job by hand, to be merged: a variable, its initialiser, and a step with a kernel in it."""

from collections.abc import Sequence

from tfwave.graph.item import GraphItem
from tfwave.graph.step import step_of
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.groups import GroupedJob, Groups, NodeGroup, OwnStep, PlannedJob, Turn
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef, NodeDef

FETCHES = ("loss:0", "train")
GROUPS = (("begin", "read", "product"), ("activation",), ("loss", "slope"), ("train",))
"""As TensorFlow's optimizer might leave them: it has made away with 'size'."""

_NODES = (
    ("w", "VarHandleOp", ()),
    ("start", "Const", ()),
    ("begin", "Neg", ("start",)),
    ("first", "AssignVariableOp", ("w", "begin")),
    ("init", "NoOp", ("^first",)),
    ("x", "Placeholder", ()),
    ("read", "ReadVariableOp", ("w",)),
    ("product", "MatMul", ("x", "read")),
    ("activation", "Relu", ("product",)),
    ("loss", "L2Loss", ("activation",)),
    ("size", "Identity", ("loss",)),
    ("slope", "Mul", ("activation", "begin")),
    ("train", "AssignSubVariableOp", ("w", "slope", "^size")),
)


def job(value: float = 1.0) -> GraphDef:
    """``w -> read -> product -> activation -> {loss, slope} -> train``, with `value` as the first value."""
    graph = GraphDef()
    for name, op, inputs in _NODES:
        node = graph.node.add(name=name, op=op, input=inputs)
        for key in ("T", "dtype"):
            node.attr[key].type = DT_FLOAT
    handle, start = graph.node[0], graph.node[1]
    handle.attr["shared_name"].s = b"w"
    handle.attr["shape"].shape.dim.add(size=1)
    start.attr["value"].tensor.dtype = DT_FLOAT
    start.attr["value"].tensor.float_val.append(value)
    start.attr["_class"].list.s.append(b"loc:@w")
    graph.versions.producer = 1882
    return graph


def item(value: float = 1.0) -> GraphItem:
    return GraphItem(job(value), feeds=("x:0",), fetches=FETCHES, preserve=frozenset({"init"}))


def node_of(graph: GraphDef, name: str) -> NodeDef:
    return next(node for node in graph.node if node.name == name)


def planned(
    name: str, graph: GraphDef, *, own: bool = True, ops: Sequence[tuple[str, ...]] = GROUPS
) -> PlannedJob:
    groups = tuple(NodeGroup(group, 0, 0, 1, 1) for group in ops)
    step = GraphView.of(step_of(graph, FETCHES))
    known = OwnStep(graph_print(step), FETCHES) if own else None
    return PlannedJob(GroupedJob(name, groups, 0), graph_print(step), known)


def plan_of(*jobs: PlannedJob) -> Plan:
    """All groups in turn, one job after the other."""
    turns = [(Turn(j.job.name, number),) for j in jobs for number in range(len(j.job.groups))]
    return Plan(groups=Groups(100, jobs, tuple(turns), 10, 0.0, 0.0))
