"""Device names, also partial ones: how TensorFlow parses, merges and matches them."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from tfwave.errors import GraphError
from tfwave.graph.names import natural_key

LOCAL_JOB = "localhost"
CPU = "CPU"
"""The kind of device for which TensorFlow has kernels of all ops."""

_PART = re.compile(
    r"/(?:job:(?P<job>[^/:]+)|replica:(?P<replica>[0-9]{1,9}|\*)|task:(?P<task>[0-9]{1,9}|\*)"
    r"|(?:device:)?(?P<kind>[A-Za-z_][A-Za-z0-9_]*|\*):(?P<number>[0-9]{1,9}|\*))"
)
_CHIEF_JOBS = ("chief", "master", "worker")


class DeviceName(NamedTuple):
    """The parts of a device name; empty where the name leaves a part open."""

    job: str = ""
    replica: str = ""
    task: str = ""
    kind: str = ""
    number: str = ""

    def __str__(self) -> str:
        named = zip(("job", "replica", "task"), self, strict=False)
        text = "".join(f"/{name}:{part}" for name, part in named if part)
        if not self.kind and not self.number:
            return text
        return f"{text}/device:{self.kind or '*'}:{self.number or '*'}"

    @property
    def address(self) -> "DeviceName":
        """The task: what is on it needs no network."""
        return self._replace(kind="", number="")

    def matches(self, full: "DeviceName") -> bool:
        """Does a full name have every part that this one has?"""
        return all(not mine or mine == part for mine, part in zip(self, full, strict=True))

    def agrees_with(self, other: "DeviceName") -> bool:
        """Is there no part in which the two differ?"""
        return all(not mine or not theirs or mine == theirs for mine, theirs in zip(self, other, strict=True))

    def specified_by(self, other: "DeviceName") -> "DeviceName":
        """This name with the parts of `other`, whatever it had there."""
        return DeviceName(*(theirs or mine for mine, theirs in zip(self, other, strict=True)))

    def completed_by(self, other: "DeviceName") -> "DeviceName":
        """This name with the parts of `other` where it leaves them open."""
        return other.specified_by(self)

    def merged(self, other: "DeviceName", *, soft: bool) -> "DeviceName | None":
        """Both names in one; None where they contradict each other.

        With `soft` placement a contradiction in the type opens type and number, one in the number the number.
        """
        if self.agrees_with(other):
            return self.specified_by(other)
        if not soft or not self.address.agrees_with(other.address):
            return None
        both = self.address.specified_by(other.address)
        if self.kind and other.kind and self.kind != other.kind:
            return both
        return both._replace(kind=self.kind or other.kind)


ANY = DeviceName()


@cache
def parse_device(text: str) -> DeviceName:
    """Parse a full or partial name; ``*`` leaves a part open, as does what is not there.

    Raises:
        GraphError: not a device name.
    """
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise GraphError(
                f"'{text}' is not a device name: expected '/job:ps/replica:0/task:1/device:CPU:0' or parts of it"
            )
        found |= {name: part for name, part in match.groupdict().items() if part and part != "*"}
        position = match.end()
    numbers = {part: str(int(found[part])) for part in ("replica", "task", "number") if part in found}
    return DeviceName(**{**found, **numbers, "kind": found.get("kind", "").upper()})


class DeviceSet:
    """The devices of a job, the client's among them, in TensorFlow's order of preference.

    That order: a function's own device, then the devices of the client's task, then by name (as text).
    """

    def __init__(self, devices: Iterable[DeviceName], client: DeviceName, *, prefer_client: bool) -> None:
        """Know `devices` and `client`; a function prefers its own device (`client`) to all."""
        self.client = client
        self.own = client if prefer_client else None
        ranked = sorted({str(d): d for d in (*devices, client)}.items())
        self._ranked = sorted(
            [device for _, device in ranked],
            key=lambda d: (not (prefer_client and d == client), d.address != client.address),
        )

    def matching(self, spec: DeviceName) -> list[DeviceName]:
        """The devices that a partial name may mean, the preferred one first."""
        return [device for device in self._ranked if spec.matches(device)]

    def __str__(self) -> str:
        return ", ".join(sorted(map(str, self._ranked)))


def client_device(default: str, devices: Sequence[str], named: Iterable[DeviceName]) -> DeviceName:
    """The device of the client, on which feeds arrive and where what is open is placed.

    Case 1: `default`. Case 2: the first of `devices`. Case 3: CPU:0 of task 0 of the chief, master or worker
    that the graph names, else of the first job. Case 4: CPU:0 of this process.

    Raises:
        GraphError: not a device name.
    """
    cpu = DeviceName(replica="0", task="0", kind=CPU, number="0")
    for text in (default, *devices):
        if text:
            return parse_device(text).completed_by(cpu._replace(job=LOCAL_JOB))
    jobs = {device.job for device in named if device.job}
    if not jobs:
        return cpu._replace(job=LOCAL_JOB)
    chiefs = [job for job in _CHIEF_JOBS if job in jobs]
    return cpu._replace(job=chiefs[0] if chiefs else min(jobs, key=natural_key))


def known_devices(
    devices: Sequence[str], client: DeviceName, named: Iterable[DeviceName]
) -> list[DeviceName]:
    """`devices` with their open parts filled from the client's, or those that the graph names.

    Each task that a graph names has a CPU:0, and so has each with a device of another kind.

    Raises:
        GraphError: not a device name.
    """
    if not devices:
        full = [client, *(device.completed_by(_cpu_beside(client)) for device in named)]
        return [*full, *map(_cpu_beside, full)]
    given = [client, *(parse_device(text).completed_by(client) for text in devices)]
    return [*given, *(_cpu_beside(device) for device in given if device.kind != CPU)]


def _cpu_beside(device: DeviceName) -> DeviceName:
    return device._replace(kind=CPU, number="0")
