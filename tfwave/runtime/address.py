"""Where a control service may listen: this machine only, until calls are authenticated."""

import ipaddress
import socket
from contextlib import closing
from pathlib import Path

from tfwave.errors import EnforcerError

UNIX = "unix:"


def check_address(address: str) -> None:
    """Check that an address is ``host:port`` on loopback, or ``unix:/path``.

    Raises:
        EnforcerError: it is neither.
    """
    if address.startswith(UNIX):
        if not Path(address.removeprefix(UNIX)).is_absolute():
            raise EnforcerError(f"control address '{address}' is malformed: give unix:/absolute/path")
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise EnforcerError(f"control address '{address}' is malformed: give host:port or unix:/path")
    if not _is_loopback(host.strip("[]")):
        raise EnforcerError(
            f"control address '{address}' is refused, anyone could reach it: use 127.0.0.1 or unix:/path"
        )


def refuse_taken_socket(address: str) -> None:
    """Refuse a unix address on which someone listens: gRPC would silently take it over.

    Raises:
        EnforcerError: it is in use.
    """
    if not address.startswith(UNIX):
        return
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address.removeprefix(UNIX))
        except OSError:
            return
    raise EnforcerError(f"control address '{address}' is in use: give another, or end the process behind it")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
