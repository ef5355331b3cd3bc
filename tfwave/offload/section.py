"""A fit as the section of a plan."""

from collections.abc import Sequence

from tfwave.offload.fit import Fit
from tfwave.offload.layout import Method
from tfwave.offload.moves import Move
from tfwave.plan.fingerprint import GraphPrint
from tfwave.plan.memory import OFFLOAD, RECOMPUTE, AwayTensor, Memory


def memory_section(fit: Fit, graph: GraphPrint, limit_bytes: int, least_bytes: int) -> Memory:
    """What is to be done with the step that ran this graph, and what that promises."""
    step = fit.layout.step
    order = tuple(step.ops[op].node for op in fit.layout.order)
    return Memory(
        graph=graph,
        limit_bytes=limit_bytes,
        policy=fit.policy.value,
        order=order,
        tensors=tuple(_tensor(fit, move, order) for move in fit.forecast.moves),
        peak_bytes=fit.forecast.peak,
        seconds=fit.seconds,
        plain_seconds=step.seconds,
        least_bytes=least_bytes,
        chained=tuple(order[place] for place in fit.forecast.turns.places),
        beside=fit.forecast.turns.beside,
    )


def _tensor(fit: Fit, move: Move, names: Sequence[str]) -> AwayTensor:
    layout, candidate = fit.layout, fit.layout.candidates[move.number]
    ops = layout.step.ops
    again = move.method == Method.RECOMPUTE
    return AwayTensor(
        names=layout.step.buffers[candidate.buffer].names,
        bytes=candidate.bytes,
        method=RECOMPUTE if again else OFFLOAD,
        after=names[move.left],
        gone=names[move.gone],
        back=names[move.back],
        wanted=names[candidate.wanted],
        again=tuple(ops[op].node for op in candidate.chain.ops) if again and candidate.chain else (),
    )
