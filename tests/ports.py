"""Free ports that stay free for who asked, until the process of the tests ends, and connections of this machine."""

import socket
from contextlib import ExitStack

from tfwave.runtime.ports import reserved_ports

_held = ExitStack()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that the system gives to no one else while this process lives."""
    return _held.enter_context(reserved_ports(count))


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = socket.create_connection(server.getsockname())
        called, _ = server.accept()
    return caller, called
