"""Partition graphs with one traced step, in which each transfer takes 1 ms for each 1000 bytes."""

from collections.abc import Mapping, Sequence

from tfwave.bundle.bundle import BUNDLE_VERSION, Bundle, Manifest, StepSummary
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef, StepStats


def traced(graphs: Sequence[GraphDef], sizes: Mapping[str, int]) -> Bundle:
    """A bundle; `sizes` by source node, and each op takes 10 us."""
    view = GraphView.of(*graphs)
    stats = StepStats()
    devices = {d: stats.dev_stats.add(device=d) for d in sorted({n.device for n in view.nodes})}
    for node in view.nodes:
        event = devices[node.device].node_stats.add(node_name=node.name, all_start_micros=1_000_000)
        event.op_end_rel_micros = event.all_end_rel_micros = 10
    clock: dict[object, int] = {}
    for transfer in find_transfers(view).data:
        size = sizes[transfer.key.node]
        clock[transfer.channel] = clock.get(transfer.channel, 0) + size
        _arrive(devices[transfer.channel.destination], transfer, size, clock[transfer.channel])
    manifest = Manifest(
        version=BUNDLE_VERSION,
        tfwave="0",
        tensorflow="2",
        target="grpc://localhost:1",
        devices=sorted(devices),
        fetches=[],
        warmup_steps=1,
        steps=[StepSummary(seconds=0.04, missing_transfers=0)],
    )
    return Bundle(manifest, tuple(graphs), (stats,))


def _arrive(at: object, transfer: Transfer, size: int, micros: int) -> None:
    event = at.node_stats.add(node_name="RecvTensor", all_start_micros=1_000_000)  # type: ignore[attr-defined]
    event.all_end_rel_micros = micros
    ends = transfer.channel
    event.timeline_label = f"[{size}B] [rate] {transfer.edge} from {ends.source} to {ends.destination}"
    event.output.add().tensor_description.allocation_description.requested_bytes = size
