"""What a plan must hold before a running process is asked to obey it."""

from collections.abc import Iterable

from tfwave.errors import PlanError
from tfwave.proto import plan_pb2


def check_plan(plan: plan_pb2.Plan) -> None:
    """Check that each order is a total order of different transfers on a channel of its own.

    Raises:
        PlanError: names the channel and what is wrong.
    """
    channels = [f"{order.source_device} -> {order.destination_device}" for order in plan.orders]
    twice = _first_repeated(channels)
    if twice:
        raise PlanError(f"the plan orders {twice} twice: make one order for each channel")
    for channel, order in zip(channels, plan.orders, strict=True):
        _check_order(channel, order)


def _check_order(channel: str, order: plan_pb2.Order) -> None:
    if not (order.source_device and order.destination_device):
        raise PlanError(f"order {channel} lacks a device: make the plan again")
    ranks = sorted(t.rank for t in order.transfers)
    if ranks != list(range(len(ranks))):
        raise PlanError(f"the ranks of {channel} are not each of 0 to {len(ranks) - 1} once: make it again")
    if not all(t.edge for t in order.transfers):
        raise PlanError(f"a transfer of {channel} names no edge: make the plan from a partitioned graph")
    edges = (t.edge for t in order.transfers)
    keys = (t.key for t in order.transfers if t.key)
    twice = _first_repeated(edges) or _first_repeated(keys)
    if twice:
        raise PlanError(f"the plan names '{twice}' twice on {channel}: make it again")


def _first_repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
