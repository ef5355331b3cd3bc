"""Splits that ranks exchange by the native library: each sends as soon as it can, and collects what all sent."""

import ctypes
import socket
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.runtime import native


class Exchange:
    """A group of ranks, as this process's ops know it: by a name, under which another may take its place."""

    def __init__(self, name: str, rank: int, ranks: int) -> None:
        """Of a group that is yet to be formed."""
        self.name, self.rank, self.ranks = name, rank, ranks

    def form(self, sockets: Sequence[socket.socket | None], deadline: float) -> None:
        """Take a connected socket to each other rank (None for the own one), in the place of those that there were.

        Args:
            sockets: by rank; they are the library's from now on.
            deadline: seconds that a rank waits for another's split, before the group ends for all.

        Raises:
            EnvironmentUnsupported, EnforcerError: as `tfwave.runtime.native.load`.
        """
        native.load()
        for one in sockets:
            if one is not None:
                one.setblocking(True)
        numbers = [-1 if one is None else one.detach() for one in sockets]
        held = (ctypes.c_int32 * len(numbers))(*numbers)
        _call("form", self._known, self.rank, held, len(numbers), ctypes.c_double(deadline))

    def leave(self) -> None:
        """End the group for all ranks; nothing if it has ended."""
        _call("leave", self._known)

    def check(self) -> None:
        """Find out whether the group stands.

        Raises:
            EnforcerError: it does not; says which rank ended it.
        """
        _call("check", self._known)

    def exchange(self, value: Any, counts: Any, tag: str, patience: float = 0.0) -> list[Any]:
        """Send rows, and get those that came, as ops; all ranks call it, as often and with the same tags.

        Args:
            value: of shape [n, ...], the same behind n on all ranks, of any type that is plain numbers.
            counts: [ranks], how many of the rows each rank gets, in their order; int64.
            tag: tells exchanges apart that are under way at once.
            patience: seconds that others are waited for, if more than the deadline.

        Returns:
            By rank, the rows that it sent: [m, ...].
        """
        ops, group = native.load_ops(), {"group": self.name, "tag": tag}
        step = ops.tfwave_next_step(**group)
        scattered = ops.tfwave_scatter(
            value=value, counts=counts, step=step, to=list(range(self.ranks)), **group
        )
        tensorflow: Any = import_module("tensorflow")
        with tensorflow.control_dependencies([] if scattered is None else [scattered]):
            return ops.tfwave_collect(
                step=step, T=value.dtype, ranks=self.ranks, row=value.shape[1:], patience=patience, **group
            )

    @property
    def _known(self) -> bytes:
        return self.name.encode()


def wait_for_all(group: Exchange, what: str, patience: float = 0.0) -> None:
    """Go on when all ranks are here; `what` says where, the same on all.

    Raises:
        tf.errors.AbortedError: the group has ended, or ranks did not come within the deadline, or the patience in
            seconds if that is more.
    """
    tensorflow: Any = import_module("tensorflow")
    nothing = tensorflow.zeros([0]), tensorflow.zeros([group.ranks], tensorflow.int64)
    group.exchange(*nothing, f"tfwave/{what}", patience)


def wait_to_leave(group: Exchange) -> None:
    """Go on when nobody waits for another's split any more, as all ranks are here or the group has ended."""
    try:
        group.check()
    except EnforcerError:
        return
    tensorflow: Any = import_module("tensorflow")
    with suppress(tensorflow.errors.OpError):  # of who was here, and has left
        wait_for_all(group, "leaving")


def _call(name: str, *arguments: Any) -> None:
    native.call(native.load(), f"tfwave_all_to_all_{name}", *arguments)
