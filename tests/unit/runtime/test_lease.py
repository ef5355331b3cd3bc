"""Leases that run out, and those that are renewed or ended in time."""

import threading
import time
from collections.abc import Mapping

import pytest

from tests.controlled import FakeHook
from tests.plans import plan_by_hand
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.plan.plan import Plan
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.control.lease import Lease
from tfwave.runtime.control.service import serve

SHORT, LONG = 0.2, 5.0
PLAN = plan_by_hand({Channel("a", "b"): ("edge_1_w",)})


def test_a_lease_runs_out_once() -> None:
    expired = threading.Semaphore(0)
    Lease(expired.release).grant(SHORT)
    assert expired.acquire(timeout=LONG)
    assert not expired.acquire(timeout=2 * SHORT)


def test_renewals_keep_it() -> None:
    expired = threading.Event()
    lease = Lease(expired.set)
    lease.grant(2 * SHORT)
    for _ in range(10):
        time.sleep(SHORT / 2)
        lease.renew()
        assert not expired.is_set()
    assert expired.wait(LONG)


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_another_grant_replaces_it(seconds: float) -> None:
    expired = threading.Event()
    lease = Lease(expired.set)
    lease.grant(SHORT)
    lease.grant(seconds)
    assert not expired.wait(2 * SHORT)


def test_a_shorter_lease_ends_before_the_longer_one_that_it_replaces() -> None:
    expired = threading.Event()
    lease = Lease(expired.set)
    lease.grant(1000)
    time.sleep(SHORT / 2)  # it is being waited for
    lease.grant(SHORT)
    assert expired.wait(LONG)


def test_a_lease_can_follow_an_ended_one() -> None:
    expired = threading.Event()
    lease = Lease(expired.set)
    lease.grant(1000)
    lease.grant(0)
    time.sleep(SHORT)
    lease.grant(SHORT)
    assert expired.wait(LONG)


def test_a_lease_without_a_thread_is_refused_and_the_next_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    expired = threading.Event()
    lease = Lease(expired.set)
    with monkeypatch.context() as few:
        few.setattr(threading.Thread, "start", refuse)
        with pytest.raises(EnforcerError, match="gives this process no more threads: raise its limit"):
            lease.grant(SHORT)
    lease.grant(SHORT)
    assert expired.wait(LONG)


def test_a_service_forgets_the_plans_of_a_client_that_is_gone() -> None:
    hook = FakeHook()
    service = serve(hook)
    with ControlClient(service.address) as client:
        client.install(PLAN, lease_seconds=2 * SHORT)
        for _ in range(6):
            time.sleep(SHORT / 2)
            client.hand_offs()
            assert hook.plan is not None
        end = time.monotonic() + LONG
        while hook.plan is not None:
            assert time.monotonic() < end
            time.sleep(0.01)
        client.install(PLAN)
        time.sleep(3 * SHORT)
        assert hook.plan is not None
        client.install(PLAN, lease_seconds=SHORT)
        client.remove()
    service.stop()


def test_the_lease_of_a_service_that_was_stopped_does_not_end_later_plans() -> None:
    hook = FakeHook()
    service = serve(hook)
    with ControlClient(service.address) as client:
        client.install(PLAN, lease_seconds=2 * SHORT)
    service.stop()
    hook.install(PLAN)
    time.sleep(4 * SHORT)
    assert hook.plan is not None


class SlowHook(FakeHook):
    """Installs the second plan for longer than the lease of the first."""

    def install(self, plan: Plan | Mapping[str, Plan]) -> None:
        if self.plan is not None:
            time.sleep(4 * SHORT)
        super().install(plan)


@pytest.mark.parametrize("lease", [0.0, 1000.0])
def test_a_lease_that_runs_out_while_other_plans_come_does_not_end_them(lease: float) -> None:
    hook = SlowHook()
    service = serve(hook)
    with ControlClient(service.address) as client:
        client.install(PLAN, lease_seconds=SHORT)
        client.install(PLAN, lease_seconds=lease)
        time.sleep(SHORT)
        assert hook.plan is not None
    service.stop()


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e7])
def test_a_lease_out_of_range_is_refused(seconds: float) -> None:
    hook = FakeHook()
    service = serve(hook)
    with ControlClient(service.address) as client, pytest.raises(EnforcerError, match="lease"):
        client.install(PLAN, lease_seconds=seconds)
    assert hook.plan is None
    service.stop()
