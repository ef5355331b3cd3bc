"""What TensorFlow may compute in one kernel, between barriers: whole, in the later group, without control edges."""

import pytest

from grappler_passes.counter_barrier import CounterBarrier
from tests.rewrites import check_rewrite
from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.passes.base import PassResult
from tfwave.passes.pipeline import Pipeline
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef
from tfwave.rewrite.fused import kernel_ends


def graph(*nodes: tuple[str, str, str]) -> GraphItem:
    """(name, op, inputs with blanks between them)."""
    made = GraphDef()
    for name, op, inputs in nodes:
        node = made.node.add(name=name, op=op, input=inputs.split(), device="/device:CPU:0")
        for key in ("T", "U", "dtype"):
            node.attr[key].type = DT_FLOAT
    return GraphItem(made)


def layer() -> GraphItem:
    """``x, filter -> conv -> biased -> on -> after``; the sum of what the kernel gives out is asked for, too."""
    return graph(
        ("x", "Abs", "filter"),
        ("filter", "Placeholder", ""),
        ("bias", "Const", ""),
        ("conv", "Conv2D", "x filter"),
        ("biased", "BiasAdd", "conv bias"),
        ("on", "Relu", "biased"),
        ("after", "Neg", "on"),
        ("total", "L2Loss", "on"),
    )


def ends(item: GraphItem) -> dict[str, str]:
    view = GraphView.of(item.graph)
    return {
        view.names[n]: view.names[end]
        for n, end in enumerate(kernel_ends(view, range(len(view))))
        if end != n
    }


def inputs(result: PassResult) -> dict[str, list[str]]:
    return {node.name: list(node.input) for node in result.item.graph.node}


def test_a_kernel_ends_where_several_read_or_something_else_does() -> None:
    assert ends(layer()) == {"conv": "on", "biased": "on"}
    norm = graph(
        ("x", "Placeholder", ""),
        ("n", "FusedBatchNormV3", "x x x x x"),
        ("on", "Relu", "n"),
        ("mean", "Neg", "n:1"),
        ("a", "AddV2", "x x"),
        ("b", "AddV2", "a x"),
        ("p", "Pad", "x x"),
        ("c", "Conv2D", "p x"),
        ("late", "NoOp", "^a"),
    )
    assert ends(norm) == {"n": "on", "a": "b", "p": "c"}
    assert not ends(
        graph(("x", "Placeholder", ""), ("c", "MatMul", "x x"), ("n", "Relu", "c"), ("m", "Relu", "c"))
    )


def test_an_identity_waits_before_a_kernel_and_one_stands_for_its_end() -> None:
    made = inputs(
        check_rewrite(CounterBarrier((("x",), ("conv", "biased", "on"), ("after", "total"))), layer())
    )
    first, second = sorted(name for name in made if name.startswith("tfwave/"))
    gate, end = f"x/gate_0/{first}", f"on/end/{second}"
    assert made["conv"] == [gate, "filter"]
    assert made[gate] == ["x", f"^{first}"]
    assert (made["biased"], made["on"]) == (["conv", "bias"], ["biased"])
    assert (made[second], made[end]) == ([f"^{end}"], ["on"])
    assert made["after"] == ["on", f"^{second}"]


def test_a_kernel_in_two_groups_goes_to_the_later_with_all_that_waits_for_it() -> None:
    made = inputs(check_rewrite(CounterBarrier((("x", "conv"), ("on",), ("after",))), layer()))
    first = min(name for name in made if name.startswith("tfwave/"))
    assert made[first] == ["^x"]
    assert made["conv"][0].startswith("x/gate_0/")
    item = layer()
    item.graph.node.add(name="early", op="NoOp", input=["^conv"])
    made = inputs(check_rewrite(CounterBarrier((("x", "early"), ("biased",))), item))
    (barrier,) = (name for name in made if name.startswith("tfwave/"))
    assert made[barrier] == ["^x"]


def test_nodes_of_a_kernel_read_one_tensor_by_one_gate() -> None:
    """``x * sigmoid(x)``: TensorFlow has a kernel for it, if both read the same."""
    item = graph(("x", "Placeholder", ""), ("s", "Sigmoid", "x"), ("m", "Mul", "x s"), ("y", "Abs", "x"))
    made = inputs(check_rewrite(CounterBarrier((("y",), ("s", "m"))), item))
    (barrier,) = (name for name in made if name.startswith("tfwave/"))
    gate = f"x/gate_0/{barrier}"
    assert (made["s"], made["m"], made["y"]) == ([gate], [gate, "s"], ["x"])


def test_readers_that_the_step_does_not_run_leave_a_kernel_whole() -> None:
    """As a summary does, of what an activation alone reads in training."""
    made = graph(
        ("x", "Placeholder", ""),
        ("s", "Sigmoid", "x"),
        ("m", "Mul", "x s"),
        ("seen", "Abs", "s"),
        ("y", "Abs", "x"),
    )
    groups = ("y", "s"), ("m",)
    for fetches, reader in ((["m"], "x/gate_0/"), (["m", "seen"], "x")):
        found = inputs(CounterBarrier(groups)(GraphItem(made.graph, fetches=tuple(fetches))))
        assert found["s"][0].startswith(reader)
        assert len(found["s"]) == 1
        assert ("^" in found["m"][-1]) == (reader == "x")


def test_a_power_waits_by_what_it_reads() -> None:
    """TensorFlow makes products of a square or a cube, and none where a control edge is on it."""
    item = graph(
        ("x", "Placeholder", ""),
        ("two", "Const", ""),
        ("p", "Pow", "x two"),
        ("y", "Abs", "x"),
        ("z", "Abs", "p"),
    )
    made = inputs(check_rewrite(CounterBarrier((("y",), ("p",), ("z",))), item))
    first, second = sorted(name for name in made if name.startswith("tfwave/"))
    assert made["p"] == [f"x/gate_0/{first}", "two"]
    assert made[second] == [f"^p/end/{second}"]


def test_barriers_of_two_passes_on_one_kernel() -> None:
    kernel = ("conv", "biased", "on")
    check_rewrite(
        Pipeline((CounterBarrier((("x",), kernel)), CounterBarrier((("x",), kernel, ("after",))))), layer()
    )


def test_a_job_has_its_barriers_on_kernels_as_they_are() -> None:
    made = inputs(check_rewrite(CounterBarrier((("x",), ("on",)), "a job"), layer()))
    assert [text for text in made["on"] if text.startswith("^")]


def test_a_kernel_of_constants_alone_waits_itself() -> None:
    item = graph(("c", "Const", ""), ("a", "AddV2", "c c"), ("b", "AddV2", "a c"), ("x", "Abs", "c"))
    made = inputs(check_rewrite(CounterBarrier((("x",), ("a",))), item))
    assert made["a"][2].startswith("^tfwave/")


def test_groups_in_another_order_than_the_graphs_are_refused() -> None:
    with pytest.raises(
        GraphError, match="node 'after' of group 0 waits for nodes of group 1: order the groups"
    ):
        CounterBarrier((("after",), ("x",)))(layer())
