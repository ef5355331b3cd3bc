"""A hook that needs no TensorFlow, and raw calls to the control service that guards it."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2


class FakeHook:
    def __init__(self) -> None:
        self.plan: Plan | Mapping[str, Plan] | None = None
        self.settings: dict[str, Any] = {}

    def install(self, plan: Plan | Mapping[str, Plan]) -> None:
        self.plan = plan

    def remove(self) -> None:
        self.plan = None

    def configure(self, **settings: Any) -> None:
        self.settings |= settings

    def status(self) -> control_pb2.Status:
        return control_pb2.Status(enforcer="fake", installed=self.plan is not None)

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        return control_pb2.HandOffs(next_cursor=cursor + 1)


def open_channel(address: str) -> Any:
    """Of its own connection, and without limits."""
    options = [
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return grpc.insecure_channel(address, options=options)


def raw_call(channel: Any, method: str, body: bytes, metadata: Sequence[tuple[str, str]] = ()) -> Any:
    """Send bytes that need be no message; gives the call, done or failed."""
    call = channel.unary_unary(f"/tfwave.Control/{method}").future(body, timeout=60, metadata=metadata)
    call.exception()  # waits
    return call


def flood(address: str, calls: int, metadata: Sequence[tuple[str, str]] = ()) -> list[Any]:
    """Calls of Health that are all under way at once; gives the calls, done or failed."""
    with open_channel(address) as channel:
        health = channel.unary_unary("/tfwave.Control/Health")
        under_way = [health.future(b"", timeout=30, metadata=metadata) for _ in range(calls)]
        for call in under_way:
            call.exception()  # waits
    return under_way
