"""Free ports that stay free for who asked, until the process of the tests ends."""

from contextlib import ExitStack

from tfwave.runtime.ports import reserved_ports

_held = ExitStack()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that the system gives to no one else while this process lives."""
    return _held.enter_context(reserved_ports(count))
