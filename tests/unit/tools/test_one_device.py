"""A GPU's step, of which all counts as run on the GPU: its graph, its memory, its times."""

import pytest

from tfwave.bundle.bundle import BUNDLE_VERSION, Bundle, Manifest, StepSummary
from tfwave.bundle.memory import captured_memory
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeExecStats, StepStats
from tools.bench.memory.one_device import COPIES, GPU, KERNELS, on_one_device, overlapped_seconds

CPU = GPU.replace("GPU", "CPU")


def node(graph: GraphDef, name: str, op: str, *inputs: str, device: str = "") -> None:
    graph.node.add(name=name, op=op, device=device, input=inputs)


def own() -> GraphDef:
    """A product, whose sum is fetched; its shape is an integer of the host."""
    graph = GraphDef()
    node(graph, "shape", "Const")
    node(graph, "a", "RandomStandardNormal", "shape")
    node(graph, "b", "Mul", "a", "a")
    node(graph, "loss", "Identity", "b")
    return graph


def parts() -> tuple[GraphDef, GraphDef]:
    """As TensorFlow cuts it: the fetch ends on the CPU, and the shape comes from there."""
    here, there = GraphDef(), GraphDef()
    node(there, "shape", "Const", device=CPU)
    node(there, "loss/_2", "_Recv", device=CPU)
    node(there, "_retval_loss_0_0", "_Retval", "loss/_2", device=CPU)
    for name, op, inputs in (
        ("shape/_1", "_Recv", ()),
        ("a", "RandomStandardNormal", ("shape/_1",)),
        ("b", "Mul", ("a", "a")),
        ("loss", "Identity", ("b",)),
        ("loss/_3", "_Send", ("loss",)),
    ):
        node(here, name, op, *inputs, device=GPU)
    return here, there


def ran(
    stats: StepStats, device: str, name: str, at: int, *, size: int = 0, allocator: str = "GPU_0_bfc"
) -> None:
    """An op that takes 5 us, and gives a new buffer that is freed in 40."""
    of_device = next((d for d in stats.dev_stats if d.device == device), None) or stats.dev_stats.add(
        device=device
    )
    event = of_device.node_stats.add(node_name=name, all_start_micros=at, all_start_nanos=at * 1000)
    event.op_end_rel_nanos = event.all_end_rel_nanos = 5000
    if size:
        told = event.output.add().tensor_description.allocation_description
        told.allocated_bytes, told.allocation_id, told.allocator_name = size, at, allocator
        memory = event.memory.add(allocator_name=allocator, peak_bytes=size, allocator_bytes_in_use=size)
        memory.allocation_records.add(alloc_micros=at, alloc_bytes=size)
        memory.allocation_records.add(alloc_micros=at + 40, alloc_bytes=-size)


def on_gpu(stats: StepStats, where: str, name: str, begin: int, end: int) -> None:
    of_device = next((d for d in stats.dev_stats if d.device == where), None) or stats.dev_stats.add(
        device=where
    )
    event: NodeExecStats = of_device.node_stats.add(node_name=name, all_start_micros=begin)
    event.op_end_rel_micros = event.all_end_rel_micros = end - begin


def traced(*, kernels: bool) -> StepStats:
    stats = StepStats()
    ran(stats, CPU, "shape", 1000, size=64, allocator="cpu")
    ran(stats, CPU, "_retval_loss_0_0", 1090)
    ran(stats, GPU, "a", 1010, size=400)
    ran(stats, GPU, "b", 1020, size=800)
    ran(stats, GPU, "loss", 1030, size=256, allocator="gpu_host_bfc")
    ran(stats, GPU, "loss/_3", 1040)
    if kernels:
        on_gpu(stats, KERNELS, "a:RandomStandardNormal", 1100, 1300)
        on_gpu(stats, KERNELS, "b:Mul", 1300, 1350)
        on_gpu(stats, KERNELS, "b:Mul", 1340, 1400)
    return stats


def bundle(*, kernels: bool = True) -> Bundle:
    manifest = Manifest(
        version=BUNDLE_VERSION,
        tfwave="0",
        tensorflow="2",
        target="",
        devices=[CPU, GPU],
        fetches=["loss:0"],
        warmup_steps=1,
        steps=[StepSummary(seconds=600e-6, missing_transfers=0, core_seconds=1.0)],
        cores=4,
    )
    return Bundle(manifest, parts(), (traced(kernels=kernels),), own())


def test_all_of_the_step_is_on_the_gpu() -> None:
    found = on_one_device(bundle())
    (graph,) = found.graphs
    assert {(n.name, n.device) for n in graph.node} == {(n.name, GPU) for n in own().node}
    (of_device,) = found.steps[0].dev_stats
    assert of_device.device == GPU
    assert [event.node_name for event in of_device.node_stats] == ["shape", "a", "b", "loss"]
    assert found.transfers.data == ()


def test_what_lies_on_the_host_takes_no_memory() -> None:
    captured = captured_memory(on_one_device(bundle()))
    assert captured.memory.profile.peak == 1200
    assert {op.node: op.takes for op in captured.memory.profile.ops} == {
        "shape": 0,
        "a": 400,
        "b": 800,
        "loss": 0,
    }


def test_an_op_takes_as_long_as_its_kernels() -> None:
    (of_device,) = on_one_device(bundle()).steps[0].dev_stats
    assert {e.node_name: e.op_end_rel_nanos for e in of_device.node_stats} == {
        "shape": 5000,
        "a": 200_000,
        "b": 110_000,
        "loss": 5000,
    }


def test_the_gpu_is_busy_while_any_kernel_runs() -> None:
    assert on_one_device(bundle()).manifest.compute_share == pytest.approx(0.5)
    assert on_one_device(bundle(kernels=False)).manifest.compute_share is None


def test_without_kernels_the_times_are_those_of_the_start() -> None:
    (of_device,) = on_one_device(bundle(kernels=False)).steps[0].dev_stats
    assert {e.op_end_rel_nanos for e in of_device.node_stats} == {5000}


def test_copies_beside_kernels_are_hidden() -> None:
    stats = traced(kernels=True)
    assert overlapped_seconds(stats) == (0, 0)
    on_gpu(stats, COPIES, "MemcpyD2H", 1050, 1150)
    on_gpu(stats, COPIES, "MemcpyH2D", 1140, 1200)
    on_gpu(stats, COPIES, "MemcpyH2D", 1380, 1450)
    copied, beside = overlapped_seconds(stats)
    assert copied == pytest.approx(220e-6)
    assert beside == pytest.approx(120e-6)


def test_a_step_whose_graph_is_not_known_stays_as_it_is() -> None:
    unknown = Bundle(bundle().manifest, parts(), bundle().steps)
    assert on_one_device(unknown) is unknown
