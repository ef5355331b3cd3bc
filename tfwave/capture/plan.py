"""From a traced function straight to a plan."""

from collections.abc import Sequence
from dataclasses import replace

from tfwave.capture.worker_trace import CostedFunction
from tfwave.cost.network import Network
from tfwave.graph.names import Channel, task_of
from tfwave.graph.transfer import Transfer
from tfwave.plan.plan import ChannelOrder, Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.forecast import simulated
from tfwave.sim.steps import SimulatedSteps


def plan_function(costed: CostedFunction, policy: str, workers: Sequence[str]) -> Plan:
    """Order what a traced function transfers, the same for each of the `workers` (tasks) that run it.

    The forecast takes each channel for a link of its own.

    Case 1: a single step: what it pulls.
    Case 2: steps that overlap: what the worker pulls, and what it pushes once it has pulled something. What servers
        send each other, and what the worker sends at once, such as indices into tables, is small: it has no order.

    Raises:
        MissingCost: not one transfer was seen in the traces.
        GraphError: nothing to order.
    """
    function = costed.function
    request = PlanRequest(policy, device=function.task, workers=len(workers))  # 1
    if function.overlaps:  # 2
        request = PlanRequest(policy, workers=len(workers))
    plan = make_plan(function.view, _ordered(costed), Network(costed.network.given), request)
    orders = [_of(order, function.task, worker) for worker in workers for order in plan.orders]
    return replace(plan, orders=tuple(sorted(orders, key=lambda order: order.channel)))


def simulated_function(costed: CostedFunction, plan: Plan) -> SimulatedSteps:
    """A step of the worker that was traced: as its plan has it, and without an order.

    Raises:
        MissingCost, PlanError: as `tfwave.planner.forecast.forecast`.
    """
    task = costed.function.task
    own = [o for o in plan.orders if task in {task_of(o.channel.source), task_of(o.channel.destination)}]
    return simulated(_ordered(costed), Network(costed.network.given), own)


def _ordered(costed: CostedFunction) -> tuple[Transfer, ...]:
    """Those of which a plan is made."""
    function = costed.function
    if not function.overlaps:  # 1
        return costed.transfers
    chosen = {t.key for t in function.pulls} | ({t.key for t in function.pushes} - function.free)
    return tuple(t for t in costed.transfers if t.key in chosen)


def _of(order: ChannelOrder, planned: str, worker: str) -> ChannelOrder:
    """The order of another worker than the planned one."""
    ends = (
        worker + device.removeprefix(planned) if task_of(device) == planned else device
        for device in (order.channel.source, order.channel.destination)
    )
    channel = Channel(*ends)
    transfers = tuple(replace(t, key=replace(t.key, channel=channel)) for t in order.transfers)
    return replace(order, channel=channel, transfers=transfers)
