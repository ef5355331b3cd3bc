"""Free TCP ports of loopback that stay free for who asked."""

import socket
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager


@contextmanager
def reserved_ports(count: int) -> Generator[list[int]]:
    """Ports that the system gives to no one else until the end of the block.

    A socket is bound to each and never listens: a server that sets SO_REUSEADDR, as gRPC's do, may still bind its
    own, at once or after seconds of starting, and when it is started again.
    """
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]
