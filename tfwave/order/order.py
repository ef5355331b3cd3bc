"""What a policy is and what it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class Ranked:
    """A transfer with the policy's figure for it: lower is more urgent, equal means either may go first."""

    transfer: Transfer
    priority: float


Order = tuple[Ranked, ...]
"""All transfers into one task, most urgent first; none comes before a transfer that it depends on."""

Policy = Callable[[GraphView, Sequence[Transfer], Costs], Order]
"""It orders the transfers into one task, is pure, and blind to how nodes are numbered."""


def ranked_in_turn(transfers: Sequence[Transfer]) -> Order:
    """An order whose priorities are the ranks 0, 1, 2, ..."""
    return tuple(Ranked(transfer, float(rank)) for rank, transfer in enumerate(transfers))
