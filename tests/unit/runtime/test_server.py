"""A server's beginning and end, as far as TensorFlow does not have to start."""

from contextlib import suppress
from typing import Any

import pytest

from tests.controlled import FakeHook
from tests.plans import plan_by_hand
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.control.limits import DEFAULT_LIMITS
from tfwave.runtime.server import DEFAULT_CONTROL, Server, _Ends

PLAN = plan_by_hand({Channel("a", "b"): ("edge_1_w",)})


class HurriedHook(FakeHook):
    """Somebody installs another plan as soon as one is removed."""

    address = ""

    def remove(self) -> None:
        super().remove()
        with ControlClient(self.address) as client, suppress(EnforcerError):
            client.install(PLAN)


class Starting:
    target = "grpc://127.0.0.1:1"

    def __init__(self, enforcer: Any) -> None:
        self.enforcer = enforcer

    def start(self) -> Any:
        return self

    def abandon(self) -> None:
        """It started."""


def test_no_plan_comes_in_behind_the_end_of_a_server() -> None:
    hook = HurriedHook()
    server = Server.__new__(Server)
    server._attach(Starting(hook), _Ends(DEFAULT_CONTROL, None, DEFAULT_LIMITS, None), ("ps", 0))
    hook.address = server.control_address
    with ControlClient(server.control_address) as client:
        client.install(PLAN)
    server.stop()
    assert hook.plan is None


def test_an_enforcer_that_there_is_not_is_refused() -> None:
    misspelt: Any = "Proxy"
    with pytest.raises(EnforcerError, match="no enforcer 'Proxy': give one of auto, hook, proxy"):
        Server({"ps": ["127.0.0.1:1"]}, "ps", 0, enforcer=misspelt)
