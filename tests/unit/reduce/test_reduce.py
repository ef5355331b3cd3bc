"""The parts of reduces: what is given, when it goes, the ring itself, and who is refused."""

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import pytest

from tests.ports import free_ports
from tfwave.errors import EnforcerError
from tfwave.reduce.arrivals import KEY_BYTES, Arrivals, call
from tfwave.reduce.held import Held
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.place import Place
from tfwave.reduce.record import ReduceRecord
from tfwave.reduce.ring import Ring, RingBroken
from tfwave.reduce.rules import PROBE_SECONDS, RECENT, Pace, departure
from tfwave.reduce.service import Coordinator
from tfwave.runtime.control.address import split_address
from tfwave.runtime.control.credentials import Credentials

LIMIT = 60


class TestHeld:
    def test_linear_weighs_the_newest_most(self) -> None:
        held = Held("linear", 9)
        held.waiting = [(np.array([6.0, 0.0]), 0), (np.array([0.0, 6.0]), 0), (np.array([6.0, 6.0]), 0)]
        given = held.take(1)
        assert given is not None
        assert given.tolist() == [4.0, 5.0]

    def test_a_sum_leaves_the_gradients_for_when_they_come_back(self) -> None:
        held = Held("sum", 9)
        held.waiting = [(np.array([1.0]), 0), (np.array([2.0]), 0)]
        assert held.take(1) == np.array([3.0])
        held.waiting.append((np.array([4.0]), 0))
        held.give_back()
        assert [float(gradient[0]) for gradient, _ in held.waiting] == [1.0, 2.0, 4.0]
        assert held.take(1) == np.array([7.0])
        held.settle()
        held.give_back()
        assert not held.waiting

    def test_what_is_staler_than_the_bound_is_dropped_and_counted(self) -> None:
        held = Held("sum", 2)
        held.waiting = [(np.array([1.0]), 3), (np.array([10.0]), 4), (np.array([100.0]), 6)]
        assert held.take(7) == np.array([110.0])  # the reduces 4 to 6 came after the first one's weights
        assert held.dropped == 1
        held.settle()
        held.waiting = [(np.array([1.0]), 0)]
        assert held.take(9) is None
        assert held.dropped == 2


class TestDeparture:
    @pytest.mark.parametrize(
        ("ready", "probed", "go"),
        [
            ({1: 5.0, 2: None}, None, None),
            ({1: 5.0, 2: 12.0}, None, 12.0),
            ({1: 5.0, 2: 6.0}, None, 10.0),
            ({1: 11.0, 2: None, 3: None}, {1}, 14.0),
            ({1: 5.0, 2: None, 3: None}, {1}, 13.0),
            ({1: 11.0, 2: 11.0, 3: 12.0}, {1}, 12.0),
            ({1: 10.1, 2: None, 3: None}, {2, 3}, 10 + PROBE_SECONDS + 3),
            ({1: 11.0, 2: None, 3: None}, {2, 3}, 14.0),
            ({1: None, 2: None}, {1, 2}, None),
            ({1: 11.0, 2: None}, {7}, 14.0),
        ],
        ids=[
            "all-wait",
            "all-last",
            "all-there",
            "probed",
            "before",
            "nobody-left",
            "ask-all",
            "late",
            "none",
            "probed-gone",
        ],
    )
    def test_cases(self, ready: dict[int, float | None], probed: set[int] | None, go: float | None) -> None:
        assert departure(ready, probed, begin=10.0, grace=3.0) == go

    def test_without_stragglers_the_grace_covers_all(self) -> None:
        pace = Pace()
        for step in range(RECENT):
            for member in range(4):
                pace.add(member, 0.1 + 0.001 * member + 0.0005 * (step % 3))
        pace.add(0, 5.0)  # a checkpoint
        terms = pace.terms()
        assert not terms.stragglers
        assert terms.ahead == 1
        assert terms.grace > 0.004

    def test_with_stragglers_members_run_ahead(self) -> None:
        pace = Pace()
        for _ in range(RECENT):
            for member in range(4):
                pace.add(member, 0.1 if member else 0.2)
        assert pace.terms().ahead > 1
        pace.forget(0)
        assert pace.terms().ahead == 1


def rings(count: int, timeout: float = LIMIT) -> list[Ring]:
    """Joined by pairs of sockets."""
    pairs = [socket.socketpair() for _ in range(count)]
    for pair in pairs:
        for end in pair:
            end.settimeout(timeout)
    return [Ring(i, count, pairs[i - 1][1], pairs[i][0]) for i in range(count)]


class TestRing:
    @pytest.mark.parametrize("count", [2, 3, 5])
    @pytest.mark.parametrize("size", [0, 1, 4, 100_003])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_all_get_the_same_sum(self, count: int, size: int, dtype: Any) -> None:
        given = [np.random.default_rng(i).normal(size=size).astype(dtype) for i in range(count)]
        before = [each.copy() for each in given]
        with ThreadPoolExecutor(count) as threads:
            values = list(
                threads.map(lambda pair: pair[0].sum(pair[1]), zip(rings(count), given, strict=True))
            )
        assert all(map(np.array_equal, given, before))
        for each in values:
            assert each.tobytes() == values[0].tobytes()
        for part in range(count):  # summed once, in the order of the ring
            cut = slice(size * part // count, size * (part + 1) // count)
            expected = given[part][cut].copy()
            for step in range(1, count):
                expected = given[(part + step) % count][cut] + expected
            assert values[0][cut].tobytes() == expected.tobytes()

    def test_a_neighbour_that_says_nothing_breaks_it(self) -> None:
        silent, _ = rings(2, timeout=0.1)
        with pytest.raises(RingBroken):
            silent.sum(np.zeros(3_000_000))

    def test_it_can_be_stopped(self) -> None:
        waiting, _ = rings(2)
        threading.Timer(0.1, waiting.stop).start()
        with pytest.raises(RingBroken):
            waiting.sum(np.zeros(3_000_000))


def test_who_does_not_know_the_key_is_not_taken_for_a_neighbour() -> None:
    arrivals, key = Arrivals("127.0.0.1"), b"k" * KEY_BYTES
    with call(arrivals.address, b"x" * KEY_BYTES, LIMIT), pytest.raises(TimeoutError):
        arrivals.take(key, 0.2, lambda: False)
    with call(arrivals.address, key, LIMIT) as right:
        right.sendall(b"!")
        with arrivals.take(key, LIMIT, lambda: False) as left:
            assert left.recv(1) == b"!"
    arrivals.close()


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::1", "fd00::7", "worker-1.job"])
def test_neighbours_come_by_ipv6(host: str) -> None:
    """To an address of the network, or a name, those of IPv4 come, too."""
    arrivals, key = Arrivals(host), b"k" * KEY_BYTES
    assert split_address(arrivals.address)[0] == host
    port = arrivals.address.rpartition(":")[2]
    for reached in ("[::1]", "127.0.0.1")[: 1 if host == "::1" else 2]:
        with call(f"{reached}:{port}", key, LIMIT), arrivals.take(key, LIMIT, lambda: False):
            pass
    arrivals.close()


def test_who_shows_a_key_when_nobody_listens_any_more_is_told() -> None:
    """It waited for as long as it would for one that comes late."""
    arrivals, key = Arrivals("127.0.0.1"), b"k" * KEY_BYTES
    greeting = {thread for thread in threading.enumerate() if thread.name == "tfwave-ring-greet"}
    with call(arrivals.address, key[:1], LIMIT) as left:
        while greeting >= {each for each in threading.enumerate() if each.name == "tfwave-ring-greet"}:
            time.sleep(0.01)
        arrivals.close()
        left.sendall(key[1:])
        left.settimeout(LIMIT)
        assert left.recv(1) == b""


def test_connections_come_again_once_there_are_files_again() -> None:
    """A process may have no file left for a while."""
    arrivals, key = Arrivals("127.0.0.1"), b"k" * KEY_BYTES
    host, _, port = arrivals.address.rpartition(":")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as early:
        taken = [os.open(os.devnull, os.O_RDONLY)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 8, limits[1]))
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            early.connect((host, int(port)))
            time.sleep(0.2)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for file in taken:
                os.close(file)
        with call(arrivals.address, key, LIMIT), arrivals.take(key, LIMIT, lambda: False):
            pass
    arrivals.close()


def together(work: Callable[[int], Any], count: int) -> Sequence[Any]:
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, range(count)))


def options(rank: int, address: str, **more: Any) -> Options:
    return Options(**{"rank": rank, "workers": 2, "coordinator": address, "patience": LIMIT, **more})


class TestMembers:
    def test_a_bound_on_staleness_drops_what_it_says(self) -> None:
        """One member takes its only step while the other takes 40; its gradient is then too old."""
        gate = threading.Event()

        def work(rank: int) -> tuple[float, int]:
            with Member(options(rank, coordinator.address, probes=1, local="sum", staleness=1), 1) as member:
                member.join(b"")
                total = 0.0
                for step in range(6 if rank else 40):
                    if rank and step == 5:
                        assert gate.wait(LIMIT)
                    total += sum(float(each.values[0]) for each in member.exchange(np.ones(1, np.float32)))
                if not rank:
                    end = time.monotonic() + LIMIT
                    while member.figures.gave < 40 and time.monotonic() < end:
                        time.sleep(0.01)
                    gate.set()
                total += sum(float(each.values[0]) for each in member.drain(bytes))
                return total, member.figures.dropped

        with Coordinator() as coordinator:
            (total, dropped), (other, too) = together(work, 2)
        assert total == other
        assert total + dropped + too == 46
        assert too >= 1

    def test_all_is_synchronous_and_a_second_training_begins_anew(self) -> None:
        def work(rank: int) -> list[tuple[int, float, int]]:
            record = ReduceRecord("linear") if rank else None
            with Member(options(rank, coordinator.address, probes="all"), 3, record=record) as member:
                member.join(b"")
                found = [member.exchange(np.full(3, 10.0**rank, np.float32)) for _ in range(9)]
                assert not list(member.drain(bytes))
            if record is not None:
                seen = record.seen()
                parts = [(w.rank, w.reduces, w.joined, w.made, seen.share(w)) for w in seen.workers]
                assert parts == [(0, 9, 9, 8, 0.5), (1, 9, 9, 8, 0.5)]  # nothing tells when the first began
                assert sum(worker.last for worker in seen.workers) == seen.complete == 9
                assert [number for number, _ in seen.recent] == list(range(1, 10))
            return [(one.version, float(one.values[2]), one.members) for (one,) in found]

        with Coordinator() as coordinator:
            for _ in range(2):
                for seen in together(work, 2):
                    assert seen == [(version, 11.0, 2) for version in range(1, 10)]

    def test_the_first_member_brings_the_weights(self) -> None:
        def work(rank: int) -> bytes | None:
            with Member(options(rank, coordinator.address), 1) as member:
                found = member.join(b"%d" % rank * 5_000_000)
                assert not list(member.drain(bytes))
            return found

        with Coordinator() as coordinator:
            assert together(work, 2) == [None, b"0" * 5_000_000]

    def test_who_gives_nothing_changes_no_bit(self) -> None:
        """A sum of -0.0 alone is one: that is how a row says that nobody looked it up."""
        given = np.array([-0.0, 0.0, 3.0], np.float32)

        def work(rank: int) -> bytes:
            with Member(options(rank, coordinator.address, probes="all"), 3) as member:
                member.join(b"")
                found = [] if rank else member.exchange(given)
                (update,) = [*found, *member.drain(bytes)]
                return update.values.tobytes()

        with Coordinator() as coordinator:
            assert together(work, 2) == [given.tobytes()] * 2

    def test_members_of_different_programs_do_not_reduce(self) -> None:
        with Coordinator() as coordinator, Member(options(0, coordinator.address, workers=1), 1) as first:
            first.join(b"")
            with (
                Member(options(0, coordinator.address, workers=1), 2) as other,
                pytest.raises(EnforcerError, match="another model, optimizer or options than worker 0"),
            ):
                other.join(b"")

    def test_who_gives_nothing_for_so_long_is_left_behind(self) -> None:
        def work(rank: int) -> Any:
            with Member(options(rank, coordinator.address, probes="all", patience=6), 1) as member:
                member.join(b"")
                try:
                    if not rank:
                        return member.exchange(np.ones(1, np.float32))
                    return list(member.drain(bytes)) if left.wait(LIMIT) else None
                except EnforcerError as error:
                    return str(error)
                finally:
                    left.set()

        left = threading.Event()
        with Coordinator() as coordinator:
            (update,), said = together(work, 2)
        assert update.members == 1
        assert "raise patience" in said

    def test_the_end_of_the_coordinator_ends_the_wait(self) -> None:
        coordinator = Coordinator()
        with Member(options(0, coordinator.address, workers=1), 1) as member:
            member.join(b"")
            coordinator.stop()
            with pytest.raises(EnforcerError, match="coordinator has ended"):
                list(member.drain(bytes))

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_fault_in_the_thread_that_reduces_ends_the_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python says it on standard error; who waits hears of it, too."""

        def full(ring: Ring, values: Any) -> Any:
            raise MemoryError(f"no room for {ring} {values}")

        monkeypatch.setattr(Ring, "sum", full)
        with Coordinator() as coordinator, Member(options(0, coordinator.address, workers=1), 1) as member:
            member.join(b"")
            with pytest.raises(EnforcerError, match="own part in the reduces has failed"):
                list(chain(member.exchange(np.ones(1, np.float32)), member.drain(bytes)))

    def test_the_death_of_the_coordinator_ends_the_training(self) -> None:
        program = (
            "from tfwave.reduce.service import Coordinator as C; print(C().address, flush=True); input()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as dead:
            assert dead.stdout
            address = dead.stdout.readline().strip()
            with Member(options(0, address, workers=1), 1) as member:
                member.join(b"")
                dead.kill()
                with pytest.raises(EnforcerError, match=f"{address}: .* again, from its last checkpoint"):
                    list(member.drain(bytes))


def test_no_coordinator() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with (
        Member(options(0, address, patience=0.5), 1) as member,
        pytest.raises(EnforcerError, match="no coordinator came up"),
    ):
        member.join(b"")


def test_no_token() -> None:
    token = Credentials("0123456789abcdef")
    with Coordinator(credentials=token) as coordinator:
        with (
            Member(options(0, coordinator.address), 1) as member,
            pytest.raises(EnforcerError, match="no token was given"),
        ):
            member.join(b"")
        with Member(options(0, coordinator.address, workers=1, credentials=token), 1) as member:
            assert member.join(b"") is None


def test_an_open_address_without_credentials() -> None:
    with pytest.raises(EnforcerError, match="anyone could reach it"):
        Coordinator("0.0.0.0:0")
    with pytest.raises(EnforcerError, match="anyone could reach it"):
        Member(options(0, "10.0.0.1:2222"), 1)


def test_an_address_in_use() -> None:
    with Coordinator() as coordinator, pytest.raises(EnforcerError, match="is in use"):
        Coordinator(coordinator.address)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rank": 2}, "rank 2"),
        ({"probes": 0}, "probes=0"),
        ({"probes": "any"}, "probes='any': give a number from 1, or 'all'"),
        ({"probes": 1.5}, "probes=1.5"),
        ({"local": "mean"}, "local='mean'"),
        ({"staleness": 0}, "staleness=0"),
        ({"deadline": 0.0}, "deadline=0"),
        ({"patience": float("inf")}, "patience=inf"),
        ({"patience": "300"}, "patience='300': give seconds"),
    ],
)
def test_options_out_of_range(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(EnforcerError, match=said):
        options(**{"rank": 0, "address": "127.0.0.1:1", **wrong})


class TestPlace:
    CLUSTER = '"cluster": {"worker": ["a.job:2222", "b.job:2223"]}'

    def test_worker_0_has_the_coordinator_at_its_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TF_CONFIG", f'{{{self.CLUSTER}, "task": {{"type": "worker", "index": 0}}}}')
        place = Place.of_tf_config()
        assert place == Place.given(["a.job:2222", "b.job:2223"], 0)
        assert place.is_coordinator
        assert place.listen == "0.0.0.0:2222"
        assert not Place.given(place.workers, 1).is_coordinator
        assert Place.given(place.workers, 1).options(probes="all").host == "b.job"
        assert Place.given(place.workers, 1).options().coordinator == "a.job:2222"

    @pytest.mark.parametrize("task", ["", ', "task": {"type": "chief", "index": 0}'])
    def test_other_tasks_are_refused(self, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
        monkeypatch.setenv("TF_CONFIG", f"{{{self.CLUSTER}{task}}}")
        with pytest.raises(EnforcerError, match="reduces are made by workers"):
            Place.of_tf_config()

    @pytest.mark.parametrize(
        ("workers", "rank", "said"),
        [
            (["a:1"], None, "rank=None"),
            (["a:1"], 1, "rank=1"),
            (["a:1"], "0", "rank='0' is none of 1 workers: give a number"),  # of the environment
            (["a"], 0, "'a'"),
            (2, 0, "workers=2 is no list"),
            ("a:1", 0, "workers='a:1' is no list"),
        ],
    )
    def test_what_is_no_place(self, workers: Any, rank: Any, said: str) -> None:
        with pytest.raises(EnforcerError, match=said):
            Place.given(workers, rank)
