"""Step time of one task under an order, by simulation."""

from collections.abc import Sequence

from tfwave.cost.table import Costs
from tfwave.cost.ticks import Ticks, ticks_of
from tfwave.graph.levels import natural_ranks
from tfwave.graph.transfer import Transfer, home_of_all, ops_at
from tfwave.graph.view import GraphView
from tfwave.plan.discipline import Discipline
from tfwave.sim.edges import forward_edges, refuse_deadlock
from tfwave.sim.engine import UNTIMED, Job, Lane, Pool, run


def makespan(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> float:
    """Seconds until the task that transfers go to has run all its ops and received them all, in their order.

    Each channel sends its transfers one after another in the order's sequence, each not before all that its
    `_Recv` waits for is done. One compute resource runs the ops of all the task's devices and never idles while
    one is ready; of the ready ops the one of least (longest-path level, name) goes first. At one instant, all that
    ends ends before the next op is chosen. Ops of other tasks, and receives outside the order, take no time.
    An empty order names no task: then only ops that name none either take time.

    Time is counted in integers (`ticks`), so the result does not depend on how nodes are numbered.

    Raises:
        PlanError: the order waits for itself: a transfer comes before one that it depends on.
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle, or transfers into more than one task.
    """
    ops = list(ops_at(view, home_of_all(transfers)))
    ticks = ticks_of(view, ops, transfers, costs)
    outcome = run(_job(view, ops, transfers, ticks))
    refuse_deadlock(view, outcome)
    return ticks.seconds(outcome.finish)


def _job(view: GraphView, ops: Sequence[int], transfers: Sequence[Transfer], ticks: Ticks) -> Job:
    """Unit 0 is the task; then come the channels."""
    lanes = {channel: lane for lane, channel in enumerate(sorted({t.channel for t in transfers}), 1)}
    units, durations = [UNTIMED] * len(view), [0] * len(view)
    for op, duration in zip(ops, ticks.ops, strict=True):
        units[op], durations[op] = 0, duration
    for transfer, duration in zip(transfers, ticks.transfers, strict=True):
        units[transfer.recv], durations[transfer.recv] = lanes[transfer.channel], duration
    successors, pending = forward_edges(view)
    return Job(
        units,
        durations,
        successors,
        pending,
        pools=[Pool(fifo=False)],
        lanes=[Lane(Discipline.COUNTER) for _ in lanes],
        pooled=list(natural_ranks(view, ops, view.levels)),
        carried=[transfer.recv for transfer in transfers],
    )
