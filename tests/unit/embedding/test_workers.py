"""Workers that hold tables: who may be one.

Their exchange is in tests/cluster/embedding/test_embedding_on_workers.py.
"""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.ports import free_ports
from tfwave.embedding.workers import Workers, worker_key
from tfwave.errors import EnforcerError
from tfwave.reduce.arrivals import Arrivals, call
from tfwave.runtime.all_to_all import Exchange
from tfwave.runtime.control.credentials import Credentials

PATIENCE = 0.2
"""Nobody comes: a slow machine only waits longer."""
LISTENS_SECONDS = 3.0


def test_an_open_address_without_a_token() -> None:
    with pytest.raises(EnforcerError, match="credentials"):
        Workers(["127.0.0.1:7000", "10.0.0.2:7000"], 0)
    with pytest.raises(EnforcerError, match="know each other by a token"):
        Workers(["10.0.0.1:7000"], 0, credentials=Credentials(None, "a.pem", "a.key", "ca.pem"))


@pytest.mark.parametrize("seconds", [0.0, float("nan"), float("inf"), 1e10])
def test_seconds_that_no_clock_has(seconds: float) -> None:
    with pytest.raises(EnforcerError, match=r"deadline=.*: give seconds above 0, at most 1e.06"):
        Workers(["127.0.0.1:7000"], 0, deadline=seconds)
    with pytest.raises(EnforcerError, match=r"patience=.*: give seconds above 0, at most 1e.06"):
        Workers(["127.0.0.1:7000"], 0, patience=seconds)


def test_who_does_not_know_the_token_is_not_taken_for_a_worker() -> None:
    """It is there all the time, and shows the key of another token."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    right = Credentials("right-and-long-enough")
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(Workers, addresses, 0, credentials=right, patience=LISTENS_SECONDS)
        stranger = _called(addresses[0], worker_key(b"wrong-but-long-enough", 1, 0, 2))
        with stranger, pytest.raises(EnforcerError, match=f"worker 1 at {addresses[1]} did not come"):
            first.result()


def test_a_worker_that_does_not_come_is_named() -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    for rank in range(2):
        with pytest.raises(EnforcerError, match=f"worker {1 - rank} at {addresses[1 - rank]} did not come"):
            Workers(addresses, rank, patience=PATIENCE)


def test_who_is_interrupted_listens_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C, while it waits for the others."""

    def interrupted(workers: Workers) -> None:
        raise KeyboardInterrupt

    (port,) = free_ports(1)
    monkeypatch.setattr(Workers, "form", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Workers([f"127.0.0.1:{port}"], 0)
    socket.create_server(("127.0.0.1", port)).close()


def test_a_worker_that_listens_and_ends_has_not_come() -> None:
    """As one that is about to form another group: it was heard, and has taken no connection."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with (
        socket.create_server(("127.0.0.1", int(addresses[0].rpartition(":")[2]))) as ending,
        ThreadPoolExecutor(1) as threads,
    ):
        caller = threads.submit(Workers, addresses, 1, patience=LISTENS_SECONDS)
        ending.accept()[0].close()
        ending.accept()[0].close()  # it calls once more
        ending.close()
        with pytest.raises(EnforcerError, match=f"worker 0 at {addresses[0]} did not come"):
            caller.result()


def half_closed(one: socket.socket) -> None:
    """What is written to it is taken, as of a process's connection just after it was killed."""
    one.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("end", [half_closed, socket.socket.close])
def test_a_worker_that_calls_and_ends_has_not_come(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[socket.socket], None]
) -> None:
    """As one that is killed before it is heard, and started again."""
    (ended, killed), (taken, restarted) = socket.socketpair(), socket.socketpair()
    end(killed)
    came, formed = iter((ended, taken)), list[socket.socket | None]()
    monkeypatch.setattr(Arrivals, "take", lambda *_: next(came))
    monkeypatch.setattr(Exchange, "form", lambda _, sockets, deadline: formed.extend(sockets))
    with killed, taken, restarted:
        Workers([f"127.0.0.1:{port}" for port in free_ports(2)], 0).close()
        assert formed == [None, taken]
        assert restarted.recv(1) == b"t"
    assert ended.fileno() == -1


def test_who_ends_with_an_exception_does_not_wait_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[Exchange]()
    monkeypatch.setattr("tfwave.embedding.workers.wait_to_leave", waited.append)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(1)]
    with pytest.raises(ZeroDivisionError), Workers(addresses, 0):
        raise ZeroDivisionError
    assert not waited
    with Workers(addresses, 0) as workers:
        pass
    assert waited == [workers.exchange]


def test_who_is_interrupted_while_it_waits_leaves_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Arrivals, "take", interrupted)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            Workers(addresses, 0)


def _called(address: str, key: bytes) -> socket.socket:
    """As soon as it listens."""
    while True:
        try:
            return call(address, key, LISTENS_SECONDS)
        except ConnectionRefusedError:
            time.sleep(0.01)
