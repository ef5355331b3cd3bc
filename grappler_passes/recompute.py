"""Tensors that are made again when the backward pass wants them."""

from dataclasses import dataclass

from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.plan.fitted import check_step, memory_of, turns_of
from tfwave.plan.memory import RECOMPUTE, Memory
from tfwave.plan.plan import Plan
from tfwave.rewrite.fitted.again import MadeAgain
from tfwave.rewrite.fitted.turns import Turns, is_done


@dataclass(frozen=True)
class Recompute(GraphPass):
    """Drop tensors after the forward pass, and make them again before the backward pass wants them.

    Which tensors, by which ops and when is what a plan of ``tfwave fit`` says. Each of these ops gets a clone,
    which reads what the other clones make, and else what the step still holds; it waits for the turn that the plan
    gives it. The readers in the backward pass take what the clones made.

    1. A stateless random op gives the same numbers again. A stateful one would draw others: it is never cloned, and
       a plan that wants it is refused. What it gave is kept, or offloaded.
    2. A variable is not read again: clones take what the step read of it before its update.
    3. Moving averages, as of a batch normalisation, are updated by ops of their own, which have no clones: once.

    The plan belongs to the graph that ran, see `fit_memory`.

    Raises:
        PlanError: the plan was made for another graph, or does not say how a step fits.
        PassError: an op that may give something else when it runs twice.
    """

    plan: Plan

    def run(self, graph: GraphRewriter) -> None:
        """Add the clones, and let late readers take what they make."""
        memory = memory_of(self.plan)
        if not is_done(graph):
            check_step(memory, graph.view)
            make_again(turns_of(memory, graph), memory)


def make_again(turns: Turns, memory: Memory) -> None:
    """All that a plan makes again: first the clones, which then find each other."""
    made = [(MadeAgain(turns, t.again, t.back, label), t.names) for label, t in memory.labelled(RECOMPUTE)]
    for clones, names in made:
        clones.take(names)
