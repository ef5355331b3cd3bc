"""The general time oracle of TIC."""

from dataclasses import dataclass

from tfwave.cost.model import CostSource
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class UniformCosts:
    """1 s for each transfer and 0 s for each op (TicTac section 4.2, Eq. 5): counts transfers."""

    @property
    def source(self) -> CostSource:
        """Uniform."""
        return CostSource("uniform", "uniform")

    def op_seconds(self, view: GraphView, node: int) -> float:
        """Always 0 s."""
        return 0.0

    def transfer_seconds(self, transfer: Transfer) -> float:
        """Always 1 s."""
        return 1.0
