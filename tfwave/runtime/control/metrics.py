"""The hook's counters for Prometheus, over HTTP."""

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.proto import control_pb2
from tfwave.runtime.control.address import shut, split_address

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"
CLIENT_SECONDS = 1.0
"""How long a client may be silent; they are served one after the other."""
MOST_CLIENT_SECONDS = 3.0
"""And how long each may take in all: one that sends a byte now and then is never silent."""

_STOP_SECONDS = 0.1

GetStatus = Callable[[], control_pb2.Status]


@dataclass(frozen=True)
class _Metric:
    name: str
    kind: str
    help: str
    value: Callable[[control_pb2.Status], float]


def _gauge(name: str, text: str, value: Callable[[control_pb2.Status], float]) -> _Metric:
    return _Metric(f"tfwave_{name}", "gauge", text, value)


def _counter(name: str, text: str, value: Callable[[control_pb2.Counters], float]) -> _Metric:
    return _Metric(f"tfwave_{name}_total", "counter", text, lambda status: value(status.counters))


_METRICS = (
    _gauge("plan_installed", "Whether a plan is in force.", lambda s: s.installed),
    _gauge("enabled", "Whether the order is enforced.", lambda s: s.enabled),
    _gauge("deadline_seconds", "Longest time without a hand-off.", lambda s: s.deadline_seconds),
    _gauge("rate_bytes_per_second", "Pace of what is sent; 0: no limit.", lambda s: s.bytes_per_second),
    _gauge("live_steps", "Steps with a counter.", lambda s: s.counters.live_steps),
    _gauge("held_transfers", "Transfers that wait for their turn.", lambda s: s.counters.held),
    _counter("ordered_transfers", "Transfers handed off in their turn.", lambda c: c.ordered),
    _counter("released_transfers", "Transfers handed off out of turn.", lambda c: c.released),
    _counter("late_transfers", "Planned transfers of a step already released.", lambda c: c.late),
    _counter("unplanned_transfers", "Data transfers that no plan speaks of.", lambda c: c.unplanned),
    _counter("deadlines", "Steps whose deadline fired.", lambda c: c.deadlines),
    _counter("log_dropped", "Hand-offs overwritten before they were read.", lambda c: c.log_dropped),
)


def exposition(status: control_pb2.Status, labels: Mapping[str, str]) -> str:
    """A status in Prometheus's text format 0.0.4, each sample with these labels."""
    about = {"enforcer": status.enforcer, "tensorflow": status.tensorflow_version}
    lines = [
        "# HELP tfwave_info What enforces the order.",
        "# TYPE tfwave_info gauge",
        f"tfwave_info{_labelled({**labels, **about})} 1",
    ]
    for metric in _METRICS:
        lines += [
            f"# HELP {metric.name} {metric.help}",
            f"# TYPE {metric.name} {metric.kind}",
            f"{metric.name}{_labelled(labels)} {metric.value(status):.17g}",
        ]
    return "\n".join(lines) + "\n"


class MetricsServer:
    """An HTTP server of ``/metrics`` that listens until `stop`."""

    def __init__(self, server: TCPServer, address: str) -> None:
        self._server = server
        self.address = address
        """``host:port``, with the true port."""
        self._thread = threading.Thread(
            target=server.serve_forever, args=(_STOP_SECONDS,), name="tfwave-metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def serve_metrics(get_status: GetStatus, address: str, labels: Mapping[str, str]) -> MetricsServer:
    """Serve ``http://address/metrics``; whoever can reach the address can read it, and change nothing.

    Args:
        get_status: asked at each scrape.
        address: ``host:port`` (port 0: the system chooses), or a port alone for 127.0.0.1.
        labels: of each sample, such as job and task.

    Raises:
        EnforcerError: the address is malformed, in use or not of this machine.
    """
    try:
        host, port = split_address(f"127.0.0.1:{address}" if address.isdigit() else address)
    except ValueError as err:
        raise EnforcerError(f"metrics address '{address}' is malformed: give host:port or a port") from err
    try:
        server = _Listener((host, port), _handler(get_status, labels))
    except OSError as err:
        raise EnforcerError(
            f"metrics address '{address}' cannot be used ({err.strerror}): give another"
        ) from err
    name = f"[{host}]" if ":" in host else host
    return MetricsServer(server, f"{name}:{server.server_address[1]}")


class _Listener(TCPServer):
    """As `http.server.HTTPServer`, which would look its own name up in the DNS, and without IPv6."""

    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)


def _handler(get_status: GetStatus, labels: Mapping[str, str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_SECONDS
        server_version = "tfwave"

        def setup(self) -> None:
            super().setup()
            self._patience = threading.Timer(MOST_CLIENT_SECONDS, shut, [self.connection])
            self._patience.daemon = True
            self._patience.start()

        def finish(self) -> None:
            self._patience.cancel()
            super().finish()

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self.send_error(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}")
                return
            body = exposition(get_status(), labels).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Scrapes are not news."""

    return Handler


def _labelled(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
