"""A timeline as a file, to be compared with others."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tfwave.errors import TfwaveError
from tfwave.files import first_fault, read_file, write_whole
from tfwave.sim.timeline import Interval, Timeline

TIMELINE_VERSION = 1
_KIND = "tfwave timeline"

_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def save_timeline(timeline: Timeline, path: Path) -> None:
    """Write a timeline as JSON, without its memory; one timeline, one sequence of bytes.

    Raises:
        TfwaveError: the place cannot be written.
    """
    document = {
        "kind": _KIND,
        "version": TIMELINE_VERSION,
        "makespan_seconds": timeline.makespan_seconds,
        "servers": dict(sorted(timeline.servers.items())),
        "intervals": [asdict(interval) for interval in timeline.intervals],
    }
    write_whole(path, (json.dumps(document, indent=1) + "\n").encode())


def load_timeline(path: Path) -> Timeline:
    """Read a timeline.

    Raises:
        TfwaveError: the file cannot be read, is no timeline, is truncated or of another version; names it.
    """
    try:
        document = _Document.model_validate_json(read_file(path))
    except OSError as error:
        raise TfwaveError(f"cannot read timeline '{path}': {error.strerror}") from error
    except ValidationError as error:
        raise TfwaveError(
            f"'{path}' is not a timeline ({first_fault(error)}): give a capture bundle, or what "
            "tfwave simulate --timeline wrote"
        ) from error
    if document.version != TIMELINE_VERSION:
        raise TfwaveError(
            f"timeline '{path}' is of version {document.version}; this tfwave reads {TIMELINE_VERSION}"
        )
    intervals = tuple(sorted(interval.plain() for interval in document.intervals))
    _check(path, intervals, document.servers)
    return Timeline(intervals, document.makespan_seconds, document.servers)


def _check(path: Path, intervals: tuple[Interval, ...], servers: Mapping[str, int]) -> None:
    for interval in intervals:
        if interval.end_seconds < interval.begin_seconds or interval.resource not in servers:
            raise TfwaveError(
                f"timeline '{path}' is damaged: '{interval.name}' ends before it begins, or is on a resource "
                "that is not listed"
            )


class _Interval(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    begin_seconds: _Seconds
    end_seconds: _Seconds
    resource: str
    name: str
    kind: Literal["op", "transfer", "control"]
    bytes: int = Field(ge=0)

    def plain(self) -> Interval:
        return Interval(**self.model_dump())


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["tfwave timeline"]
    version: int
    makespan_seconds: _Seconds
    servers: dict[str, Annotated[int, Field(ge=1)]]
    intervals: list[_Interval]
