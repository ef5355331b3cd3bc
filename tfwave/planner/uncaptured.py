"""From a graph alone straight to a plan: its costs are in a file, or nothing is timed."""

from pathlib import Path

from tfwave.cost.file import load_costs
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import MissingCost
from tfwave.graph.item import GraphItem
from tfwave.graph.names import job_of, task_of
from tfwave.graph.partition.cut import cut
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.plan.plan import Plan
from tfwave.planner.plan import PlanRequest, make_plan

_TIMED = frozenset({"tac", "search", "exact"})
"""The policies that order by what ops and transfers take: without times all orders are alike to them."""


def plan_graph(item: GraphItem, view: GraphView, policy: str, costs: str | Path | None = None) -> Plan:
    """Order the transfers of a graph, cut or not; `view` is that of the item, `costs` a file as `load_costs` reads.

    Raises:
        MissingCost: the policy needs times that nobody gave.
        GraphError: nothing to order, or what `cut` refuses.
        TfwaveError: no such policy.
    """
    parts = as_it_runs(item, view)
    network = untraced_network(parts, policy, costs)
    return make_plan(parts, find_transfers(parts).data, network, PlanRequest(policy))


def as_it_runs(item: GraphItem, view: GraphView) -> GraphView:
    """A graph that names devices of several tasks or jobs, and is not cut, as TensorFlow cuts it; else as it is.

    Raises:
        GraphError: what `cut` refuses.
    """
    devices = {node.device for node in view.nodes}
    places = [{name_of(device) for device in devices} - {""} for name_of in (task_of, job_of)]
    uncut = max(map(len, places)) > 1 and not any(op in RECV_OPS for op in view.ops)
    return GraphView.of(*cut(item)) if uncut else view


def untraced_network(view: GraphView, policy: str, costs: str | Path | None) -> Network:
    """What a file says that ops and transfers take; without one, what counts transfers.

    Raises:
        CostError: as `load_costs`.
        MissingCost: no file, and the policy is none without times: "tac", "search" or "exact".
    """
    if costs is not None:
        return Network(load_costs(Path(costs), view))
    if policy in _TIMED:
        raise MissingCost(
            f"the policy '{policy}' needs times: give --costs FILE or a capture bundle, or choose the policy 'tic'"
        )
    return Network(uniform_costs(view))
