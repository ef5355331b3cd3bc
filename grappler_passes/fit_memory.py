"""A step that keeps to a limited memory."""

from dataclasses import dataclass

from grappler_passes.offload import move_away
from grappler_passes.recompute import make_again
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.plan.fitted import check_step, memory_of, turns_of
from tfwave.plan.plan import Plan
from tfwave.rewrite.fitted.apart import keep_apart, swap_inputs
from tfwave.rewrite.fitted.chain import chain
from tfwave.rewrite.fitted.owned import own_buffers
from tfwave.rewrite.fitted.turns import is_done


@dataclass(frozen=True)
class FitMemory(GraphPass):
    """Make a training step keep to a limited memory, by a plan of ``tfwave fit``.

    It does what `recompute`, `offload` and `in_order` do. Where the plan has places for what ops make
    (``tfwave fit --placement``), they keep to these, and go on in no buffer that they read, but where the plan
    reckons with it. Variables that begin as constants get buffers of their own, outside the step: else their first
    updates would take them in its middle, and for good.

    The plan belongs to the graph that ran, as TensorFlow's optimizer (Grappler) left it.

    1. Captured with the optimizer off, it goes for the graph of the program, too: offline, or by `tfwave.install`
       on a session or a `tf.function`. Run that with the optimizer off: it could make other kernels, which round
       otherwise.
    2. Captured with the optimizer on, it is applied behind that: by `tfwave.in_grappler`, around the first run,
       where only the step is seen, and not where variables begin.

    A graph in which a node of the plan is missing is refused.

    Raises:
        PlanError: the plan was made for another graph, or does not say how a step fits.
        PassError: an op that would have to run again may give something else, or what is to be offloaded is no
            plain tensor.
    """

    plan: Plan

    def run(self, graph: GraphRewriter) -> None:
        """Add clones, copies and control edges."""
        memory = memory_of(self.plan)
        if is_done(graph):
            return
        check_step(memory, graph.view)
        swap_inputs(graph, memory.swapped)
        turns = turns_of(memory, graph)
        make_again(turns, memory)
        move_away(turns, memory)
        chain(turns)
        keep_apart(graph, memory.apart)
        own_buffers(graph, memory.order)
