"""A small synthetic capture: one worker that pulls from one server and sends a gradient back."""

from collections.abc import Mapping

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.bundle.bundle import BUNDLE_VERSION, Bundle, Manifest, StepSummary, missing_transfers
from tfwave.proto.tensorflow_pb2 import DeviceStepStats, GraphDef, StepStats

SERVER = SERVERS[0]
LATENCY_SECONDS = 100e-6
BYTES_PER_SECOND = 1e8
SIZES = {"v1": 100, "v2": 1_000_000, "v3": 2_000_000, "grad": 50_000}
OPS = ((WORKER, "a"), (WORKER, "b"), (WORKER, "grad"), (SERVER, "apply"))


def small_graphs() -> tuple[GraphDef, ...]:
    """v1, v2 -> a; a, v3 -> b -> grad -> apply on the server."""
    build = Builder()
    pulled = []
    for name in ("v1", "v2", "v3"):
        build.const(SERVER, name)
        pulled.append(build.pair(name, SERVER, WORKER))
    build.op(WORKER, "a", pulled[:2])
    build.op(WORKER, "b", ["a", pulled[2]])
    build.op(WORKER, "grad", ["b"])
    build.op(SERVER, "apply", [build.pair("grad", WORKER, SERVER)])
    for graph in build.partitions.values():
        graph.versions.producer = 1882
    return tuple(build.partitions.values())


def traced_step(op_micros: Mapping[str, int], *, lost: frozenset[str] = frozenset()) -> StepStats:
    """Each op takes what is given; transfers go back to back at the link's speed, less those lost."""
    stats = StepStats()
    devices = {device: stats.dev_stats.add(device=device) for device in (SERVER, WORKER)}
    for device, name in OPS:
        event = devices[device].node_stats.add(node_name=name, all_start_micros=1_000_000)
        event.op_start_rel_micros = 5
        event.op_end_rel_micros = event.all_end_rel_micros = 5 + op_micros[name]
    end = 1_000_000
    for number, name in enumerate(("v1", "v2", "v3"), 1):
        end += round((LATENCY_SECONDS + SIZES[name] / BYTES_PER_SECOND) * 1e6)
        if name not in lost:
            _arrival(devices[WORKER], f"edge_{number}_{name}", (SERVER, WORKER), SIZES[name], end)
    if "grad" not in lost:
        _arrival(devices[SERVER], "edge_4_grad", (WORKER, SERVER), SIZES["grad"], 1_000_600)
    return stats


def _arrival(at: DeviceStepStats, edge: str, ends: tuple[str, str], size: int, end: int) -> None:
    event = at.node_stats.add(node_name="RecvTensor", all_start_micros=1_000_000)
    event.all_end_rel_micros = end - 1_000_000
    event.timeline_label = f"[{size}B] [rate] {edge} from {ends[0]} to {ends[1]}"
    event.output.add().tensor_description.allocation_description.requested_bytes = size


def small_bundle(*, lost: frozenset[str] = frozenset()) -> Bundle:
    """Two steps; the minimum of each op is 1000 us, but for "apply" (100 us)."""
    graphs = small_graphs()
    slow = {"a": 1000, "b": 3000, "grad": 1000, "apply": 100}
    fast = {"a": 2000, "b": 1000, "grad": 4000, "apply": 200}
    steps = (traced_step(slow, lost=lost), traced_step(fast, lost=lost))
    manifest = Manifest(
        version=BUNDLE_VERSION,
        tfwave="0",
        tensorflow="2",
        target="grpc://localhost:1",
        devices=[SERVER, WORKER],
        fetches=["apply:0"],
        warmup_steps=1,
        steps=[StepSummary(seconds=0.04, missing_transfers=m) for m in missing_transfers(graphs, steps)],
    )
    return Bundle(manifest, graphs, steps)
