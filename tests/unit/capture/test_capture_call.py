"""The trace of a function's step, told as that of a session's; and which functions have none."""

from pathlib import Path

import pytest

from tests.memory_steps import DEVICE, bundle_of, graph
from tfwave.bundle.memory import CapturedMemory, captured_memory
from tfwave.capture.call import _on_one_cpu, capture_function
from tfwave.capture.memory.told import step_stats
from tfwave.capture.memory.traced import traced_memory
from tfwave.errors import BundleError
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.trace.memory import Allocation, MemoryTrace
from tfwave.runtime.trace.xplane import OpRun

STEP, BESIDE = 3, 1000
GRAPH = graph(("v", "_Arg", []), ("a", "Neg", ["v"]), ("b", "Neg", ["a"]), ("c", "Neg", ["b"]))
OPS = tuple(OpRun(STEP, node, "Neg", at, 1e-3) for node, at in (("a", 0.1), ("b", 0.2), ("c", 0.3)))
MADE = (
    Allocation(STEP, "a", 512, 0.1001, 0.21),
    Allocation(STEP, "b", 256, 0.2001, 0.2002),
    Allocation(STEP, "b", 768, 0.2003),
)


def told(*others: tuple[float, int], ops: tuple[OpRun, ...] = OPS) -> CapturedMemory:
    trace = MemoryTrace(ops, MADE, others, ((0.1, BESIDE + 64 + 512),))
    return captured_memory(bundle_of([GRAPH], step_stats(trace, GRAPH, {"v": 64})))


def test_it_tells_what_the_trace_does() -> None:
    found = told()
    profile = traced_memory(MemoryTrace(OPS, MADE, ()), {"a", "b", "c"}, DEVICE, 64).profile
    assert (found.memory.profile.device, found.memory.profile.resident) == (DEVICE, 64)
    assert list(found.memory.profile.ops[1:]) == list(profile.ops)
    assert found.memory.profile.peak == profile.peak == 64 + 512 + 256 + 768
    assert [(tensor.names, tensor.bytes) for tensor in found.memory.tensors] == [
        (("a:0",), 512),
        (("b:0",), 768),
    ]


def test_arguments_that_are_traced_run_once() -> None:
    assert told(ops=(OpRun(STEP, "v", "_Arg", 0.05, 1e-6), *OPS)) == told()


def test_a_variables_new_value_is_held_beside_the_old_one_until_that_is_freed() -> None:
    """Case 2: then it takes its place. Case 4: where that is larger, it was there when the first op began."""
    after = [held for _, held in told((0.31, 768)).memory.held]
    assert after == [64, 64 + 512, 64 + 768, 64]
    assert told((0.31, 768)).memory.curve[-1][1] == 64
    larger = told((0.31, 800)).memory
    assert larger.profile.peak == 64 + 800 + 512 + 256 + 768
    assert larger.curve[-1][1] == 64 + 768


def test_what_lies_in_the_buffer_of_an_input_is_told_by_the_graph() -> None:
    """A view leaves no event; b goes on in its buffer, and d, which is the last to read it."""
    shared = graph(
        ("v", "_Arg", []),
        ("a", "Neg", ["v"]),
        ("view", "Reshape", ["a", "v"]),
        ("b", "Neg", ["view"]),
        ("c", "Neg", ["b"]),
        ("d", "Neg", ["b"]),
        ("e", "AddN", ["c", "d"]),
    )
    at = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "e": 0.5}
    ops = tuple(OpRun(STEP, node, "Neg", begin, 1e-3) for node, begin in at.items())
    made = Allocation(STEP, "a", 512, 0.1001, 0.45), Allocation(STEP, "c", 256, 0.3001, 0.6)
    stats = step_stats(MemoryTrace(ops, made, ()), shared, {"v": 64})
    tensors = captured_memory(bundle_of([shared], stats)).memory.tensors
    assert [tensor.names for tensor in tensors] == [("a:0", "view:0", "b:0", "d:0"), ("c:0",)]
    places = ["a", "view", "b", "c", "d", "e"]
    assert [[places[use - 1] for use in tensor.uses] for tensor in tensors] == [
        ["a", "view", "b", "c", "d", "e"],
        ["c", "e"],
    ]


def test_slices_lie_in_the_buffer_that_they_are_of_whoever_else_reads_it() -> None:
    """But the one that is a copy."""
    shared = graph(
        ("v", "_Arg", []),
        ("axis", "Neg", ["v"]),
        ("a", "Neg", ["v"]),
        ("row", "StridedSlice", ["a", "axis", "axis", "axis"]),
        ("halves", "Split", ["axis", "a"]),
        ("rows", "Unpack", ["a"]),
        ("copy", "Slice", ["a", "axis", "axis"]),
        ("late", "AddN", ["row", "halves", "halves:1", "rows", "rows:1", "copy"]),
        ("end", "AddN", ["late", "axis"]),
    )
    names = ("axis", "a", "row", "halves", "rows", "copy", "late", "end")
    ops = tuple(OpRun(STEP, node, "Neg", place / 10, 1e-3) for place, node in enumerate(names))
    made = tuple(
        Allocation(STEP, node, size, names.index(node) / 10 + 1e-4, freed)
        for node, size, freed in (
            ("axis", 64, 0.75),
            ("a", 512, 0.65),
            ("copy", 256, 0.65),
            ("late", 128, 0.75),
        )
    )
    stats = step_stats(MemoryTrace(ops, made, ()), shared, {"v": 64})
    tensors = captured_memory(bundle_of([shared], stats)).memory.tensors
    assert [tensor.names for tensor in tensors] == [
        ("axis:0",),
        ("a:0", "row:0", "halves:0", "halves:1", "rows:0", "rows:1"),
        ("copy:0",),
        ("late:0",),
    ]
    assert [("v", *names)[use] for use in tensors[1].uses] == ["a", "row", "halves", "rows", "copy", "late"]


def test_no_op_goes_on_in_a_buffer_that_others_still_read() -> None:
    made_of = {"x": ["v"], "y": ["v"], "z": ["x", "y"], "w": ["x", "z"]}
    read_later = graph(("v", "_Arg", []), *((name, "AddN", inputs) for name, inputs in made_of.items()))
    ops = tuple(
        OpRun(STEP, node, "AddN", at, 1e-3) for node, at in zip(made_of, (0.1, 0.2, 0.3, 0.4), strict=True)
    )
    made = Allocation(STEP, "x", 512, 0.1001, 0.5), Allocation(STEP, "y", 512, 0.2001, 0.5)
    stats = step_stats(MemoryTrace(ops, made, ()), read_later, {"v": 64})
    tensors = captured_memory(bundle_of([read_later], stats)).memory.tensors
    assert [tensor.names for tensor in tensors] == [("x:0",), ("y:0", "z:0")]


def test_an_op_goes_on_in_its_largest_input_and_not_in_one_that_it_spreads_over_that() -> None:
    """By what was asked for, whatever the pool gave."""
    spread = graph(
        ("v", "_Arg", []),
        ("bias", "Neg", ["v"]),
        ("x", "Neg", ["v"]),
        ("sum", "AddV2", ["bias", "x"]),
        ("y", "Neg", ["sum"]),
    )
    begins = {"bias": 0.1, "x": 0.2, "sum": 0.3, "y": 0.4}
    ops = tuple(OpRun(STEP, node, "Neg", at, 1e-3) for node, at in begins.items())
    made = (
        Allocation(STEP, "bias", 1024, 0.1001, 0.5, asked=64),
        Allocation(STEP, "x", 768, 0.2001, 0.5, asked=512),
        Allocation(STEP, "y", 256, 0.4001, 0.5),
    )
    stats = step_stats(MemoryTrace(ops, made, ()), spread, {"v": 64})
    tensors = captured_memory(bundle_of([spread], stats)).memory.tensors
    assert [(t.names, t.asked) for t in tensors[:2]] == [(("bias:0",), 64), (("x:0", "sum:0"), 512)]


def test_what_a_step_returns_is_told_behind_all_that_it_waits_for() -> None:
    """Also through what leaves no event: a plan would have it run before the update that it waits for."""
    returning = graph(
        ("v", "_Arg", []),
        ("loss", "Neg", ["v"]),
        ("update", "Neg", ["v"]),
        ("all", "NoOp", ["^update"]),
        ("returned", "Identity", ["loss", "^all"]),
        ("retval", "_Retval", ["returned"]),
    )
    ops = tuple(OpRun(STEP, node, "Neg", at, 1e-3) for node, at in (("loss", 0.1), ("update", 0.2)))
    made = (Allocation(STEP, "loss", 512, 0.1001), Allocation(STEP, "update", 512, 0.2001))
    stats = step_stats(MemoryTrace(ops, made, ()), returning, {"v": 64})
    profile = captured_memory(bundle_of([returning], stats)).memory.profile
    assert [op.node for op in profile.ops] == ["v", "loss", "update", "returned"]


def test_a_step_without_ops() -> None:
    with pytest.raises(BundleError, match=r"computes nothing .*: capture one that trains"):
        step_stats(MemoryTrace((), (), ()), GRAPH, {})


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("/job:localhost/replica:0/task:0/device:GPU:0", r"GPU:0: place all of it on one CPU"),
        (f"{DEVICE[:-1]}1", "CPU:0, .*CPU:1: place all of it"),
    ],
)
def test_a_step_on_other_devices_is_refused(device: str, message: str) -> None:
    other = GraphDef.FromString(GRAPH.SerializeToString())
    for node in other.node:
        node.device = device
    with pytest.raises(BundleError, match=message):
        _on_one_cpu([other] if "GPU" in device else [GRAPH, other])


def test_a_place_that_cannot_be_written_is_refused_before_the_step_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BundleError, match="is a file, and a bundle needs a directory"):
        capture_function(None, out=tmp_path / "file")
