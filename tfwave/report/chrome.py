"""Traced steps as a Chrome/Perfetto trace (open it at ui.perfetto.dev)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tfwave.capture.step_stats import transfer_records
from tfwave.proto.tensorflow_pb2 import StepStats


def chrome_trace(steps: Mapping[str, StepStats]) -> str:
    """One process a step and device, threads as TensorFlow's, transfers on rows of their own channel."""
    events = [event for name, stats in steps.items() for event in _events(name, stats)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _events(name: str, stats: StepStats) -> Iterator[dict[str, Any]]:
    origin = min((e.all_start_micros for d in stats.dev_stats for e in d.node_stats), default=0)
    for device in stats.dev_stats:
        for event in device.node_stats:
            if event.node_name == "RecvTensor":
                continue
            start, seconds = event.all_start_micros - origin, event.all_end_rel_micros / 1e6
            yield _event(f"{name}: {device.device}", event.thread_id, event.node_name, start / 1e6, seconds)
    for record in transfer_records(stats):
        seconds = record.end_seconds - record.start_seconds
        row = f"{name}: transfers {record.channel}"
        yield _event(row, 0, record.edge, record.start_seconds, seconds) | {"args": {"bytes": record.bytes}}


def _event(process: str, thread: int, name: str, start_seconds: float, seconds: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": start_seconds * 1e6,
        "dur": seconds * 1e6,
    }
