"""Ops in the order that a limited memory wants."""

from dataclasses import dataclass

from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass
from tfwave.plan.fitted import check_step, memory_of, turns_of
from tfwave.plan.plan import Plan
from tfwave.rewrite.fitted.chain import chain


@dataclass(frozen=True)
class InOrder(GraphPass):
    """Begin the ops that move a step's peak in the order of a plan of ``tfwave fit``.

    The plan says how many of those just before an op may still run when it begins: up to seven, as its limit
    has room. Control edges lead to it from those before these, where it does not wait for them anyway. Ops that
    hold few bytes, 2 % of the peak in all, are left free: constants, shapes, small updates.

    What runs again or comes back by the passes `recompute` and `offload` has its turn, too: run this one last.

    The plan belongs to the graph that ran, see `fit_memory`.

    Raises:
        PlanError: the plan was made for another graph, or does not say how a step fits.
    """

    plan: Plan

    def requires(self, view: GraphView) -> None:
        """The planned step is there."""
        check_step(memory_of(self.plan), view)

    def run(self, graph: GraphRewriter) -> None:
        """Add the control edges."""
        memory = memory_of(self.plan)
        chain(turns_of(memory, graph))
