"""A member that a test plays, to a real coordinator, or a coordinator that it plays."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from tests.controlled import open_channel
from tfwave.proto import reduce_pb2_grpc
from tfwave.proto.reduce_pb2 import Hello, Report
from tfwave.reduce.arrivals import KEY_BYTES, Arrivals
from tfwave.reduce.link import Link

STUBS: Any = reduce_pb2_grpc
LIMIT = 60
KEY = b"k" * KEY_BYTES


@contextmanager
def joined(address: str, **hello: Any) -> Generator[tuple[Any, Link]]:
    """Its call to the coordinator there, and the link by which that calls back."""
    arrivals = Arrivals("127.0.0.1")
    fields = {"workers": 1, "deadline_seconds": LIMIT, "patience_seconds": LIMIT, "key": KEY}
    report = Report(hello=Hello(**(fields | {"address": arrivals.address} | hello)))
    with open_channel(address) as channel:
        orders = STUBS.ReduceStub(channel).Join(report, timeout=LIMIT)
        link = Link(arrivals.take(KEY, LIMIT, lambda: False), LIMIT)
        yield orders, link
        link.stop()
    arrivals.close()


def refusal(address: str, hello: Hello) -> str:
    """Why the coordinator there does not take such a member."""
    with open_channel(address) as channel, pytest.raises(grpc.RpcError) as failed:
        list(STUBS.ReduceStub(channel).Join(Report(hello=hello), timeout=LIMIT))
    refused: Any = failed.value
    return refused.details()


@contextmanager
def served(service: Any) -> Generator[str]:
    """The address of a coordinator."""
    server: Any = grpc.server(ThreadPoolExecutor(2))
    STUBS.add_ReduceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()
