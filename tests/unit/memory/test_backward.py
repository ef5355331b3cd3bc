"""Which nodes of a training step are backward: small steps, in which it is plain to see."""

from collections.abc import Sequence

import pytest

from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.offload.backward import StepFlow
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef

Node = tuple[str, str, list[str]]
FORWARD: list[Node] = [
    ("w", "VarHandleOp", []),
    ("v", "VarHandleOp", []),
    ("x", "Const", []),
    ("read_w", "ReadVariableOp", ["w"]),
    ("read_v", "ReadVariableOp", ["v"]),
    ("a", "Mul", ["x", "read_w"]),
    ("b", "Mul", ["a", "read_v"]),
    ("loss", "Sqrt", ["b"]),
]
GRADIENTS: list[Node] = [
    ("dloss", "OnesLike", ["loss"]),
    ("db", "Mul", ["dloss", "loss"]),
    ("gv", "Mul", ["db", "a"]),
    ("da", "Mul", ["db", "read_v"]),
    ("gw", "Mul", ["da", "x"]),
]
UPDATES: list[Node] = [
    ("rate", "Const", []),
    ("update_v", "ResourceApplyGradientDescent", ["v", "rate", "gv"]),
    ("update_w", "ResourceApplyGradientDescent", ["w", "rate", "gw"]),
]
BACKWARD = {"dloss", "db", "gv", "da", "gw", "update_v", "update_w"}


def backward(nodes: Sequence[Node], fetches: Sequence[str] = ("loss:0", "update_v", "update_w")) -> set[str]:
    """The names of the nodes that are backward."""
    graph = GraphDef()
    for name, op, inputs in nodes:
        node = graph.node.add(name=name, op=op, input=inputs)
        node.attr["dtype" if op in {"Const", "ReadVariableOp", "VarHandleOp"} else "T"].type = DT_FLOAT
        if op == "VarHandleOp":
            node.attr["shared_name"].s = name.encode()
        if op in {"AssignVariableOp", "AssignSubVariableOp"}:
            node.attr["dtype"].type = DT_FLOAT
    item = GraphItem(graph, fetches=tuple(fetches))
    view = verify(item)
    return {view.names[node] for node in StepFlow.of(item, view).backward}


def test_what_leads_from_the_seed_to_the_updates_is_backward() -> None:
    assert backward([*FORWARD, *GRADIENTS, *UPDATES]) == BACKWARD


def test_a_mask_of_activations_is_forward() -> None:
    """Behind the loss's inputs, not behind its gradient; from the second one the update of one weight follows."""
    masked = [(n, op, ["da", "mask"] if n == "gw" else i) for n, op, i in GRADIENTS]
    for op in ("Sign", "Neg"):
        assert backward([*FORWARD, ("mask", op, ["b"]), *masked, *UPDATES]) == BACKWARD


def test_a_gradient_that_begins_with_what_the_forward_pass_gives_is_backward() -> None:
    """As that of half a square: no seed, but the first node behind the loss from which all updates follow."""
    begin: list[Node] = [("db", "Neg", ["b"])]
    gradients = [node for node in GRADIENTS if node[0] not in {"dloss", "db"}]
    assert backward([*FORWARD, *begin, *gradients, *UPDATES]) == BACKWARD - {"dloss"}


def test_an_update_that_no_gradient_of_the_loss_reaches_is_backward_too() -> None:
    """A weight that decays by itself: what it takes may be made at any time."""
    gradients = [("gv", "Neg", ["read_v"]) if node[0] == "gv" else node for node in GRADIENTS]
    assert backward([*FORWARD, *gradients, *UPDATES]) == BACKWARD - {"gv"}


def test_a_moving_average_is_no_gradient() -> None:
    """Its update takes what the forward pass gives, and nobody's gradient follows."""
    moved: list[Node] = [
        ("mean", "VarHandleOp", []),
        ("part", "Neg", ["b"]),
        ("move", "AssignSubVariableOp", ["mean", "part"]),
    ]
    fetches = ("loss:0", "update_v", "update_w", "move")
    assert backward([*FORWARD, *moved, *GRADIENTS, *UPDATES], fetches) == BACKWARD


def test_updates_that_go_through_slots_are_followed() -> None:
    """As Keras 3's: each slot is assigned first, then read again, and the weight takes what was read."""
    nodes: list[Node] = [*FORWARD, *GRADIENTS]
    for name in ("v", "w"):
        nodes += [
            (f"{name}_slot", "VarHandleOp", []),
            (f"{name}_before", "ReadVariableOp", [f"{name}_slot"]),
            (f"{name}_sum", "Add", [f"{name}_before", f"g{name}"]),
            (f"{name}_slotted", "AssignVariableOp", [f"{name}_slot", f"{name}_sum"]),
            (f"{name}_again", "ReadVariableOp", [f"{name}_slot", f"^{name}_slotted"]),
            (f"update_{name}", "AssignSubVariableOp", [name, f"{name}_again"]),
        ]
    fetches = ("loss:0", "v_slotted", "w_slotted", "update_v", "update_w")
    slots = {f"{v}_{part}" for v in "vw" for part in ("sum", "slotted", "again")}
    assert backward(nodes, fetches) == BACKWARD | slots


def test_weights_that_also_decay_follow_from_their_gradients_as_from_the_rate() -> None:
    """As by Keras 3's AdamW: from its rate two updates of each weight follow, from the gradient of the loss one."""
    nodes: list[Node] = [*FORWARD, *GRADIENTS, ("rate", "Const", [])]
    for name in ("v", "w"):
        nodes += [
            (f"{name}_now", "ReadVariableOp", [name]),
            (f"{name}_decay", "Mul", [f"{name}_now", "rate"]),
            (f"{name}_decayed", "AssignSubVariableOp", [name, f"{name}_decay"]),
            (f"{name}_step", "Mul", [f"g{name}", "rate"]),
            (f"update_{name}", "AssignSubVariableOp", [name, f"{name}_step", f"^{name}_decayed"]),
        ]
    own = {"rate"} | {f"{v}_{part}" for v in "vw" for part in ("decay", "decayed", "step")}
    assert backward(nodes) == BACKWARD | own


def test_the_gradients_of_two_waves_are_both_backward() -> None:
    """The second one's updates take the first one's gradients, too: from these more updates follow."""
    nodes: list[Node] = []
    step: list[Node] = [*FORWARD, ("cost", "Neg", ["loss"]), *GRADIENTS, *UPDATES]
    for wave in "12":
        nodes += [(name + wave, op, [text + wave for text in inputs]) for name, op, inputs in step]
    for weight in "vw":
        nodes.append((f"mean_{weight}", "Add", [f"g{weight}1", f"g{weight}2"]))
        place = [name for name, _, _ in nodes].index(f"update_{weight}2")
        nodes[place] = (f"update_{weight}2", nodes[place][1], [f"{weight}2", "rate2", f"mean_{weight}"])
    found = {f"{name}{wave}" for name in BACKWARD for wave in "12"} | {"mean_v", "mean_w"}
    fetches = ("cost1:0", "cost2:0", "update_v1", "update_w1", "update_v2", "update_w2")
    assert backward(nodes, fetches) == found


def test_a_step_that_gives_metrics_alone_turns_behind_what_they_add_up() -> None:
    """As Keras 3's: the mean loss, and another figure of the forward pass, are read behind their updates."""
    updates: list[Node] = [(f"update_{name}", "AssignSubVariableOp", [name, f"g{name}"]) for name in "vw"]
    metrics: list[Node] = []
    for name, value in (("mean", "loss"), ("share", "b")):
        metrics += [
            (name, "VarHandleOp", []),
            (f"{name}_before", "ReadVariableOp", [name]),
            (f"{name}_sum", "Add", [f"{name}_before", value]),
            (f"{name}_added", "AssignVariableOp", [name, f"{name}_sum"]),
            (f"{name}_read", "ReadVariableOp", [name, f"^{name}_added"]),
            (f"{name}_told", "Neg", [f"{name}_read"]),
        ]
    fetches = ("mean_told:0", "share_told:0", "update_v", "update_w")
    found = backward([*FORWARD, *metrics, *GRADIENTS, *updates], fetches)
    assert found >= BACKWARD
    assert found.isdisjoint({"a", "b", "loss", "mean_sum", "share_sum"})


def test_a_step_that_trains_nothing_is_refused() -> None:
    other: list[Node] = [("u", "VarHandleOp", []), ("move", "AssignSubVariableOp", ["u", "loss"])]
    with pytest.raises(PassError, match="no end of the forward pass is found"):
        backward([*FORWARD, *other], ("loss:0", "move"))


def test_a_step_that_fetches_nothing_is_refused() -> None:
    with pytest.raises(PassError, match="no end of the forward pass is found: fetch the loss"):
        backward([*FORWARD, *GRADIENTS, *UPDATES], fetches=())
