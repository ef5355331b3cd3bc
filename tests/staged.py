"""Captures of steps with embedding tables, by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfwave.staging.capture import Capture, CapturedBatch, CapturedTable, Part, packed


def whole(name: str, rows: int, columns: int, server: int = 0, slots: int = 1) -> CapturedTable:
    part = Part(rows=rows, columns=columns, server=server)
    return CapturedTable(name=name, layout="whole", parts=(part,), slots=slots)


def captured(
    tables: Sequence[CapturedTable],
    batches: Sequence[Mapping[str, Any]],
    seconds: tuple[float, float] = (0.04, 0.01),
    dense_bytes: tuple[int, ...] = (),
) -> Capture:
    """`batches` have the ids of each table; `seconds` are of a step and of servers."""
    found = [
        CapturedBatch(
            ids={table: np.size(ids) for table, ids in batch.items()},
            rows={table: packed(np.unique(ids)) for table, ids in batch.items()},
        )
        for batch in batches
    ]
    step, server = seconds
    return Capture(
        tables=tuple(tables),
        batches=tuple(found),
        dense_bytes=dense_bytes,
        step_seconds=step,
        server_seconds=server,
    )
