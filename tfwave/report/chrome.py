"""Traced steps as a Chrome/Perfetto trace (open it at ui.perfetto.dev)."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfwave.bundle.step_stats import transfer_records
from tfwave.proto.tensorflow_pb2 import StepStats
from tfwave.sim.chrome import Row, span, trace_text


def chrome_trace(steps: Mapping[str, StepStats]) -> str:
    """One process a step and device, threads as TensorFlow's, transfers on rows of their own channel."""
    return trace_text(event for name, stats in steps.items() for event in _events(name, stats))


def _events(name: str, stats: StepStats) -> Iterator[dict[str, Any]]:
    origin = min((e.all_start_micros for d in stats.dev_stats for e in d.node_stats), default=0)
    for device in stats.dev_stats:
        for event in device.node_stats:
            if event.node_name == "RecvTensor":
                continue
            start, seconds = event.all_start_micros - origin, event.all_end_rel_micros / 1e6
            row = Row(f"{name}: {device.device}", event.thread_id)
            yield span(row, event.node_name, start / 1e6, seconds)
    for record in transfer_records(stats):
        seconds = record.end_seconds - record.start_seconds
        row = Row(f"{name}: transfers {record.channel}")
        yield span(row, record.edge, record.start_seconds, seconds, {"bytes": record.bytes})
