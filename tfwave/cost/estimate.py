"""Estimates where costs are missing: only when asked for, and never silently."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.cost.analytic import LinkModel, fit
from tfwave.cost.model import CostModel, CostSource
from tfwave.errors import MissingCost
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class EstimateMissing:
    """Another model's costs for one view, with estimates where it has none.

    An op: the median of the known ops of its type, 0 s if there is none. A transfer: by its size over `link`
    (if none is given, one fitted to the known transfers); where that cannot be, the median of the known
    transfers.

    Raises:
        MissingCost: a transfer is asked for, and not one is known to estimate from.
    """

    base: CostModel
    view: GraphView
    transfers: Sequence[Transfer]
    link: LinkModel | None = None

    @property
    def source(self) -> CostSource:
        """The other model's, with what is estimated and how many."""
        base = self.base.source
        ops, transfers = self.estimated_ops, self.estimated_transfers
        if not (ops or transfers):
            return base
        estimates = f"estimated {ops} ops and {transfers} of {len(self.transfers)} transfers"
        return CostSource(
            "estimated" if ops else base.ops,
            "estimated" if transfers else base.transfers,
            f"{base.detail}; {estimates}" if base.detail else estimates,
        )

    @property
    def estimated_ops(self) -> int:
        """How many ops of the view have an estimate."""
        return self._known_ops[1]

    @property
    def estimated_transfers(self) -> int:
        """How many of the transfers have an estimate."""
        return len(self.transfers) - len(self._known_transfers)

    def op_seconds(self, view: GraphView, node: int) -> float:
        """Seconds of an op, known or estimated."""
        try:
            return self.base.op_seconds(view, node)
        except MissingCost:
            return self._known_ops[0].get(view.ops[node], 0.0)

    def transfer_seconds(self, transfer: Transfer) -> float:
        """Seconds of a transfer, known or estimated."""
        try:
            return self.base.transfer_seconds(transfer)
        except MissingCost:
            if transfer.bytes and self._link is not None:
                return self._link.seconds(transfer.bytes)
            if not self._known_transfers:
                raise
            return statistics.median(self._known_transfers.values())

    @cached_property
    def _known_ops(self) -> tuple[dict[str, float], int]:
        """Median seconds by op type, and how many ops are not known."""
        known: dict[str, list[float]] = defaultdict(list)
        missing = 0
        for node, op in enumerate(self.view.ops):
            try:
                known[op].append(self.base.op_seconds(self.view, node))
            except MissingCost:
                missing += 1
        return {op: statistics.median(seconds) for op, seconds in known.items() if seconds}, missing

    @cached_property
    def _known_transfers(self) -> dict[Transfer, float]:
        known: dict[Transfer, float] = {}
        for transfer in self.transfers:
            try:
                known[transfer] = self.base.transfer_seconds(transfer)
            except MissingCost:
                continue
        return known

    @cached_property
    def _link(self) -> LinkModel | None:
        if self.link is not None:
            return self.link
        samples = [(t.bytes, seconds) for t, seconds in self._known_transfers.items() if t.bytes]
        return fit(samples) if samples else None
