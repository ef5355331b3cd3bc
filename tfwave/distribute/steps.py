"""How many steps one call of a function should make."""

from dataclasses import dataclass
from itertools import pairwise

from tfwave.capture.worker_trace import CostedFunction
from tfwave.graph.transfer import device_ops

CHOICES = (1, 2, 4, 8, 16, 32)
WORTH_WHILE = 0.02
"""Share of a step's time that twice the steps must save."""
MOST_NODES = 100_000
"""Of the function's graph: each worker and server cuts, optimizes and keeps it."""
MOST_BYTES = 4 << 30
"""That may lie on a worker, if all steps of a call had pulled all they need."""


@dataclass(frozen=True)
class StepFigures:
    """One step of a function on one worker.

    Attributes:
        compute_seconds: of all its ops there.
        pull_seconds: of all transfers to it.
        push_seconds: of all transfers from it.
        largest_seconds: of the longest transfer.
        nodes: of its graph.
        bytes: that the worker receives.
    """

    compute_seconds: float
    pull_seconds: float
    push_seconds: float
    largest_seconds: float
    nodes: int
    bytes: int

    def seconds(self, steps: int) -> float:
        """Of a step, at least, if so many make a call.

        The bound of a flow shop: a call begins with the pulls of its first step and ends with the pushes of its
        last. Between them the busier direction has the others to do, and each step waits while a tensor is pushed
        whole before it is pulled again.
        """
        between = max(self.pull_seconds, self.push_seconds) + self.largest_seconds
        wire = self.pull_seconds + self.push_seconds + (steps - 1) * between
        return max(self.compute_seconds, wire / steps)


def choose_steps(step: StepFigures) -> int:
    """The fewest steps of a call that twice as many would not make faster by more than `WORTH_WHILE`.

    Never more than the graph's size and the worker's memory allow, by `MOST_NODES` and `MOST_BYTES`.
    """
    allowed = [
        k for k in CHOICES if k == 1 or (k * step.nodes <= MOST_NODES and k * step.bytes <= MOST_BYTES)
    ]
    for steps, more in pairwise(allowed):
        if step.seconds(steps) <= (1 + WORTH_WHILE) * step.seconds(more):
            return steps
    return allowed[-1]


def step_figures(costed: CostedFunction) -> StepFigures:
    """Figures of a function that makes one step, from its traces.

    Raises:
        MissingCost: a cost is not known; names it.
    """
    function, costs = costed.function, costed.costs
    pulls, pushes = (
        [t for t in costed.transfers if t.key in side]
        for side in ({t.key for t in function.pulls}, {t.key for t in function.pushes})
    )
    seconds = {t.key: costs.transfer_seconds(t) for t in (*pulls, *pushes)}
    return StepFigures(
        compute_seconds=sum(
            costs.op_seconds(function.view, i) for i in device_ops(function.view, function.worker)
        ),
        pull_seconds=sum(seconds[t.key] for t in pulls),
        push_seconds=sum(seconds[t.key] for t in pushes),
        largest_seconds=max(seconds.values(), default=0.0),
        nodes=len(function.view),
        bytes=sum(t.bytes for t in pulls),
    )
