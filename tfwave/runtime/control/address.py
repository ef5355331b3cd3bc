"""Where a control service may listen: this machine, or beyond it for those who can prove who they are."""

import ipaddress
import socket
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, unquote

from tfwave.errors import EnforcerError

UNIX = "unix:"
EVERYWHERE = "0.0.0.0"  # noqa: S104  gRPC listens to IPv6 too


def check_address(address: str, *, guarded: bool = False) -> None:
    """Check that an address is ``unix:/path``, or ``host:port`` on loopback or behind credentials.

    Args:
        address: where a control service listens or is reached.
        guarded: whether calls prove who makes them; see `tfwave.runtime.control.credentials`.

    Raises:
        EnforcerError: it is malformed, or open to other machines without credentials.
    """
    if address.startswith(UNIX):
        if not Path(address.removeprefix(UNIX)).is_absolute():
            raise EnforcerError(f"control address '{address}' is malformed: give unix:/absolute/path")
        return
    try:
        host, _ = split_address(address)
    except ValueError as err:
        raise EnforcerError(
            f"control address '{address}' is malformed: give host:port or unix:/path"
        ) from err
    if not (guarded or is_loopback(host)):
        raise EnforcerError(
            f"control address '{address}' is refused, anyone could reach it: use 127.0.0.1 or unix:/path, "
            "or give credentials (a token, or tls_cert, tls_key and tls_ca)"
        )


def listening_address(published: str) -> str:
    """Where to listen in order to be reached at a published address.

    That is the address itself, or all interfaces if its host is a name of the network: a pod's own name may not
    resolve yet when it starts.

    Raises:
        ValueError: it is neither ``host:port`` nor ``unix:/path``.
    """
    if published.startswith(UNIX):
        return published
    host, port = split_address(published)
    return published if is_loopback(host) or _is_ip(host) else f"{EVERYWHERE}:{port}"


def grpc_target(address: str) -> str:
    """An address as gRPC takes it: a URI, which ends a socket's path at ``#`` or ``?``, and decodes ``%``."""
    return UNIX + quote(address.removeprefix(UNIX)) if address.startswith(UNIX) else address


def split_address(address: str) -> tuple[str, int]:
    """Host, without brackets, and port of ``host:port``.

    Raises:
        ValueError: it is not of this form.
    """
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(f"'{address}' is not host:port")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine is reached there."""
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def is_of_this_machine(peer: str) -> bool:
    """Whether a caller is, by gRPC's name of it: ``ipv4:127.0.0.1:4321``, ``ipv6:%5B::1%5D:4321`` or ``unix:``."""
    kind, _, address = unquote(peer).partition(":")
    return f"{kind}:" == UNIX or is_loopback(address.rpartition(":")[0].strip("[]"))


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
        except (BlockingIOError, TimeoutError):
            pass  # who listens there has more callers than it takes
        except OSError:
            return
    raise EnforcerError(f"control address '{address}' is in use: give another, or end the process behind it")


def shut(end: socket.socket) -> None:
    """Wake who reads or writes a socket; nothing if it is closed already."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
