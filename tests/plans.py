"""Plans by hand, and a control client that sends what no `Plan` can hold."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from tfwave.cost.model import CostSource
from tfwave.graph.names import Channel, TransferKey
from tfwave.plan.discipline import Discipline
from tfwave.plan.fingerprint import GraphPrint
from tfwave.plan.plan import ChannelOrder, Plan, PlannedTransfer, Predicted
from tfwave.proto import control_pb2, control_pb2_grpc, plan_pb2


def plan_by_hand(orders: Mapping[Channel, Sequence[str]], window_bytes: int = 0) -> Plan:
    """The edges of each channel, in the order given; with a window by priority, else by a counter."""
    discipline = Discipline.PRIORITY if window_bytes else Discipline.COUNTER
    return Plan(
        policy="random",
        graph=GraphPrint("", (), b""),
        costs=CostSource("uniform", "uniform"),
        predicted=Predicted(0, 0, 0, 0, 0),
        orders=tuple(
            ChannelOrder(channel, _turns(channel, edges), discipline, window_bytes)
            for channel, edges in orders.items()
        ),
    )


def _turns(channel: Channel, edges: Sequence[str]) -> tuple[PlannedTransfer, ...]:
    return tuple(
        PlannedTransfer(TransferKey(edge, 0, channel), node="", rank=rank, priority=0, bytes=0, edge=edge)
        for rank, edge in enumerate(edges)
    )


def refusal_of(address: str, plan: plan_pb2.Plan) -> str:
    """Why the control service at `address` refuses a message, sent with the setting "off"."""
    request = control_pb2.InstallRequest(plan=plan, settings=control_pb2.Settings(enabled=False))
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub: Any = control_pb2_grpc.ControlStub(channel)
        answer = stub.Install.future(request, timeout=10)
        assert answer.code() == grpc.StatusCode.INVALID_ARGUMENT
        return answer.details()
