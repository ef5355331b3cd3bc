"""What streams ask of a pool, in the order in which the host does."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Allocate:
    """A stream asks for bytes (at least 1); the name is unique among what is allocated at one time."""

    name: str
    stream: int
    size: int


@dataclass(frozen=True)
class Free:
    """The host is done with an allocation; the work of its stream on it may still be running."""

    name: str


@dataclass(frozen=True)
class Synchronise:
    """All streams have done their work, as at the end of a step."""


Event = Allocate | Free | Synchronise


def streams_of(trace: Iterable[Event]) -> list[int]:
    """The streams that ask for bytes, in ascending order."""
    return sorted({event.stream for event in trace if isinstance(event, Allocate)})
