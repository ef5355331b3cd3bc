"""What a job runs on: the network card of each task and the threads of each device."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tfwave.cost.analytic import LinkModel
from tfwave.errors import CostError
from tfwave.graph.names import Channel, task_of

UNLIMITED = LinkModel(0.0, math.inf)

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z/]+)")
_BANDWIDTHS = {"bit": 1 / 8, "kbit": 1e3 / 8, "mbit": 1e6 / 8, "gbit": 1e9 / 8, "tbit": 1e12 / 8}
_LATENCIES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, order=True)
class Port:
    """One direction of the network card of a task."""

    task: str
    sends: bool


@dataclass(frozen=True)
class Cluster:
    """Network cards by task, ``/job:ps/replica:0/task:0``, and threads by device; defaults for all others.

    A card sends and receives at its bandwidth at once. By default it never limits: each channel is then a link
    of its own.

    Raises:
        CostError: a device without a thread.
    """

    nic: LinkModel = UNLIMITED
    nics: Mapping[str, LinkModel] = field(default_factory=dict[str, LinkModel])
    threads: int = 1
    device_threads: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        """Refuse a device that could never run an op."""
        for device, threads in {"any device": self.threads, **self.device_threads}.items():
            if threads < 1:
                raise CostError(f"'{device}' has {threads} threads: give it one or more")

    def nic_of(self, task: str) -> LinkModel:
        """The network card of a task."""
        return self.nics.get(task, self.nic)

    def ports(self, channel: Channel) -> tuple[Port, ...]:
        """What a channel shares with others, at its source first: of its two cards those that limit it."""
        ends = (Port(task_of(channel.source), sends=True), Port(task_of(channel.destination), sends=False))
        return tuple(port for port in ends if not math.isinf(self.nic_of(port.task).bytes_per_second))

    def threads_of(self, device: str) -> int:
        """How many ops a device runs at one time."""
        return self.device_threads.get(device, self.threads)

    def latency_seconds(self, channel: Channel) -> float:
        """From one end of a channel to the other: the larger of its two cards' latencies."""
        ends = (channel.source, channel.destination)
        return max(self.nic_of(task_of(device)).latency_seconds for device in ends)


UNSHARED = Cluster()
"""Each channel is a link of its own, and each device runs one op at a time."""


def parse_bandwidth(text: str) -> float:
    """Bytes per second of ``10gbit`` (bit, kbit, mbit, gbit, tbit: powers of 1000, as `tc` counts).

    Raises:
        CostError: not such a number.
    """
    found = _parse(text, _BANDWIDTHS)
    if found is None:
        raise CostError(f"bandwidth '{text}' is malformed: write it as 10gbit, with {', '.join(_BANDWIDTHS)}")
    return found


def parse_latency(text: str) -> float:
    """Seconds of ``50us`` (ns, us, ms, s); ``0`` needs no unit.

    Raises:
        CostError: not such a number.
    """
    found = 0.0 if text.strip() == "0" else _parse(text, _LATENCIES)
    if found is None:
        raise CostError(f"latency '{text}' is malformed: write it as 50us, with {', '.join(_LATENCIES)}")
    return found


def _parse(text: str, units: Mapping[str, float]) -> float | None:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        return None
    amount = float(match[1]) * units[match[2].lower()]
    return amount if math.isfinite(amount) else None
