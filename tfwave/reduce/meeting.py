"""A worker's calls to the place where groups meet."""

import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np

from tfwave.errors import EnforcerError
from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import Visitor
from tfwave.reduce.held import Vector
from tfwave.reduce.meeting_place import pieces_of
from tfwave.reduce.service import CHANNEL_OPTIONS
from tfwave.runtime.control.client import open_channel
from tfwave.runtime.control.credentials import Credentials

_GRPC: Any = grpc  # untyped
_STUBS: Any = reduce_pb2_grpc
_AGAIN_SECONDS = 0.2


class _NotThere(EnforcerError):
    """Worker 0 may come, or come again."""


class Meeting:
    """One worker's way to what other groups did; each call blocks.

    All calls raise `EnforcerError` if the place is not there, or refuses.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        address: str,
        credentials: Credentials | None,
        patience: float,
        rank: int,
        layout: str,
        size: int,
        dtype: Any,
    ) -> None:
        """Connect at the first call.

        Args:
            address: ``host:port``, that of worker 0's coordinator.
            credentials: what is shown to it.
            patience: seconds for which it is waited for at the beginning, and that a visit may take.
            rank: this worker's.
            layout: a print of what must be the same on all workers of all groups.
            size: elements of what is trained.
            dtype: of these.

        Raises:
            EnforcerError: the address is malformed or on another machine without credentials; or a file of the
                credentials is not as it should be.
        """
        self._channel: Any = open_channel(address, credentials, CHANNEL_OPTIONS)
        self._stub: Any = _STUBS.MeetStub(self._channel)
        self._metadata = credentials.metadata() if credentials else ()
        self._address, self._patience = address, patience
        self._visitor = Visitor(rank=rank, layout=layout, size=size, dtype=np.dtype(dtype).str)
        self._dtype = np.dtype(dtype)

    def begin(self, state: bytes) -> bytes | None:
        """What all begin with, which worker 0 gives; None: the own state stands, as it does for that one."""
        end = time.monotonic() + self._patience
        is_first = self._visitor.rank == 0
        while True:
            try:
                came = self._call(self._stub.Begin, 0, state if is_first else b"")
                return None if is_first else came
            except _NotThere:  # worker 0 is not up, or the training before is not all over
                if time.monotonic() >= end:
                    raise
            time.sleep(_AGAIN_SECONDS)

    def visit(self, version: int, own: Vector) -> Vector:
        """Tell what the group did by so many reduces; what the others did since the beginning."""
        return self._array(self._call(self._stub.Visit, version, own.tobytes(), seconds=self._patience))

    def end(self, version: int, own: Vector, left: int) -> Vector:
        """The same, for the last time, and how many workers its group has left; what all groups did.

        Waits for the others, as long as they are heard of.
        """
        return self._array(self._call(self._stub.End, version, own.tobytes(), left))

    def close(self) -> None:
        """Call no more."""
        self._channel.close()

    def _call(
        self, method: Any, version: int, data: bytes, left: int = 0, seconds: float | None = None
    ) -> bytes:
        visitor = Visitor(version=version, left=left)
        visitor.MergeFrom(self._visitor)
        try:
            came: Iterator[Any] = method(pieces_of(data, visitor), timeout=seconds, metadata=self._metadata)
            return b"".join(piece.data for piece in came)
        except _GRPC.RpcError as err:
            failure: Any = err
            is_there = failure.code() != _GRPC.StatusCode.UNAVAILABLE
            raise (EnforcerError if is_there else _NotThere)(
                f"groups cannot meet at worker 0, {self._address}: {failure.details()} ({failure.code().name}): "
                "run this training again, from its last checkpoint"
            ) from err

    def _array(self, data: bytes) -> Vector:
        return np.frombuffer(data, self._dtype)
