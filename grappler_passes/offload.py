"""Tensors that are on the host until the backward pass wants them."""

from dataclasses import dataclass

from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.plan.fitted import check_step, memory_of, turns_of
from tfwave.plan.memory import OFFLOAD, Memory
from tfwave.plan.plan import Plan
from tfwave.rewrite.fitted.stashed import Stashed
from tfwave.rewrite.fitted.turns import Turns, is_done


@dataclass(frozen=True)
class Offload(GraphPass):
    """Copy tensors to the host's memory after the forward pass, and back before the backward pass wants them.

    Which tensors and when is what a plan of ``tfwave fit`` says. The two ops that copy are those of tfwave's native
    library, which the process that runs the graph has to load: `TfwaveStash` takes the tensor out of TensorFlow's
    pool behind the last op of the forward pass that uses it, and the op that needs its bytes waits for that;
    `TfwaveFetch` brings it back some ops ahead of the first that reads it. Nothing of the backward pass reads the
    tensor itself, so that its bytes are free meanwhile.

    The plan belongs to the graph that ran, see `fit_memory`.

    Raises:
        PlanError: the plan was made for another graph, or does not say how a step fits.
        PassError: what is to be offloaded is no plain tensor.
    """

    plan: Plan

    def run(self, graph: GraphRewriter) -> None:
        """Add the copies, and let late readers take what comes back."""
        memory = memory_of(self.plan)
        if not is_done(graph):
            check_step(memory, graph.view)
            move_away(turns_of(memory, graph), memory)


def move_away(turns: Turns, memory: Memory) -> None:
    """All that a plan offloads."""
    for label, tensor in memory.labelled(OFFLOAD):
        Stashed(turns, tensor.names, tensor.after, label).move(tensor.gone, tensor.back)
