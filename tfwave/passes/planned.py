"""A pass that orders by a policy: its plan is made of the very graph that comes into it."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.order.registry import find_policy
from tfwave.passes.base import GraphPass, PassResult, Transform
from tfwave.plan.annotation import annotated_orders
from tfwave.plan.plan import Plan

Planner = Callable[[GraphItem, GraphView, str], Plan]
"""It makes the plan for a graph, whose view it is given, by the policy of that name."""

_POLICY = "policy"


@dataclass(frozen=True)
class Planned(Transform):
    """Plans, then runs the pass with that plan: a pass itself edits, and decides nothing.

    A pass that can be planned for has a field ``plan: Plan | None`` and the option `policy`, a name. Where a graph
    bears an order already there is nothing to plan: the pass is run as it is.
    """

    graph_pass: GraphPass
    planner: Planner

    def apply(self, item: GraphItem, view: GraphView) -> tuple[PassResult, GraphView]:
        """Plan the graph and rewrite it."""
        if annotated_orders(view):
            return self.graph_pass.apply(item, view)
        plan = self.planner(item, view, policy_of(self.graph_pass))
        taught: Any = replace(self.graph_pass, plan=plan)  # pyright: ignore[reportCallIssue]
        return taught.apply(item, view)

    def __str__(self) -> str:
        """The text form of the pass, which names the policy and no plan."""
        return str(self.graph_pass)


def policy_of(graph_pass: GraphPass) -> str:
    """The policy that a pass asks a plan of; empty if it asks for none."""
    options = graph_pass.options()
    handed_over = {field.name for field in fields(graph_pass)} - options.keys()
    return getattr(graph_pass, _POLICY) if _POLICY in options and "plan" in handed_over else ""


def planned(graph_pass: GraphPass, plan: Plan | None, planner: Planner) -> Transform:
    """The pass, and before it the making of its plan if it names a policy.

    Raises:
        TfwaveError: there is no such policy.
        PassError: it names one, and a plan is given, too.
    """
    policy = policy_of(graph_pass)
    if not policy:
        return graph_pass
    find_policy(policy)
    if plan is not None:
        raise PassError(
            f"{graph_pass} plans by itself, and a plan is given, too: leave out --plan or the option '{_POLICY}'"
        )
    return Planned(graph_pass, planner)
