"""What a captured step holds in memory, from traces by hand."""

import random
from dataclasses import replace

import pytest

from tests.bundles import SERVER, small_bundle
from tests.graphs import WORKER
from tests.memory_steps import DEVICE, ORIGIN, Step, bundle_of, declare, graph
from tfwave.bundle.memory import captured_memory
from tfwave.errors import BundleError
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.step import Shape, StepMemory, Tensor
from tfwave.proto.tensorflow_pb2 import GraphDef, StepStats


def memory_of(made: GraphDef, step: Step, *fetches: str) -> StepMemory:
    return captured_memory(bundle_of([made], step.stats, fetches=fetches)).memory


def deltas(memory: StepMemory) -> list[tuple[str, int, int, int]]:
    return [(op.node, op.takes, op.scratch, op.gives) for op in memory.profile.ops]


def test_what_an_op_makes_in_place_shares_its_input() -> None:
    made = graph(("a", "Fill", []), ("b", "Relu", ["a"]), ("c", "Sum", ["b"]), ("d", "Neg", ["c"]))
    step = Step()
    step.run("a", 0, (100, 1, 1), allocated=[100], freed=[(24, 100)])
    step.run("b", 10, (100, 1, 1))
    step.run("c", 20, (30, 2, 1), allocated=[30], freed=[(34, 30)])
    step.run("d", 30, (30, 1, 1), allocated=[30], freed=[(35, 30)])
    memory = memory_of(made, step)
    assert deltas(memory) == [("a", 100, 0, 0), ("b", 0, 0, 0), ("c", 30, 0, 100), ("d", 30, 0, 60)]
    assert memory.profile.device == DEVICE
    assert memory.profile.peak == 130
    assert memory.profile.resident == 0
    assert memory.tensors == (
        Tensor(("a:0", "b:0"), 100, 0, 2, 2),
        Tensor(("c:0",), 30, 2, 3, 3),
        Tensor(("d:0",), 30, 3, 3, 3),
    )


@pytest.mark.parametrize(("most", "scratch"), [(None, 50), (120, 20), (100, 0)])
def test_scratch_is_what_was_held_at_once_beside_the_outputs(most: int | None, scratch: int) -> None:
    step = Step()
    freed = [(2, 30), (3, 20), (5, 100)]
    step.run("a", 0, (100, 1), allocated=[30, 20, 100], freed=freed, most=most)
    memory = memory_of(graph(("a", "Fill", [])), step)
    assert deltas(memory) == [("a", 100, scratch, 100)]
    assert memory.profile.peak == 100 + scratch


def test_scratch_is_as_said_where_nothing_was_recorded() -> None:
    step = Step()
    step.run("a", 0, (100, 1), scratch=40)
    assert deltas(memory_of(graph(("a", "Conv2D", [])), step)) == [("a", 100, 40, 100)]


def test_what_is_fetched_outlives_the_step() -> None:
    made = graph(
        ("a", "Fill", []), ("b", "Iterator", []), ("out", "_Retval", ["b"]), ("c", "Neg", ["a", "b"])
    )
    step = Step()
    step.run("a", 0, (100, 1), allocated=[100])
    step.run("b", 10, (50, 2))
    step.run("out", 20)
    step.run("c", 30, (7, 3))
    memory = memory_of(made, step)
    assert deltas(memory) == [("a", 100, 0, 0), ("b", 50, 0, 0), ("out", 0, 0, 0), ("c", 7, 0, 7)]
    assert [t.dies for t in memory.tensors] == [None, None, 3]
    assert deltas(memory_of(made, step, "c:0"))[-1] == ("c", 7, 0, 0)


def test_variables_constants_and_what_is_fed_are_resident() -> None:
    made = graph(
        ("v", "VarHandleOp", []),
        ("slot", "VarHandleOp", []),
        ("same", "Identity", ["slot"]),
        ("read", "ReadVariableOp", ["v"]),
        ("again", "ReadVariableOp", ["v"]),
        ("c", "Const", []),
        ("x", "_Arg", []),
        ("use", "AddN", ["read", "again", "c", "x"]),
        ("update", "ResourceApplyMomentum", ["v", "same", "use"]),
    )
    declare(declare(made, "v", 10), "slot", 3, 5)
    step = Step()
    step.run("v", 0, (200, 11))
    step.run("slot", 1, (200, 12))
    step.run("read", 10, (1024, 1))
    step.run("again", 20, (1024, 1))
    step.run("c", 30, (8, 2))
    step.run("x", 31, (300, 3))
    step.run("use", 40, (40, 4), allocated=[40], freed=[(54, 40)])
    step.run("update", 50)
    memory = memory_of(made, step)
    assert memory.profile.resident == 200 + 200 + 1024 + 8 + 300 + 4 * 3 * 5
    assert [t.names for t in memory.tensors] == [("use:0",)]
    assert memory.profile.peak == memory.profile.resident + 40


def test_a_copy_of_a_variable_is_a_tensor_as_any_other() -> None:
    made = declare(graph(("v", "VarHandleOp", []), ("read", "ReadVariableOp", ["v"])), "v", 10)
    step = Step()
    step.run("read", 0, (40, 1), allocated=[40], freed=[(5, 40)])
    memory = memory_of(made, step)
    assert deltas(memory) == [("read", 40, 0, 40)]
    assert memory.profile.resident == 40


def test_what_a_list_keeps_is_held_until_it_is_freed() -> None:
    made = graph(
        ("a", "Fill", []),
        ("push", "TensorListPushBack", ["a"]),
        ("other", "Fill", []),
        ("pop", "TensorListPopBack", ["push"]),
        ("use", "Neg", ["pop"]),
        ("end", "NoOp", ["^use"]),
    )
    step = Step()
    step.run("a", 0, (100, 1, 1), allocated=[100], freed=[(44, 100)])
    step.run("push", 10, (8, 2, 1), allocated=[8, 64], freed=[(34, 8), (35, 64)], lasts=3)
    step.run("other", 20, (500, 3, 1), allocated=[500], freed=[(25, 500)])
    step.run("pop", 30, (100, 1, 1))
    step.run("use", 40, (100, 5, 2), allocated=[100], freed=[(45, 100)])
    step.run("end", 50)
    memory = memory_of(made, step)
    assert memory.tensors == (
        Tensor(("a:0", "pop:0"), 100, 0, 4, 4),
        Tensor(("push:0",), 8, 1, 3, 3),
        Tensor(("push",), 64, 1, 1, 3),
        Tensor(("other:0",), 500, 2, 2, 2),
        Tensor(("use:0",), 100, 4, 4, 4),
    )
    assert memory.profile.peak == 672


def test_what_takes_the_place_of_a_variables_value_is_scratch() -> None:
    made = declare(graph(("v", "VarHandleOp", []), ("update", "AssignSubVariableOp", ["v"])), "v", 25)
    step = Step()
    step.run("update", 0, allocated=[100])
    memory = memory_of(made, step)
    assert (deltas(memory), memory.profile.resident) == ([("update", 0, 100, 0)], 100)


@pytest.mark.parametrize("numbers", [(1, 1), (7, 9)])
def test_an_address_is_used_again(numbers: tuple[int, int]) -> None:
    made = graph(("a", "Fill", []), ("b", "Neg", ["a"]), ("c", "Fill", ["^b"]), ("d", "Neg", ["c"]))
    step = Step()
    step.run("a", 0, (100, 1, numbers[0]), allocated=[100], freed=[(14, 100)])
    step.run("b", 10, (10, 2), allocated=[10], freed=[(15, 10)])
    step.run("c", 20, (100, 1, numbers[1]), allocated=[100], freed=[(34, 100)])
    step.run("d", 30, (10, 2), allocated=[10], freed=[(35, 10)])
    memory = memory_of(made, step)
    assert [op.net for op in memory.profile.ops] == [100, -100, 100, -100]
    assert memory.profile.peak == 110


def test_a_call_may_make_its_output_where_something_was_freed() -> None:
    made = graph(("a", "Fill", []), ("b", "Neg", ["a"]), ("call", "PartitionedCall", ["^b"]))
    step = Step()
    step.run("a", 0, (100, 1, 1), allocated=[100], freed=[(14, 100)])
    step.run("b", 10, (10, 2), allocated=[10], freed=[(15, 10)])
    step.run("call", 20, (100, 1, 1))
    assert deltas(memory_of(made, step))[-1] == ("call", 100, 0, 100)


def test_calls_make_their_outputs_anew() -> None:
    made = graph(("a", "PartitionedCall", []), ("b", "PartitionedCall", ["^a"]), ("c", "Identity", ["b"]))
    step = Step()
    step.run("a", 0, (100, 1, 5), scratch=1)
    step.run("b", 10, (100, 1, 9))
    step.run("c", 20, (100, 1, 9))
    assert deltas(memory_of(made, step)) == [("a", 100, 1, 100), ("b", 100, 0, 0), ("c", 0, 0, 100)]


def test_an_input_of_a_loop_may_be_gone_and_its_address_taken() -> None:
    made = graph(("a", "Fill", []), ("b", "Mul", ["a"]), ("c", "Neg", ["b"]))
    step = Step()
    step.run("a", 0, (100, 1, 1), allocated=[100], freed=[(14, 100)])
    step.run("b", 10, (100, 2, 1), allocated=[100], freed=[(24, 100)])
    step.run("c", 20, (1, 9), allocated=[1])
    step.run("b", 30, (100, 1, 1), allocated=[100], freed=[(34, 100)])
    assert [op.takes for op in memory_of(made, step).profile.ops] == [100, 100, 1, 100]


def test_of_several_buffers_of_one_size_that_read_last_is_freed_last() -> None:
    made = graph(("a", "Split", []), ("b", "Neg", ["a:1"]), ("c", "Neg", ["a"]), ("d", "NoOp", ["^c"]))
    step = Step()
    freed = [(24, 100), (1, 100), (14, 100)]
    step.run("a", 0, (100, 1), (100, 2), allocated=[100, 100, 100], freed=freed, most=300)
    step.run("b", 10, (1, 3), allocated=[1])
    step.run("c", 20, (1, 4), allocated=[1])
    step.run("d", 30)
    memory = memory_of(made, step)
    assert deltas(memory)[0] == ("a", 200, 100, 0)
    assert {t.names: t.dies for t in memory.tensors[:2]} == {("a:1",): 1, ("a:0",): 2}


@pytest.mark.parametrize(("begin", "freed", "dies"), [(9_999, 9, 1), (9_000, 9, 1), (10_000, 9, 0)])
def test_a_free_is_known_to_the_microsecond_and_the_last_reader_tells_the_rest(
    begin: int, freed: int, dies: int
) -> None:
    made = graph(("a", "Fill", []), ("b", "Neg", ["a"]), ("c", "NoOp", []))
    step = Step()
    step.run("a", 0, (100, 1), allocated=[100], freed=[(freed, 100)])
    step.run("b", 10, (10, 2), allocated=[10])
    step.stats.dev_stats[0].node_stats[-1].all_start_nanos = ORIGIN * 1000 + begin
    step.run("c", 10)
    tensor = memory_of(made, step).tensors[0]
    assert (tensor.read, tensor.dies) == (dies, dies)


def test_the_reader_of_another_turn_of_a_loop_keeps_nothing() -> None:
    made = graph(("a", "Fill", []), ("b", "Neg", ["a"]))
    step = Step()
    step.run("a", 0, (100, 1, 1), allocated=[100], freed=[(44, 100)])
    step.run("a", 10, (100, 2, 2), allocated=[100], freed=[(34, 100)])
    step.run("b", 30, (10, 3, 3), allocated=[10])
    step.run("b", 40, (10, 4, 4), allocated=[10])
    memory = memory_of(made, step)
    assert [(t.bytes, t.read, t.dies) for t in memory.tensors[:2]] == [(100, 0, 3), (100, 2, 2)]
    assert [held for held, _ in memory.held] == [0, 100, 200, 110]


def test_nothing_is_free_while_another_op_runs_beside_it() -> None:
    made = graph(("a", "Fill", []), ("b", "Neg", ["a"]), ("c", "Fill", []), ("d", "NoOp", []))
    step = Step()
    step.run("a", 0, (100, 1), allocated=[100], freed=[(30, 100)])
    step.run("b", 10, lasts=20)
    step.run("c", 15, (50, 3), allocated=[50], freed=[(21, 50)])
    step.run("d", 35)
    memory = memory_of(made, step)
    assert [(t.read, t.dies) for t in memory.tensors] == [(1, 2), (2, 2)]
    assert memory.profile.peak == 150


def test_scratch_counts_beside_what_begins_before_its_op_ends() -> None:
    made = graph(*((name, "Conv2D", []) for name in "abcd"))
    step = Step()
    step.run("a", 0, scratch=100, lasts=20)
    step.run("b", 10, scratch=10, lasts=30)
    step.run("c", 20, (7, 1), allocated=[7], freed=[(24, 7)])
    step.run("d", 50, scratch=1)
    memory = memory_of(made, step)
    assert [op.beside for op in memory.profile.ops] == [0, 100, 10, 0]
    assert memory.profile.peak == 110
    levels = [(0, 100), (10, 110), (20, 17), (25, 10), (40, 0), (50, 1), (55, 0)]
    assert memory.curve == tuple((pytest.approx(at / 1e6), held) for at, held in levels)


def test_scratch_is_held_at_once_by_all_ops_that_run() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        step = Step()
        spans: list[tuple[int, int, int]] = []
        for i, begin in enumerate(sorted(rng.sample(range(100), rng.randint(1, 12)))):
            spans.append((begin, begin + rng.randint(1, 40), rng.randint(1, 99)))
            step.run(f"n{i}", begin, scratch=spans[-1][2], lasts=spans[-1][1] - begin)
        memory = memory_of(graph(*((f"n{i}", "Conv2D", []) for i in range(len(spans)))), step)
        held = {at: sum(size for b, e, size in spans if b <= at < e) for span in spans for at in span[:2]}
        origin = spans[0][0]
        assert memory.profile.peak == max(held.values()), seed
        assert {round(at * 1e6) + origin: level for at, level in memory.curve} == held, seed


def test_an_op_of_a_loop_allocates_in_each_run() -> None:
    made = graph(("merge", "Merge", ["enter", "next"]), ("enter", "Enter", []), ("next", "Mul", ["merge"]))
    step = Step()
    step.run("enter", 0, (10, 1), allocated=[10], freed=[(24, 10)])
    step.run("merge", 10, (10, 1))
    step.run("next", 20, (10, 2), allocated=[10], freed=[(44, 10)])
    step.run("merge", 30, (10, 2))
    step.run("next", 40, (10, 1), allocated=[10])
    memory = memory_of(made, step)
    assert [(t.names, t.born, t.dies) for t in memory.tensors] == [
        (("enter:0", "merge:0"), 0, 2),
        (("next:0", "merge:0"), 2, 4),
        (("next:0",), 4, None),
    ]


def test_what_arrives_is_held_until_it_has_been_read() -> None:
    bundle = small_bundle()
    step = Step(StepStats.FromString(bundle.steps[0].SerializeToString()), WORKER)
    bundle = replace(bundle, steps=(step.stats,))
    for of_device in bundle.steps[0].dev_stats:
        for event in of_device.node_stats:
            if event.node_name == "b":
                event.all_start_micros += 100_000
                event.memory_stats.temp_memory_size = 5
    memory = captured_memory(bundle, WORKER).memory
    assert [op.node for op in memory.profile.ops] == ["a", "grad", "recv1", "recv2", "recv3", "b"]
    assert {t.names: (t.bytes, t.dies) for t in memory.tensors} == {
        ("recv1:0",): (100, 2),
        ("recv2:0",): (1_000_000, 3),
        ("recv3:0",): (2_000_000, 5),
    }
    assert memory.profile.peak == 2_000_005


def test_what_arrived_and_is_passed_on_is_held_once() -> None:
    made = graph(("recv1", "_Recv", []), ("same", "Identity", ["recv1"]), ("use", "Neg", ["recv1", "same"]))
    for key, value in (("send_device", SERVER), ("recv_device", DEVICE), ("tensor_name", "edge_1_v")):
        made.node[0].attr[key].s = value.encode()
    step = Step()
    step.run("same", 10, (1000, 5))
    step.run("use", 20, (1000, 6), allocated=[1000], freed=[(25, 1000)])
    arrival = step.stats.dev_stats.add(device=DEVICE).node_stats.add(node_name="RecvTensor")
    arrival.all_start_micros, arrival.all_end_rel_micros = 1_000_000_000, 5
    arrival.timeline_label = f"[1000B] edge_1_v from {SERVER} to {DEVICE}"
    arrival.output.add().tensor_description.allocation_description.requested_bytes = 1000
    memory = memory_of(made, step)
    assert memory.tensors == (
        Tensor(("recv1:0", "same:0"), 1000, 0, 2, 2),
        Tensor(("use:0",), 1000, 2, 2, 2),
    )


def test_the_step_with_the_highest_peak_counts() -> None:
    steps = [Step(), Step(), Step(), Step()]
    for step, size in zip(steps, (10, 30, 30, 20), strict=True):
        step.run("a", 0, (size, 1), allocated=[size])
    made = graph(("a", "Fill", []))
    found = captured_memory(bundle_of([made], *(s.stats for s in steps)))
    assert (found.step, found.memory.profile.peak) == (1, 30)


def test_what_others_hold_is_what_the_pool_counts_besides() -> None:
    step = Step()
    for at, node, others in ((0, "a", 1000), (10, "b", 1000), (20, "c", 1030)):
        step.run(node, at, (10, at + 1), allocated=[10])
        step.stats.dev_stats[0].node_stats[-1].memory[0].allocator_bytes_in_use = others + 10 + at
    step.run("d", 30)
    made = graph(*((name, "Fill", []) for name in "abcd"))
    assert captured_memory(bundle_of([made], step.stats)).others == 1000
    step = Step()
    step.run("a", 0, (10, 1), allocated=[10])
    found = captured_memory(bundle_of([made], step.stats))
    assert (found.others, found.peak) == (None, 10)


def test_what_is_fed_and_used_where_it_lies_is_not_in_the_pool() -> None:
    step = Step()
    step.run("fed", 0, (400, 2))
    step.run("a", 10, (10, 1), allocated=[10])
    step.stats.dev_stats[0].node_stats[-1].memory[0].allocator_bytes_in_use = 10
    found = captured_memory(
        bundle_of([graph(("fed", "Placeholder", []), ("a", "Fill", ["fed"]))], step.stats)
    )
    assert (found.memory.profile.resident, found.others, found.peak) == (400, -400, 10)


def test_what_began_beside_an_op_is_no_others() -> None:
    step = Step()
    step.run("a", 0, (10, 1), allocated=[10], lasts=20)
    step.run("b", 10, (50, 2), allocated=[50])
    step.stats.dev_stats[0].node_stats[0].memory[0].allocator_bytes_in_use = 1060
    found = captured_memory(bundle_of([graph(("a", "Fill", []), ("b", "Fill", []))], step.stats))
    assert (found.others, found.peak) == (1000, 1060)


def test_ops_that_began_at_once_are_ordered_by_name() -> None:
    step = Step()
    for name in ("c", "a", "b"):
        step.run(name, 0, (1, 1), allocated=[1])
    memory = memory_of(graph(*((name, "Fill", []) for name in "abc")), step)
    assert [op.node for op in memory.profile.ops] == ["a", "b", "c"]


def test_what_tells_nothing_is_refused() -> None:
    with pytest.raises(BundleError, match="tell nothing of memory: capture the job again"):
        captured_memory(small_bundle())
    one, two = Step(), Step(device=DEVICE.replace("CPU:0", "CPU:1"))
    for step in (one, two):
        step.run("a", 0, (10, 1), allocated=[10])
    one.stats.dev_stats.extend(two.stats.dev_stats)
    bundle = bundle_of([graph(("a", "Fill", []))], one.stats)
    with pytest.raises(
        BundleError, match=r"2 devices were traced: choose one with --device: .*CPU:0, .*CPU:1"
    ):
        captured_memory(bundle)
    with pytest.raises(BundleError, match="nothing of the memory of '/x', but of"):
        captured_memory(bundle, "/x")
    assert captured_memory(bundle, two.device).memory.profile.peak == 10


def by_hand(*ops: tuple[int, ...], resident: int = 0) -> StepMemory:
    """Ops of a second each, a second apart."""
    made = tuple(OpMemory(f"n{i}", *op) for i, op in enumerate(ops))
    begins = tuple(2.0 * i for i in range(len(ops)))
    profile = MemoryProfile(DEVICE, made, resident)
    return StepMemory(profile, (), begins, tuple(begin + 1 for begin in begins))


def test_the_curve_counts_scratch_while_an_op_runs() -> None:
    memory = by_hand((10, 5, 0), (20, 0, 10), (0, 0, 20), resident=100)
    assert memory.curve == ((0.0, 115), (1.0, 110), (2.0, 130), (3.0, 120), (4.0, 120), (5.0, 100))
    assert (memory.peak_op, memory.profile.peak, memory.seconds) == (1, 130, 5.0)
    assert memory.average == pytest.approx((115 + 110 + 130 + 120 + 120) / 5)


def test_the_curve_counts_scratch_beside_the_next_op() -> None:
    memory = by_hand((10, 5, 0), (20, 0, 10, 5))
    memory = replace(memory, ends=(2.5, 3.0))
    assert memory.curve == ((0.0, 15), (2.0, 35), (2.5, 30), (3.0, 20))
    assert (memory.peak_op, memory.profile.peak) == (1, 35)
    assert memory.average == pytest.approx((2 * 15 + 35 / 2 + 30 / 2) / 3)


@pytest.mark.parametrize(
    ("ops", "rise", "drop"),
    [
        ([(10, 0, 0), (10, 0, 0), (0, 0, 10), (0, 0, 10)], 1.0, 1.0),
        ([(10, 0, 0), (10, 0, 0), (10, 0, 20), (0, 0, 10)], 1.0, 1.0),
        ([(20, 0, 0), (0, 0, 10), (20, 0, 0), (0, 0, 20), (5, 0, 0), (0, 0, 15)], 0.75, 1 - 5 / 35),
        ([], 1.0, 1.0),
    ],
)
def test_the_shape_of_a_curve(ops: list[tuple[int, int, int]], rise: float, drop: float) -> None:
    memory = by_hand(*ops or [(0, 0, 0)])
    shape = memory.shape
    assert (shape.rise, shape.drop) == (pytest.approx(rise), pytest.approx(drop))
    if ops:
        assert shape.over_average == pytest.approx(memory.profile.peak / memory.average)
        assert shape.peak_at == memory.begins[memory.peak_op] / memory.seconds
    else:
        assert shape == Shape(1.0, 0.0, 1.0, 1.0)
