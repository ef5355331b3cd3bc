"""Network namespaces and rate-limited links, made with the `ip` and `tc` commands (Linux, root)."""

import ipaddress
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tfwave.errors import EnvironmentUnsupported

BRIDGE = "bridge"
NIC = "nic"

_PREFIX = "tfwave"
_COMMAND_SECONDS = 10
_PACKET_BYTES = 72 << 10  # the largest that TCP hands down at once, with the headers of its segments
_BURST_SECONDS = 0.001
_QUEUE_SECONDS = 0.05
_CONGESTION = (
    "cubic"  # Linux's own default, whatever this machine's is: others leave a shared queue idle at times
)
_runs = itertools.count()


def unique_prefix() -> str:
    """What the names of one run's namespaces start with; no other process or run uses it."""
    return f"{_PREFIX}-{os.getpid()}-{next(_runs)}-"


def existing() -> list[str]:
    """The names of all namespaces of this machine."""
    return [line.split()[0] for line in _run("ip", "netns", "list").splitlines() if line.strip()]


def add(namespace: str) -> None:
    """Make a namespace whose loopback is up."""
    _run("ip", "netns", "add", namespace)
    _run("ip", "-n", namespace, "link", "set", "lo", "up")


def add_bridge(namespace: str) -> None:
    """Make the namespace a switch."""
    _run("ip", "-n", namespace, "link", "add", BRIDGE, "type", "bridge")
    _run("ip", "-n", namespace, "link", "set", BRIDGE, "up")


def join(host: str, switch: str, port: str, address: str, bits_per_second: float) -> None:
    """Wire the namespace `host` to a port of the namespace `switch`, limited in both directions.

    Args:
        host: its interface is called `NIC`.
        switch: what `add_bridge` made.
        port: the name that the switch's end of the wire gets.
        address: IPv4 address and length of the network part, as ``10.0.0.1/24``.
        bits_per_second: the rate of each direction, Ethernet headers included.
    """
    _run("ip", "link", "add", NIC, "netns", host, "type", "veth", "peer", "name", port, "netns", switch)
    _run("ip", "-n", host, "addr", "add", address, "dev", NIC)
    _run("ip", "-n", switch, "link", "set", port, "master", BRIDGE)
    for namespace, device in ((switch, port), (host, NIC)):
        _limit(namespace, device, bits_per_second)
        _run("ip", "-n", namespace, "link", "set", device, "up")
    subnet = str(ipaddress.ip_interface(address).network)
    _run("ip", "-n", host, "route", "replace", subnet, "dev", NIC, "congctl", _CONGESTION)


def delete(namespaces: Iterable[str]) -> None:
    """Remove those of the namespaces that exist, and the wires in them.

    One process removes them all, so that an interrupt never stops half-way.
    """
    present = set(existing())
    batch = "".join(f"netns del {name}\n" for name in namespaces if name in present)
    if not batch:
        return
    command = ["ip", "-force", "-batch", "-"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True, start_new_session=True)
    _, complaint = process.communicate(batch)
    _check(command, process.returncode, complaint)


def sweep(prefix: str) -> None:
    """Remove namespaces that runs whose process is gone left, or that already start with `prefix`."""
    delete(name for name in existing() if name.startswith(prefix) or _is_stale(name))


def _is_stale(name: str) -> bool:
    head, _, rest = name.partition("-")
    pid = rest.partition("-")[0]
    return head == _PREFIX and pid.isdecimal() and not Path("/proc", pid).exists()


def _limit(namespace: str, device: str, bits_per_second: float) -> None:
    """Limit what leaves the device; packets larger than the burst are cut up by the kernel."""
    bytes_per_second = bits_per_second / 8
    burst = max(_PACKET_BYTES, bytes_per_second * _BURST_SECONDS)
    limit = burst + max(4 * _PACKET_BYTES, bytes_per_second * _QUEUE_SECONDS)
    size = ("rate", f"{bits_per_second:.0f}bit", "burst", f"{burst:.0f}", "limit", f"{limit:.0f}")
    _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", *size)
    if shutil.which("ethtool"):
        _run("ip", "netns", "exec", namespace, "ethtool", "-K", device, "tso", "off", "gso", "off")


def _run(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise EnvironmentUnsupported(
            f"'{' '.join(command)}' has not ended after {_COMMAND_SECONDS} s: is the machine overloaded?"
        ) from err
    _check(command, done.returncode, done.stderr)
    return done.stdout


def _check(command: Iterable[str], code: int, complaint: str) -> None:
    if code:
        why = complaint.strip().partition("\n")[0] or f"exit code {code}"
        raise EnvironmentUnsupported(f"'{' '.join(command)}' fails ({why}): run as root, with iproute2")
