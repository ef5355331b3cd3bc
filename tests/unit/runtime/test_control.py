"""The control service, with a hook that needs no TensorFlow."""

import contextlib
import logging
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.controlled import FakeHook, flood, open_channel, raw_call
from tests.plans import plan_by_hand, refusal_of
from tfwave.errors import EnforcerError, PlanError
from tfwave.graph.names import Channel
from tfwave.plan.message import to_proto
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2, plan_pb2
from tfwave.runtime.control import service as control_service
from tfwave.runtime.control.address import is_of_this_machine
from tfwave.runtime.control.client import MESSAGE_BYTES, ControlClient
from tfwave.runtime.control.credentials import Credentials
from tfwave.runtime.control.gate import (
    BURST,
    CALLS_PER_SECOND,
    LOG_BURST,
    LOG_LINES_PER_SECOND,
    RateLimit,
    RefusalLog,
)
from tfwave.runtime.control.limits import DEFAULT_LIMITS, MOST_FUNCTIONS, MOST_TASKS, ControlLimits
from tfwave.runtime.control.service import ControlServer, serve

TOKEN = "a token of 16 or more".replace(" ", "-")
TASK = "/job:ps/replica:0/task:0"


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


def test_plans_by_function_and_hooked_tasks(service: ControlServer, hook: FakeHook) -> None:
    plans = {"__inference_step_1": plan_of("x"), "": plan_of("y")}
    tasks = ("/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1")
    with ControlClient(service.address) as client:
        client.configure(hooked_tasks=tasks)
        assert hook.settings == {"hooked_tasks": tasks}
        client.configure(hooked_tasks=())
        assert hook.settings == {"hooked_tasks": ()}
        assert client.install(plans, enabled=True).installed
        assert hook.plan == plans
    named = control_pb2.FunctionPlan(function="f", plan=to_proto(plan_of("x")))
    twice = control_pb2.InstallRequest(plans=[named, named])
    both = control_pb2.InstallRequest(plans=[named], plan=named.plan)
    unsound = control_pb2.InstallRequest(plans=[control_pb2.FunctionPlan(function="f")])
    with open_channel(service.address) as channel:
        for request in (twice, both, unsound):
            refused = raw_call(channel, "Install", request.SerializeToString())
            assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert hook.plan == plans


@pytest.mark.parametrize("nothing", [None, {"f": None}, "plan.json"])
def test_what_is_no_plan_is_not_sent(service: ControlServer, hook: FakeHook, nothing: Any) -> None:
    with (
        ControlClient(service.address) as client,
        pytest.raises(PlanError, match="give a plan, as plan_bundle"),
    ):
        client.install(nothing)
    assert hook.plan is None


def test_what_happened_is_not_read_while_plans_change(monkeypatch: pytest.MonkeyPatch) -> None:
    hook, entered, go_on = FakeHook(), threading.Event(), threading.Event()

    def install(plan: Plan) -> None:
        entered.set()
        assert go_on.wait(30)
        hook.plan = plan

    def hand_offs(cursor: int) -> control_pb2.HandOffs:
        return control_pb2.HandOffs(next_cursor=cursor + 1 if hook.plan else 0)

    monkeypatch.setattr(hook, "install", install)
    monkeypatch.setattr(hook, "hand_offs", hand_offs)
    server = serve(hook)
    with ThreadPoolExecutor(2) as pool, ControlClient(server.address) as client:
        installed = pool.submit(client.install, plan_of("x"))
        assert entered.wait(30)
        read = pool.submit(client.hand_offs, 7)
        time.sleep(0.3)
        assert not read.done()
        go_on.set()
        assert installed.result().installed
        assert read.result().next_cursor == 8
    server.stop()


def test_a_plan_whose_settings_fail_is_taken_back(
    service: ControlServer, hook: FakeHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pace, where the system gives the process no more threads."""

    def fail(**_: Any) -> None:
        raise EnforcerError("no more threads")

    monkeypatch.setattr(hook, "configure", fail)
    with ControlClient(service.address) as client:
        with pytest.raises(EnforcerError, match="no more threads"):
            client.install(plan_of("x"), bytes_per_second=5)
        assert not hook.plan


def test_a_setting_out_of_range_is_refused_with_its_plan(service: ControlServer, hook: FakeHook) -> None:
    with ControlClient(service.address) as client, pytest.raises(EnforcerError, match="out of range"):
        client.install(plan_of("x"), deadline_seconds=0)
    assert hook.plan is None
    assert not hook.settings


def test_a_plan_that_the_hook_refuses_leaves_the_settings(
    service: ControlServer, hook: FakeHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(plan: object) -> None:
        raise PlanError("there is no room for it")

    monkeypatch.setattr(hook, "install", refuse)
    with ControlClient(service.address) as client, pytest.raises(EnforcerError, match="no room for it"):
        client.install(plan_of("x"), deadline_seconds=0.001, bytes_per_second=1)
    assert not hook.settings


def test_a_plan_with_a_setting_that_is_refused_is_not_installed(
    service: ControlServer, hook: FakeHook
) -> None:
    request = control_pb2.InstallRequest(plan=to_proto(plan_of("x")))
    request.settings.hooked_tasks.tasks.append("ps")
    with open_channel(service.address) as channel:
        call = raw_call(channel, "Install", request.SerializeToString())
    assert "'ps' is no task" in str(call.exception())
    assert hook.plan is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"deadline_seconds": 60.5}, r"a deadline of 60.5 s is not allowed here: ask for at most 60"),
        ({"hooked_tasks": ["/job:ps\0x"]}, r"'/job:ps\\x00x' has a zero byte"),
        ({"hooked_tasks": [TASK] * (MOST_TASKS + 1)}, f"more than {MOST_TASKS} hooked tasks"),
        (
            {"hooked_tasks": [TASK, "/job:ps/task:0"]},
            "'/job:ps/task:0' is no task: write /job:NAME/replica:N",
        ),
    ],
)
def test_what_the_owner_does_not_allow_is_refused(
    settings: dict[str, Any], why: str, service: ControlServer, hook: FakeHook
) -> None:
    with ControlClient(service.address) as client, pytest.raises(EnforcerError, match=why):
        client.configure(enabled=False, **settings)
    assert not hook.settings


def test_the_owner_may_allow_more(hook: FakeHook) -> None:
    server = serve(hook, limits=ControlLimits(longest_deadline_seconds=3600))
    with ControlClient(server.address) as client:
        client.configure(deadline_seconds=3600)
    server.stop()
    assert hook.settings == {"deadline_seconds": 3600}


def test_only_callers_of_this_machine_may_slow_a_server_down() -> None:
    slow, unpaced = {"bytes_per_second": 5.0}, {"bytes_per_second": 0.0}
    DEFAULT_LIMITS.check(slow, is_local=True)
    DEFAULT_LIMITS.check(unpaced, is_local=False)
    with pytest.raises(EnforcerError, match=r"ask for 0 .no limit. or at least 1e[+]06"):
        DEFAULT_LIMITS.check(slow, is_local=False)


@pytest.mark.parametrize(
    "peer", ["ipv4:127.0.0.1:43210", "ipv6:%5B::1%5D:43210", "unix:", "unix:/run/control"]
)
def test_callers_of_this_machine(peer: str) -> None:
    assert is_of_this_machine(peer)


@pytest.mark.parametrize(
    "peer", ["ipv4:10.0.0.1:43210", "ipv6:%5Bfd00::1%5D:43210", "", "unixes:/run/control"]
)
def test_callers_elsewhere(peer: str) -> None:
    assert not is_of_this_machine(peer)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_limits_are_positive_numbers(value: float) -> None:
    with pytest.raises(EnforcerError, match="least_bytes_per_second is"):
        ControlLimits(least_bytes_per_second=value)


def test_plans_for_too_many_functions_are_refused(service: ControlServer, hook: FakeHook) -> None:
    plan = plan_of("x")
    with (
        ControlClient(service.address) as client,
        pytest.raises(EnforcerError, match=f"plans for {MOST_FUNCTIONS + 1} functions, {MOST_FUNCTIONS} are"),
    ):
        client.install({f"f{i}": plan for i in range(MOST_FUNCTIONS + 1)})
    assert hook.plan is None


def _name_no_edge(plan: plan_pb2.Plan) -> None:
    plan.orders[0].transfers[0].edge = ""


def _end_two_edges_early(plan: plan_pb2.Plan) -> None:
    for name, transfer in zip("xy", plan.orders[0].transfers, strict=True):
        transfer.edge = f"a\0{name}"


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
        (_end_two_edges_early, r"the edge 'a\x00x' has a zero byte in its name"),
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


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.168.1.1:80", "example.com:1", "[::]:0"])
def test_other_machines_are_refused_without_credentials(address: str, hook: FakeHook) -> None:
    why = f"control address '{re.escape(address)}' is refused.*credentials"
    with pytest.raises(EnforcerError, match=why):
        serve(hook, address)
    with pytest.raises(EnforcerError, match=why):
        ControlClient(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "unix:relative", "", ":1", "host:65536", "host:x"])
def test_malformed_addresses(address: str, hook: FakeHook) -> None:
    for credentials in (None, Credentials(TOKEN)):
        with pytest.raises(EnforcerError, match="malformed"):
            serve(hook, address, credentials)
        with pytest.raises(EnforcerError, match="malformed"):
            ControlClient(address, credentials=credentials)


def test_with_a_token_it_listens_on_all_interfaces(hook: FakeHook) -> None:
    server = serve(hook, "0.0.0.0:0", Credentials(TOKEN))
    port = server.address.rpartition(":")[2]
    with ControlClient(f"{socket.gethostname()}:{port}", credentials=Credentials(TOKEN)) as client:
        assert client.health().enforcer == "fake"
    server.stop()


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (None, "no token was given"),
        (Credentials(TOKEN + "x"), "the token is wrong"),
        (Credentials(TOKEN.upper()), "the token is wrong"),
    ],
)
@pytest.mark.parametrize("where", ["127.0.0.1:0", "unix:{}/control"])
def test_a_wrong_token_is_refused_and_never_logged(
    shown: Credentials | None,
    why: str,
    where: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook = FakeHook()
    server = serve(hook, where.format(tmp_path), Credentials(TOKEN))
    with ControlClient(server.address, credentials=shown) as client:
        for call in (lambda: client.install(plan_of("x")), client.remove, client.health, client.hand_offs):
            with pytest.raises(EnforcerError, match=f"{server.address} refuses this client, {why}: give"):
                call()
    server.stop()
    assert hook.plan is None
    lines = [r.getMessage() for r in caplog.records if r.name == "tfwave.control"]
    assert len(lines) == 4
    assert lines[0].startswith("refused '/tfwave.Control/Install' from ")
    assert all(why in line and TOKEN.lower() not in line.lower() for line in lines)


def test_a_socket_whose_owner_is_busy_is_in_use(tmp_path: Path, hook: FakeHook) -> None:
    """So many wait there to be taken that nobody else can call."""
    path = str(tmp_path / "control")
    with contextlib.ExitStack() as callers, socket.socket(socket.AF_UNIX) as busy:
        busy.bind(path)
        busy.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                caller = callers.enter_context(socket.socket(socket.AF_UNIX))
                caller.setblocking(False)
                caller.connect(path)
        with pytest.raises(EnforcerError, match="is in use"):
            serve(hook, f"unix:{path}")


def test_what_a_refused_client_sends_is_not_read(hook: FakeHook) -> None:
    server = serve(hook, "127.0.0.1:0", Credentials(TOKEN))
    with open_channel(server.address) as channel:
        call = raw_call(channel, "Install", bytes(4 * MESSAGE_BYTES))
    assert (call.code(), call.details()) == (grpc.StatusCode.UNAUTHENTICATED, "no token was given")
    server.stop()


def test_strangers_do_not_use_up_the_rate(hook: FakeHook) -> None:
    server = serve(hook, "127.0.0.1:0", Credentials(TOKEN))
    codes = Counter(call.code() for call in flood(server.address, 2 * BURST))
    assert codes.keys() <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED}
    with ControlClient(server.address, credentials=Credentials(TOKEN)) as client:
        for _ in range(BURST // 2):
            client.health()
    server.stop()


def test_a_thousand_calls_at_once(
    service: ControlServer, hook: FakeHook, caplog: pytest.LogCaptureFixture
) -> None:
    begin = time.monotonic()
    with ControlClient(service.address) as client:
        client.install(plan_of("x"))
        codes = Counter(call.code() for call in flood(service.address, 1000))
        assert codes.keys() == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert codes[grpc.StatusCode.OK] >= BURST // 2
        assert hook.plan == plan_of("x")
        time.sleep(2 / CALLS_PER_SECOND)
        assert client.health().installed
    said = [record for record in caplog.records if record.name == "tfwave.control"]
    assert 1 <= len(said) <= LOG_BURST + 1 + (time.monotonic() - begin) * LOG_LINES_PER_SECOND


@pytest.fixture
def slow_service(monkeypatch: pytest.MonkeyPatch, hook: FakeHook) -> Iterator[ControlServer]:
    """Takes two calls, and one more every 100 seconds."""
    monkeypatch.setattr(control_service, "CALLS_PER_SECOND", 0.01)
    monkeypatch.setattr(control_service, "BURST", 2)
    server = serve(hook)
    yield server
    server.stop()


def test_too_many_calls_are_told_when_to_come_back(slow_service: ControlServer) -> None:
    with ControlClient(slow_service.address) as client:
        client.health()
        client.health()
        with pytest.raises(EnforcerError, match=r"more than 0\.01 calls a second: try again in \d\d\.\d+ s"):
            client.health()
    with open_channel(slow_service.address) as channel:
        refused = raw_call(channel, "Health", b"")
    assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert 90_000 <= int(dict(refused.trailing_metadata())["grpc-retry-pushback-ms"]) <= 100_000


def test_the_rate_in_the_long_run() -> None:
    now = 0.0
    limit = RateLimit(10, 3, lambda: now)
    assert [limit.wait_seconds() for _ in range(4)] == [0, 0, 0, pytest.approx(0.1)]
    now = 0.25
    assert [limit.wait_seconds() for _ in range(3)] == [0, 0, pytest.approx(0.05)]
    now = 100
    assert [limit.wait_seconds() for _ in range(4)] == [0, 0, 0, pytest.approx(0.1)]


def test_refusals_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog()
    for _ in range(5 * LOG_BURST):
        log.refused("/a\nb", "ipv4:1.2.3.4:5", "so\nthere")
    time.sleep(1.5 / LOG_LINES_PER_SECOND)
    log.refused("last", "unix:", "x")
    lines = [r.getMessage() for r in caplog.records]
    assert lines[0] == r"refused '/a\nb' from ipv4:1.2.3.4:5: 'so\nthere'"
    assert LOG_BURST + 1 <= len(lines) < 2 * LOG_BURST
    said = re.fullmatch(r"refused 'last' from unix:: 'x' \((\d+) more were refused before\)", lines[-1])
    assert said
    assert int(said[1]) == 5 * LOG_BURST + 1 - len(lines)


def test_a_message_past_the_limit_is_refused(service: ControlServer, hook: FakeHook) -> None:
    with open_channel(service.address) as channel:
        refused = raw_call(channel, "Install", bytes(MESSAGE_BYTES + 1))
        assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"({MESSAGE_BYTES + 1} vs. {MESSAGE_BYTES})" in refused.details()
        assert raw_call(channel, "Health", b"").code() == grpc.StatusCode.OK
    assert hook.plan is None


def test_a_client_sends_no_plan_past_the_limit() -> None:
    plan = plan_of("x" * (MESSAGE_BYTES // 2))  # the key repeats it
    says = r"the plan takes 32\.0 MiB, a control service takes 32 MiB: give it only"
    with ControlClient("127.0.0.1:1") as client, pytest.raises(EnforcerError, match=says):
        client.install(plan)


def test_bytes_that_are_no_message_are_refused(service: ControlServer, hook: FakeHook) -> None:
    with open_channel(service.address) as channel:
        assert raw_call(channel, "Install", b"\xff" * 100).code() == grpc.StatusCode.INTERNAL
        assert raw_call(channel, "Nothing", b"").code() == grpc.StatusCode.UNIMPLEMENTED
    assert hook.plan is None


def test_a_refused_plan_is_logged(service: ControlServer, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "tfwave.control"),
        ControlClient(service.address) as client,
        pytest.raises(EnforcerError, match="out of range"),
    ):
        client.configure(deadline_seconds=0)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "tfwave.control"]
    who = r"(ipv4:127.0.0.1:\d+|unix:.*)"
    assert re.fullmatch(rf"refused 'Health' from {who}: 'a deadline of 0.0 s is out of range: give .*'", line)


def test_a_unix_socket_is_its_owners(hook: FakeHook, tmp_path: Path) -> None:
    path = tmp_path / "control"
    server = serve(hook, f"unix:{path}")
    assert path.stat().st_mode & 0o077 == 0
    server.stop()
    assert not path.exists()


@pytest.mark.parametrize("name", ["run#1", "done?", "100%25", "mit Umlaut ü"])
def test_a_unix_socket_may_lie_in_a_folder_of_any_name(hook: FakeHook, tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "control"
    path.parent.mkdir()
    server = serve(hook, f"unix:{path}")
    with ControlClient(server.address) as client:
        client.install(plan_of("x"))
    assert path.stat().st_mode & 0o077 == 0
    server.stop()
    assert (hook.plan, [*tmp_path.iterdir()], [*path.parent.iterdir()]) == (plan_of("x"), [path.parent], [])
