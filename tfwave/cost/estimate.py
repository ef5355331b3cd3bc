"""Estimates where costs are missing: only when asked for, and never silently."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tfwave.cost.analytic import fit
from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer


def estimated(costs: Costs, transfers: Sequence[Transfer]) -> Costs:
    """A table with estimates for those of its ops, and of these transfers, that it does not know.

    An op: the median of the known ops of its type, 0 s if there is none. A transfer: by its size over a link
    fitted to the known transfers; where that cannot be, the median of the known transfers. Of none that is known
    nothing can be said. The source tells how many are estimates.
    """
    ops, lacking = _ops(costs), [t for t in transfers if t.recv not in costs.transfers]
    if not (ops or lacking):
        return costs
    filled = costs.fill(ops, _transfers(costs, transfers, lacking))
    return replace(filled, source=_source(costs.source, len(ops), len(lacking), len(transfers)))


def _ops(costs: Costs) -> dict[int, float]:
    of_type: dict[str, list[float]] = defaultdict(list)
    for node, seconds in costs.ops.items():
        of_type[costs.view.ops[node]].append(seconds)
    typical = {op: statistics.median(seconds) for op, seconds in of_type.items()}
    return {n: typical.get(op, 0.0) for n, op in enumerate(costs.view.ops) if n not in costs.ops}


def _transfers(costs: Costs, transfers: Sequence[Transfer], lacking: Sequence[Transfer]) -> dict[int, float]:
    known = [(t.bytes, costs.transfers[t.recv]) for t in transfers if t.recv in costs.transfers]
    if not known:
        return {}
    sized = [sample for sample in known if sample[0]]
    link = fit(sized) if sized else None
    typical = statistics.median(seconds for _, seconds in known)
    return {t.recv: link.seconds(t.bytes) if link and t.bytes else typical for t in lacking}


def _source(known: CostSource, ops: int, lacking: int, transfers: int) -> CostSource:
    estimates = f"estimated {ops} ops and {lacking} of {transfers} transfers"
    return CostSource(
        "estimated" if ops else known.ops,
        "estimated" if lacking else known.transfers,
        f"{known.detail}; {estimates}" if known.detail else estimates,
    )
