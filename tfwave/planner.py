"""From a graph and its costs to a plan: the one place where policies, bounds and the simulator meet."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.cost.model import CostModel
from tfwave.errors import GraphError
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.bounds import find_bounds
from tfwave.order.deps import upstream_transfers
from tfwave.order.order import Order
from tfwave.order.registry import find_policy
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.plan import ChannelOrder, Plan, PlannedTransfer, Predicted
from tfwave.sim.makespan import makespan


@dataclass(frozen=True)
class PlanRequest:
    """What to plan: a policy by name, the seed of "random", and one device (default: all that pull)."""

    policy: str
    seed: int = 0
    device: str | None = None


def make_plan(view: GraphView, transfers: Sequence[Transfer], costs: CostModel, request: PlanRequest) -> Plan:
    """Order the data transfers into each chosen device, and say what that should give.

    The predicted figures are those of the slowest device.

    Raises:
        GraphError: nothing to order, or an unknown device; names those there are.
        MissingCost: a cost is not known; names it.
    """
    order_of = find_policy(request.policy, seed=request.seed)
    planned: list[tuple[Order, Predicted]] = []
    for device in _destinations(view, transfers, request.device):
        own = [t for t in transfers if t.channel.destination == device]
        order = order_of(view, own, costs)
        planned.append((order, _predict(view, order, costs)))
    return Plan(
        policy=request.policy,
        graph=graph_print(view),
        costs=costs.source,
        predicted=max((p for _, p in planned), key=lambda p: p.makespan_seconds),
        orders=tuple(channel for order, _ in planned for channel in _per_channel(order)),
    )


def _destinations(view: GraphView, transfers: Sequence[Transfer], device: str | None) -> list[str]:
    """The devices to plan for: `device`, or all that something can reach at the very start of a step.

    Where all that arrives has waited for other transfers, such as gradients at a server, a counter would only
    idle the link.
    """
    there = sorted({t.channel.destination for t in transfers})
    if not there:
        raise GraphError(
            "the graph receives no tensor from another task (no _Recv with data): "
            "give a partition graph of a worker, or a capture bundle"
        )
    if device is not None:
        if device not in there:
            raise GraphError(f"no transfer arrives at device '{device}'; choose one of {', '.join(there)}")
        return [device]
    upstream = upstream_transfers(view, transfers)
    free = {t.channel.destination for i, t in enumerate(transfers) if upstream[t.recv] == 1 << i}
    return sorted(free)


def _predict(view: GraphView, order: Order, costs: CostModel) -> Predicted:
    bounds = find_bounds(view, [r.transfer for r in order], costs)
    seconds = makespan(view, [r.transfer for r in order], costs)
    return Predicted(
        bounds.upper_seconds, bounds.lower_seconds, seconds, bounds.efficiency(seconds), bounds.speedup
    )


def _per_channel(order: Order) -> list[ChannelOrder]:
    channels: dict[Channel, list[PlannedTransfer]] = {}
    for ranked in order:
        turn = channels.setdefault(ranked.transfer.channel, [])
        transfer = ranked.transfer
        turn.append(
            PlannedTransfer(
                transfer.key, transfer.node, len(turn), ranked.priority, transfer.bytes, transfer.edge
            )
        )
    return [ChannelOrder(channel, tuple(channels[channel])) for channel in sorted(channels)]
