"""A small training step and plans that make it fit: x -> a -> b -> view, then db, da, g and an update."""

from collections.abc import Sequence
from dataclasses import replace

from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import AwayTensor, Memory
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, DT_INT32, GraphDef

ORDER = ("x", "read", "a", "b", "view", "loss", "dloss", "db", "da", "g", "update")
MOVING = ("a", "b", "loss", "db", "da", "g")
AGAIN = AwayTensor(("a:0",), 8, "recompute", after="b", gone="loss", back="da", wanted="da", again=("x", "a"))
STASHED = AwayTensor(("b:0", "view:0"), 8, "offload", after="loss", gone="db", back="db", wanted="da")


def step() -> GraphItem:
    """`a` is read by b and da, `b` by loss and g, its view by da."""
    graph = GraphDef()
    for name, op, inputs in (
        ("w", "VarHandleOp", []),
        ("read", "ReadVariableOp", ["w"]),
        ("size", "Const", []),
        ("x", "StatelessRandomUniform", ["size", "size"]),
        ("a", "Mul", ["x", "read"]),
        ("b", "Exp", ["a"]),
        ("view", "Reshape", ["b", "size"]),
        ("loss", "Sqrt", ["b"]),
        ("dloss", "OnesLike", ["loss"]),
        ("db", "Mul", ["dloss", "loss"]),
        ("da", "AddN", ["db", "a", "view"]),
        ("g", "Mul", ["da", "b"]),
        ("rate", "Const", []),
        ("update", "ResourceApplyGradientDescent", ["w", "rate", "g"]),
        ("other", "Exp", ["a"]),
    ):
        node = graph.node.add(name=name, op=op, input=inputs, device="/device:CPU:0")
        typed = {"Const", "ReadVariableOp", "VarHandleOp", "StatelessRandomUniform"}
        node.attr["dtype" if op in typed else "T"].type = DT_INT32 if name == "size" else DT_FLOAT
        if op == "AddN":
            node.attr["N"].i = len(inputs)
        if op == "StatelessRandomUniform":
            node.attr["T"].type = node.attr["Tseed"].type = DT_INT32
        if op == "Reshape":
            node.attr["Tshape"].type = DT_INT32
    return GraphItem(graph, fetches=("loss:0", "update"))


def plan(
    *tensors: AwayTensor,
    chained: Sequence[str] = MOVING,
    item: GraphItem | None = None,
    beside: Sequence[int] = (),
    order: Sequence[str] = ORDER,
) -> Plan:
    """What makes a step fit, by default that one."""
    graph = graph_print(GraphView.of((item or step()).graph))
    memory = Memory(graph, 1000, "greedy", tuple(order), tensors, 900, 2.5, 2.0, 800, tuple(chained))
    return Plan(memory=replace(memory, beside=tuple(beside)))
