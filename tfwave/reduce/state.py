"""A member's state on its way to one that came late."""

import logging
import socket
import struct

from tfwave.errors import EnforcerError
from tfwave.reduce.arrivals import call
from tfwave.reduce.ring import PIECE_BYTES, receive

_HEAD = struct.Struct("<QQ")  # the last sum in it, and its bytes
_log = logging.getLogger("tfwave")


def send_state(address: str, key: bytes, seconds: float, version: int, state: bytes) -> None:
    """Bring it; who waits for it says so if it does not come."""
    try:
        with call(address, key, seconds) as end:
            end.sendall(_HEAD.pack(version, len(state)))
            data = memoryview(state)
            for start in range(0, len(data), PIECE_BYTES):
                end.sendall(data[start : start + PIECE_BYTES])
    except OSError as err:
        _log.warning("tfwave: the weights did not reach the worker at %s: %s", address, err)


def receive_state(end: socket.socket, size: int) -> tuple[int, bytes]:
    """The last sum that is in it, and the state.

    Raises:
        OSError: it was closed, or its timeout passed without a byte.
        EnforcerError: it has not `size` bytes.
    """
    head = bytearray(_HEAD.size)
    receive(end, memoryview(head))
    version, sent = _HEAD.unpack(head)
    if sent != size:
        raise EnforcerError(
            f"another worker's weights take {sent} bytes, and this one's {size}: run the same program on all"
        )
    state = bytearray(size)
    receive(end, memoryview(state))
    return version, bytes(state)
