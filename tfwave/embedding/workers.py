"""Workers that hold tables among them: they find each other, and form a group that exchanges splits natively."""

import hashlib
import hmac
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from tfwave.errors import EnforcerError
from tfwave.reduce.arrivals import KEY_BYTES, Arrivals, call
from tfwave.reduce.options import LONGEST_SECONDS
from tfwave.reduce.place import Place
from tfwave.runtime.all_to_all import Exchange, wait_to_leave
from tfwave.runtime.control.address import split_address
from tfwave.runtime.control.client import check_reach
from tfwave.runtime.control.credentials import Credentials
from tfwave.runtime.embedding.saving import save_tables
from tfwave.runtime.embedding.table import Table

_AGAIN_SECONDS = 0.05
_GROUP = "workers"
_TAKEN = b"t"
"""The word back to who called: one that only listened, and ended, has not taken the connection."""


class Workers:
    """The workers that hold tables together, for `Table(..., where="workers")` (Sven, sec. 6.1).

    A worker that dies, is silent past the deadline, or whose step fails while it waits for others ends the group
    for all: what waits raises `tf.errors.AbortedError`, which names that worker. A table may then have the step's
    updates on some workers only, and the rows of who died are gone: restore a checkpoint (`save`) on all of them,
    and `form` the group again; or go on with fewer workers, in a group and tables made anew. A process belongs to
    one such group.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        rank: int,
        *,
        credentials: Credentials | None = None,
        deadline: float = 60.0,
        patience: float = 300.0,
    ) -> None:
        """Listen at this worker's address, and form the group: blocks until all workers are there.

        Args:
            addresses: ``host:port`` of each worker, where nothing else listens.
            rank: which of them this process is.
            credentials: a token that all know; needed where an address is not loopback. What is exchanged is not
                encrypted: use a network that is trusted.
            deadline: seconds that a step waits for another worker from which nothing comes; at most 1e6.
            patience: seconds that workers wait for each other to form the group; at most 1e6.

        Raises:
            EnforcerError: an address is malformed, in use or open to other machines without a token; credentials
                without a token; seconds out of range; or not all workers came.
        """
        place = Place.given(addresses, rank)
        for address in addresses:
            check_reach(address, credentials)
        if credentials and credentials.token is None:
            raise EnforcerError(
                "workers that hold tables know each other by a token: give Credentials(token=...)"
            )
        for name, seconds in (("deadline", deadline), ("patience", patience)):
            if not 0 < seconds <= LONGEST_SECONDS:
                raise EnforcerError(f"{name}={seconds}: give seconds above 0, at most {LONGEST_SECONDS:g}")
        self._addresses, self._rank = tuple(place.workers), rank
        self._secret = (credentials.token or "" if credentials else "").encode()
        self._deadline, self._patience = deadline, patience
        host, port = split_address(addresses[rank])
        try:
            self._arrivals = Arrivals(host, port, most_waiting=len(addresses))
        except OSError as err:
            raise EnforcerError(
                f"cannot listen at '{addresses[rank]}' ({err}): give another address"
            ) from err
        self.exchange = Exchange(_GROUP, rank, len(addresses))
        """What ops know the group by."""
        with ExitStack() as unless_formed:
            unless_formed.callback(self._arrivals.close)
            self.form()
            unless_formed.pop_all()

    def form(self) -> None:
        """Form the group anew, in place of one that has ended: all workers call it, those that were restarted too.

        Functions that were traced stay as they are.

        Raises:
            EnforcerError: not all workers came within the patience; names the one.
        """
        self.exchange.leave()
        end = time.monotonic() + self._patience
        sockets: list[socket.socket | None] = [None] * len(self._addresses)
        try:
            for other in range(len(self._addresses)):
                if other < self._rank:
                    sockets[other] = self._called(other, end)
            for other in range(self._rank + 1, len(self._addresses)):
                sockets[other] = self._taken(other, end)
        except BaseException:
            for one in sockets:
                if one is not None:
                    one.close()
            raise
        self.exchange.form(sockets, self._deadline)

    def save(self, path: str | Path, tables: Mapping[str, Table]) -> None:
        """Write one checkpoint of all rows of the tables, and of their slots: all workers call it, between steps.

        There each table is one plain variable, however many workers hold it. Any number of workers, each with a
        table of some of the rows, restores them by ``tf.train.Checkpoint(NAME=table.module, ...).read(path)``,
        and `tf.train.load_checkpoint` reads them whole.

        Args:
            path: a prefix, as TensorFlow's checkpoints have one, in a directory that all workers write to, as
                ``gs://BUCKET/...``. Give each checkpoint one of its own: the last stays until this one is whole.
            tables: by names for the checkpoint, the same on all workers.

        Raises:
            TfwaveError: a table on servers, one of which this worker has no row, or a name that is no identifier.
            tf.errors.OpError: what cannot be written; or `tf.errors.AbortedError` as `Table.pull`.
        """
        save_tables(self.exchange, os.fspath(path), tables)

    def check(self) -> None:
        """Find out whether the group stands.

        Raises:
            EnforcerError: it has ended; names the worker at fault.
        """
        self.exchange.check()

    def close(self) -> None:
        """Leave, which ends the group for all, when all workers have made their last step and close it, too.

        Who comes first waits for the others, at most the `deadline`: then it leaves all the same, and what they
        wait for raises. So does a `with` at its end; by an exception it is left at once.
        """
        try:
            wait_to_leave(self.exchange)
        finally:
            self._leave()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._leave()

    def _leave(self) -> None:
        self.exchange.leave()
        self._arrivals.close()

    def _called(self, other: int, end: float) -> socket.socket:
        while True:
            left = max(_AGAIN_SECONDS, end - time.monotonic())
            try:
                called = call(self._addresses[other], self._key(self._rank, other), left)
                called.settimeout(left)
                if called.recv(1) == _TAKEN:
                    return called
                called.close()
                raise OSError("it left before it took the connection")
            except OSError as err:
                if time.monotonic() >= end:
                    raise self._absent(other, err) from err
                time.sleep(_AGAIN_SECONDS)

    def _taken(self, other: int, end: float) -> socket.socket:
        while True:
            left = max(_AGAIN_SECONDS, end - time.monotonic())
            try:
                taken = self._arrivals.take(self._key(other, self._rank), left, lambda: False)
            except OSError as err:
                raise self._absent(other, err) from err
            if _is_told(taken):
                return taken
            taken.close()  # of a caller that was ended, and may come again

    def _absent(self, other: int, err: OSError) -> EnforcerError:
        return EnforcerError(
            f"worker {other} at {self._addresses[other]} did not come within {self._patience:g} s ({err}): is it "
            "up, with the same addresses and token?"
        )

    def _key(self, caller: int, called: int) -> bytes:
        return worker_key(self._secret, caller, called, len(self._addresses))


def _is_told(taken: socket.socket) -> bool:
    """Tell a caller that its connection is taken; no, if it has ended. It says nothing before it hears of that."""
    taken.setblocking(False)
    try:
        with suppress(BlockingIOError):
            if not taken.recv(1, socket.MSG_PEEK):
                return False
        taken.sendall(_TAKEN)
    except OSError:
        return False
    return True


def worker_key(secret: bytes, caller: int, called: int, workers: int) -> bytes:
    """What a connection begins with: only who knows the token can make it."""
    what = f"tfwave all-to-all {caller} {called} of {workers}"
    return hmac.new(secret, what.encode(), hashlib.sha256).digest()[:KEY_BYTES]
