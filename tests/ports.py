"""Free ports that stay free for who asked, until a server of the tests listens there."""

import socket

_held: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports of loopback that the system gives to no one else while this process lives.

    A socket is bound to each and never listens: a server, which sets SO_REUSEADDR, may still bind its own, now
    and when it is started again.
    """
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
    _held.extend(sockets)
    return [held.getsockname()[1] for held in sockets]
