"""The control service, with a hook that needs no TensorFlow."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plans import plan_by_hand, refusal_of
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.plan.io import to_proto
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2, plan_pb2
from tfwave.runtime.control import ControlClient, ControlServer, serve


class FakeHook:
    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.settings: dict[str, float | None] = {}

    def install(self, plan: Plan) -> None:
        self.plan = plan

    def remove(self) -> None:
        self.plan = None

    def configure(self, **settings: float | None) -> None:
        if settings.get("deadline_seconds") == 0:
            raise EnforcerError("the deadline is out of range")
        self.settings |= settings

    def status(self) -> control_pb2.Status:
        return control_pb2.Status(enforcer="fake", installed=self.plan is not None)

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        return control_pb2.HandOffs(next_cursor=cursor + 1)


def plan_of(*edges: str) -> Plan:
    return plan_by_hand({Channel("a", "b"): edges})


@pytest.fixture
def hook() -> FakeHook:
    return FakeHook()


@pytest.fixture(params=["tcp", "unix"])
def service(request: pytest.FixtureRequest, hook: FakeHook, tmp_path: Path) -> Iterator[ControlServer]:
    server = serve(hook, "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/control")
    yield server
    server.stop()


def test_a_plan_comes_and_goes(service: ControlServer, hook: FakeHook) -> None:
    with ControlClient(service.address) as client:
        assert client.install(plan_of("x", "y"), enabled=False, deadline_seconds=2).installed
        assert hook.plan == plan_of("x", "y")
        assert hook.settings == {"enabled": False, "deadline_seconds": 2}
        client.configure(bytes_per_second=5)
        assert hook.settings == {"enabled": False, "deadline_seconds": 2, "bytes_per_second": 5}
        assert client.hand_offs(7).next_cursor == 8
        assert not client.remove().installed
        assert client.health().enforcer == "fake"


def test_a_setting_out_of_range_is_refused_with_its_plan(service: ControlServer, hook: FakeHook) -> None:
    with ControlClient(service.address) as client, pytest.raises(EnforcerError, match="out of range"):
        client.install(plan_of("x"), deadline_seconds=0)
    assert hook.plan is None
    assert not hook.settings


def _name_no_edge(plan: plan_pb2.Plan) -> None:
    plan.orders[0].transfers[0].edge = ""


def _leave_a_gap(plan: plan_pb2.Plan) -> None:
    plan.orders[0].transfers[1].rank = 2


def _name_no_device(plan: plan_pb2.Plan) -> None:
    plan.orders[0].ClearField("source_device")


def _order_twice(plan: plan_pb2.Plan) -> None:
    plan.orders.append(plan.orders[0])


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (plan_pb2.Plan.Clear, "plan version 0 is not known here"),
        (_name_no_device, "lacks a device"),
        (_name_no_edge, "x:0;a;b names no edge"),
        (_leave_a_gap, "has rank 2 where 1 belongs"),
        (_order_twice, "names the channel a -> b twice"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused_whole(
    spoil: Callable[[plan_pb2.Plan], None], why: str, service: ControlServer, hook: FakeHook
) -> None:
    message = to_proto(plan_of("x", "y"))
    spoil(message)
    assert why in refusal_of(service.address, message)
    assert hook.plan is None
    assert not hook.settings


def test_large_plans_arrive(service: ControlServer) -> None:
    with ControlClient(service.address) as client:
        assert client.install(plan_of(*(f"edge_{i}_{'x' * 200}" for i in range(20_000)))).installed


@pytest.mark.parametrize("address", ["127.0.0.1:1", "unix:/nowhere/control"])
def test_a_service_that_is_not_there(address: str) -> None:
    start = time.monotonic()
    with ControlClient(address) as client, pytest.raises(EnforcerError, match=address):
        client.health()
    assert time.monotonic() - start < 3


def test_a_service_that_does_not_answer() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with ControlClient(address, timeout=0.5) as client, pytest.raises(EnforcerError, match=address):
            client.health()


def test_an_address_in_use(service: ControlServer, hook: FakeHook) -> None:
    with pytest.raises(EnforcerError, match=service.address):
        serve(hook, service.address)
    with ControlClient(service.address) as client:
        assert client.health().enforcer == "fake"


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:0", "192.168.1.1:80", "example.com:1", "[::]:0", "127.0.0.1", "unix:relative", "", ":1"],
)
def test_other_machines_are_refused(address: str, hook: FakeHook) -> None:
    with pytest.raises(EnforcerError, match="control address"):
        serve(hook, address)
    with pytest.raises(EnforcerError, match="control address"):
        ControlClient(address)


def test_a_unix_socket_is_its_owners(hook: FakeHook, tmp_path: Path) -> None:
    path = tmp_path / "control"
    server = serve(hook, f"unix:{path}")
    assert path.stat().st_mode & 0o077 == 0
    server.stop()
    assert not path.exists()
