"""The strings TensorFlow uses for tensors, devices and wire edges, parsed at the border."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tfwave.errors import GraphError, PlanError

CONTROL_PORT = -1

_EDGE = re.compile(r"edge_\d+_(.+)", re.DOTALL)
_TASK = re.compile(r"/job:[^/]+(/replica:\d+)?/task:\d+")
_JOB = re.compile(r"/job:([^/*]+)")
_DEVICE = re.compile(r"/job:([^/]+)/(?:replica:\d+/)?task:(\d+)/device:(.+)")
_DIGITS = re.compile(r"([0-9]{1,18})")
_NUMBER = re.compile(r"[0-9]{1,18}")
_KNOWN_DEVICES = 1 << 14
"""So many names are taken apart once: a graph names few, each of them often."""


class TensorName(NamedTuple):
    """An input of a node: the producing node and its output port; `CONTROL_PORT` for a control edge."""

    node: str
    port: int


def parse_input(text: str) -> TensorName:
    """Split ``node``, ``node:port`` or ``^node``.

    Raises:
        GraphError: empty name, or a port that is not a number.
    """
    if text.startswith("^"):
        node, port = text[1:], CONTROL_PORT
    else:
        node, colon, digits = text.rpartition(":")
        if not colon:
            node, port = text, 0
        elif (number := parse_number(digits)) is not None:
            port = number
        else:
            raise GraphError(f"input '{text}' is malformed: the part after ':' must be an output number")
    if not node or node.startswith("^"):
        raise GraphError(f"input '{text}' is malformed: it names no node")
    return TensorName(node, port)


def parse_number(text: str) -> int | None:
    """A count or an index; None for what is no decimal number, or one that no 64-bit integer holds."""
    return int(text) if _NUMBER.fullmatch(text) else None


def edge_source(edge: str) -> str:
    """The source node of a wire edge: ``edge_85_Read/ReadVariableOp`` -> ``Read/ReadVariableOp``."""
    match = _EDGE.fullmatch(edge)
    return match.group(1) if match else edge


@lru_cache(_KNOWN_DEVICES)
def task_of(device: str) -> str:
    """The task part of a device name, ``/job:ps/replica:0/task:0``; empty if the device names no task."""
    match = _TASK.match(device)
    return match.group(0) if match else ""


def job_of(device: str) -> str:
    """The job that a device name begins with, ``ps``; empty if it names none."""
    match = _JOB.match(device)
    return match[1] if match else ""


def home_of(device: str) -> str:
    """What the devices of one task share, its network card among it: the task; a name without one is its own."""
    return task_of(device) or device


def short_device(device: str) -> str:
    """``/job:ps/replica:0/task:1/device:CPU:0`` as ``ps:1/CPU:0``."""
    return _DEVICE.sub(r"\1:\2/\3", device)


def short_channel(channel: str) -> str:
    """The text of a `Channel`, or of a device, with short devices."""
    return " -> ".join(short_device(end) for end in channel.split(" -> "))


def natural_key(text: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key in which ``conv2`` comes before ``conv10``."""
    parts = _DIGITS.split(text)
    return tuple((0, int(p)) if i % 2 else (1, p) for i, p in enumerate(parts) if p)


@dataclass(frozen=True, order=True)
class Channel:
    """The pair of devices that a transfer crosses."""

    source: str
    destination: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.destination}"


@dataclass(frozen=True, order=True)
class TransferKey:
    """What names a transfer in every run, process and host of one program.

    Edge ids, incarnations and step ids differ between runs; these do not.
    """

    node: str
    port: int
    channel: Channel

    def __str__(self) -> str:
        return f"{self.node}:{self.port};{self.channel.source};{self.channel.destination}"

    @classmethod
    def parse(cls, text: str) -> "TransferKey":
        """The inverse of ``str(key)``.

        Raises:
            PlanError: the text is not a key.
        """
        parts = text.split(";")
        node, _, port = parts[0].rpartition(":")
        number = parse_number(port)
        if len(parts) != 3 or not node or number is None:
            raise PlanError(
                f"transfer key '{text}' is malformed: expected 'node:port;source_device;destination_device'"
            )
        return cls(node, number, Channel(parts[1], parts[2]))
