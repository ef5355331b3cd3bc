"""Events of a Chrome/Perfetto trace (open it at ui.perfetto.dev), of measured and of simulated steps."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """Where an event is shown: a process by its title, and a thread of it."""

    process: str
    thread: int = 0


def span(
    row: Row, name: str, begin_seconds: float, seconds: float, args: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Something that lasts."""
    event = {
        "ph": "X",
        "pid": row.process,
        "tid": row.thread,
        "name": name,
        "ts": begin_seconds * 1e6,
        "dur": seconds * 1e6,
    }
    return event | {"args": dict(args)} if args else event


def trace_text(events: Iterable[Mapping[str, Any]]) -> str:
    """The JSON document of a trace."""
    return json.dumps({"traceEvents": list(events), "displayTimeUnit": "ms"})
