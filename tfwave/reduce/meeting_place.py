"""Where groups leave for each other what they did: the parameter server of sec. 5.2, which keeps no parameters.

It has of each group what that did since the beginning, in whole, and gives the others' sum. So whoever comes in a
group's name, and however often, nothing counts twice, and nothing is lost with a deputy that dies.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NoReturn

import grpc
import numpy as np

from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import Piece, Visitor
from tfwave.reduce.groups import Groups, total
from tfwave.reduce.held import Vector
from tfwave.reduce.ring import PIECE_BYTES

LOOK_SECONDS = 1.0
"""So often who waits here looks whether others are still heard of."""

_GRPC: Any = grpc  # untyped
_log = logging.getLogger("tfwave")


class MeetingPlace(reduce_pb2_grpc.MeetServicer):
    """In the process of worker 0, for as long as that belongs to the training."""

    def __init__(self, groups: Groups, deadline: float, patience: float) -> None:
        """Nobody has come.

        Args:
            groups: the ranks of each.
            deadline: seconds for which the place stays when all groups have ended, for workers that ask yet.
            patience: seconds for which a group is waited for that is not heard of.
        """
        self._deadline, self._patience = deadline, patience
        self._group = {rank: number for number, group in enumerate(groups) for rank in group}
        self._changed = threading.Condition()
        self._first: Visitor | None = None
        self._state = b""
        self._did: dict[int, Vector] = {}
        self._version = dict.fromkeys(range(len(groups)), -1)
        self._heard = dict.fromkeys(range(len(groups)), time.monotonic())
        self._left: dict[int, int] = {}
        self._served: set[int] = set()
        self._done: Vector | None = None
        self._closed = False

    def Begin(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        """Worker 0 brings its state, and gets nothing; the others get that."""
        visitor, data = self._heard_of(request_iterator, context)
        if self._group[visitor.rank] in self._left:
            context.abort(_GRPC.StatusCode.UNAVAILABLE, "this training is at its end")
        if visitor.rank == 0:
            with self._changed:
                self._first, self._state = visitor, data
                self._changed.notify_all()
            return
        self._wait(context, lambda: self._first is not None)
        self._check(visitor, context)
        yield from pieces_of(self._state)

    def Visit(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        """A group leaves what it did, and gets what the others did."""
        _, group = self._come(request_iterator, context)
        with self._changed:
            nothing = np.zeros_like(self._did[group])
            others = [self._did[number] for number in sorted(self._did) if number != group]
        yield from pieces_of(total([nothing, *others]).tobytes())

    def End(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        """As `Visit`, of a group that does nothing more; it gets what all did, when the others have ended, too."""
        visitor, group = self._come(request_iterator, context)
        with self._changed:
            self._left[group] = visitor.left
            self._changed.notify_all()
        self._wait(context, self._is_over)
        yield from pieces_of(self._all_that_was_done().tobytes())
        with self._changed:
            self._served.add(visitor.rank)
            self._changed.notify_all()

    def wait(self) -> None:
        """Return when all workers have what all groups did, or those that lack it have not asked for it in time."""
        end = None
        with self._changed:
            while not (self._closed or (self._is_over() and len(self._served) >= sum(self._left.values()))):
                if end is None and self._is_over():
                    end = time.monotonic() + self._deadline
                if end is not None and time.monotonic() >= end:
                    return
                self._changed.wait(LOOK_SECONDS)

    def close(self) -> None:
        """Send all away that wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _come(self, requests: Iterator[Any], context: Any) -> tuple[Visitor, int]:
        """Take what a group did, unless more is known of it."""
        visitor, data = self._heard_of(requests, context)
        first = self._check(visitor, context)
        group = self._group[visitor.rank]
        did = np.frombuffer(data, first.dtype)
        if len(did) != first.size:
            _refuse(
                context, f"worker {visitor.rank} tells of {len(did)} numbers, and {first.size} are trained"
            )
        with self._changed:
            if visitor.version > self._version[group]:
                self._did[group], self._version[group] = did, visitor.version
        return visitor, group

    def _heard_of(self, requests: Iterator[Any], context: Any) -> tuple[Visitor, bytes]:
        """Who comes, and what it brings."""
        first: Piece | None = next(requests, None)
        if first is None or first.visitor.rank not in self._group:
            _refuse(context, "no worker of these groups comes like that")
        with self._changed:
            self._heard[self._group[first.visitor.rank]] = time.monotonic()
        return first.visitor, b"".join(piece.data for piece in chain([first], requests))

    def _check(self, visitor: Visitor, context: Any) -> Visitor:
        """What worker 0 said."""
        if self._first is None or visitor.layout != self._first.layout:
            _refuse(
                context,
                f"worker {visitor.rank} has another model, optimizer or groups than worker 0: run the same "
                "program on all",
            )
        return self._first

    def _wait(self, context: Any, is_there: Callable[[], bool]) -> None:
        with self._changed:
            while not is_there():
                if self._closed:
                    context.abort(_GRPC.StatusCode.UNAVAILABLE, "worker 0 has left")
                self._changed.wait(LOOK_SECONDS)

    def _is_over(self) -> bool:
        """Whether no group does more: all have ended, or were not heard of for too long."""
        now = time.monotonic()
        left = self._heard.keys() - self._left
        return self._done is not None or all(now - self._heard[group] > self._patience for group in left)

    def _all_that_was_done(self) -> Vector:
        """From now on the same, whoever may come yet."""
        with self._changed:
            if self._done is None:
                lost = sorted(self._heard.keys() - self._left)
                if lost:
                    _log.warning("tfwave: groups %s were not heard of for %g s", lost, self._patience)
                self._done = total([self._did[number] for number in sorted(self._did)])
            return self._done


def pieces_of(data: bytes, visitor: Visitor | None = None) -> Iterator[Piece]:
    """Bytes as messages, the first of which says who brings them."""
    yield Piece(visitor=visitor, data=data[:PIECE_BYTES])
    for start in range(PIECE_BYTES, len(data), PIECE_BYTES):
        yield Piece(data=data[start : start + PIECE_BYTES])


def _refuse(context: Any, why: str) -> NoReturn:
    context.abort(_GRPC.StatusCode.INVALID_ARGUMENT, why)
    raise AssertionError  # `abort` has raised
