"""The counters for Prometheus: what is served, and that it parses."""

import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import pytest

from tfwave.errors import EnforcerError
from tfwave.proto import control_pb2
from tfwave.runtime.control.metrics import CLIENT_SECONDS, MetricsServer, exposition, serve_metrics

COUNTERS = [field.name for field in control_pb2.Counters.DESCRIPTOR.fields]
STATUS = control_pb2.Status(
    enforcer="hook",
    tensorflow_version="2.21.0",
    installed=True,
    enabled=False,
    deadline_seconds=2.5,
    bytes_per_second=125e6,
    counters=control_pb2.Counters(**{name: 2**60 + i for i, name in enumerate(COUNTERS)}),
)
LABELS = {"job": "ps", "task": "0"}

# The grammar of the text format 0.0.4.
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
_SAMPLE = re.compile(rf"({_NAME})\{{({_LABEL}(?:,{_LABEL})*)\}} (-?[0-9.]+(?:e[+-]?[0-9]+)?)")


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def parsed(text: str) -> list[Sample]:
    """Refuses what Prometheus would: each family has one HELP and one TYPE, then its samples."""
    assert text.endswith("\n")
    lines = iter(text.splitlines())
    samples, families = [], set()
    for line in lines:
        helped = re.fullmatch(rf"# HELP ({_NAME}) (\S.*)", line)
        typed = re.fullmatch(rf"# TYPE ({_NAME}) (counter|gauge)", next(lines))
        sample = _SAMPLE.fullmatch(next(lines))
        assert helped, line
        assert typed, line
        assert sample, line
        assert helped[1] == typed[1] == sample[1]
        assert typed[1] not in families
        assert typed[1].endswith("_total") == (typed[2] == "counter")
        families.add(typed[1])
        samples.append(Sample(sample[1], dict(re.findall(_LABEL, sample[2])), float(sample[7])))
    return samples


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    server = serve_metrics(lambda: STATUS, "0", LABELS)
    yield server
    server.stop()


def fetch(address: str, path: str = "/metrics") -> tuple[str, str]:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_each_figure_is_served_once_and_labelled(server: MetricsServer) -> None:
    kind, text = fetch(server.address)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    info, *samples = parsed(text)
    assert info == ("tfwave_info", LABELS | {"enforcer": "hook", "tensorflow": "2.21.0"}, 1)
    assert all(sample.labels == LABELS for sample in samples)
    values = [sample.value for sample in samples]
    assert values[:4] == [True, False, 2.5, 125e6]
    assert [int(value) for value in values[4:]] == [int(float(2**60 + i)) for i in range(len(COUNTERS))]


def test_names_and_kinds() -> None:
    names = [sample.name.removeprefix("tfwave_") for sample in parsed(exposition(STATUS, LABELS))]
    assert names == [
        *("info", "plan_installed", "enabled", "deadline_seconds", "rate_bytes_per_second"),
        *("live_steps", "held_transfers", "ordered_transfers_total", "released_transfers_total"),
        *("late_transfers_total", "unplanned_transfers_total", "deadlines_total", "log_dropped_total"),
    ]
    assert len(names) == 5 + len(COUNTERS)


def test_labels_are_escaped() -> None:
    odd = {"job": 'a "b"\\c\nd', "task": "0"}
    info, *samples = parsed(exposition(STATUS, odd))
    assert samples[0].labels == {"job": r"a \"b\"\\c\nd", "task": "0"}
    assert info.labels["job"] == samples[0].labels["job"]


def test_figures_are_those_of_now(server: MetricsServer) -> None:
    now = control_pb2.Status()
    other = serve_metrics(lambda: now, "127.0.0.1:0", LABELS)
    before = parsed(fetch(other.address)[1])
    now.counters.ordered = 3
    after = parsed(fetch(other.address)[1])
    (changed,) = [a for a, b in zip(after, before, strict=True) if a != b]
    assert changed == ("tfwave_ordered_transfers_total", LABELS, 3)
    other.stop()
    with pytest.raises(urllib.error.URLError):
        fetch(other.address)
    assert fetch(server.address)


def test_other_paths_and_methods_are_refused(server: MetricsServer) -> None:
    assert fetch(server.address, "/metrics?name=x")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(server.address, "/")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(f"http://{server.address}/metrics", data=b"x", timeout=10)


def test_a_silent_client_holds_nobody_up_for_long(server: MetricsServer) -> None:
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))):
        start = time.monotonic()
        assert fetch(server.address)
        assert time.monotonic() - start < 2 * CLIENT_SECONDS


def test_a_client_that_is_never_silent_holds_nobody_up_either(server: MetricsServer) -> None:
    """It sends the first line of a request byte by byte."""
    ended = threading.Event()

    def drip(slow: socket.socket) -> None:
        with suppress(OSError):
            while not ended.wait(CLIENT_SECONDS / 4):
                slow.sendall(b"G")

    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))) as slow, ThreadPoolExecutor(1) as threads:
        threads.submit(drip, slow)
        try:
            assert fetch(server.address)
        finally:
            ended.set()


def test_it_listens_on_loopback_unless_told_otherwise(server: MetricsServer) -> None:
    assert server.address.startswith("127.0.0.1:")
    everywhere = serve_metrics(lambda: STATUS, "0.0.0.0:0", LABELS)
    assert everywhere.address.startswith("0.0.0.0:")
    everywhere.stop()


def test_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    server = serve_metrics(lambda: STATUS, "[::1]:0", LABELS)
    assert parsed(fetch(server.address)[1])
    server.stop()


@pytest.mark.parametrize("address", ["", "host", "host:", ":", "127.0.0.1:65536", "127.0.0.1:x", "99999"])
def test_malformed_addresses(address: str) -> None:
    with pytest.raises(EnforcerError, match=f"metrics address '{address}' is malformed"):
        serve_metrics(lambda: STATUS, address, LABELS)


def test_addresses_in_use_or_elsewhere(server: MetricsServer) -> None:
    for address in (server.address, "192.0.2.1:0", "no-such-host.invalid:0"):
        with pytest.raises(EnforcerError, match=f"metrics address '{address}' cannot be used"):
            serve_metrics(lambda: STATUS, address, LABELS)
