"""The time oracle: costs from measured runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.cost.model import WIRE_OPS, CostSource, free_op_seconds, missing_transfer, vetted
from tfwave.graph.names import TransferKey
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class TimeOracle:
    """The minimum over the measured runs (TicTac section 5), in seconds.

    `op_samples` maps (device, node) and `transfer_samples` maps a key to the seconds of each run in which it
    was seen. An op without samples raises MissingCost, but for `FREE_OPS`; samples of a send or receive
    among the ops are not used.

    Raises:
        CostError: at first use, a sample that is negative, infinite or not a number; names the op.
    """

    op_samples: Mapping[tuple[str, str], Sequence[float]]
    transfer_samples: Mapping[TransferKey, Sequence[float]]

    @property
    def source(self) -> CostSource:
        """Measured; says over how many runs at most."""
        samples = [*self.op_samples.values(), *self.transfer_samples.values()]
        return CostSource("measured", "measured", f"minimum of {max(map(len, samples), default=0)} runs")

    def op_seconds(self, view: GraphView, node: int) -> float:
        """The fastest run of an op."""
        if view.ops[node] in WIRE_OPS:
            return 0.0
        seconds = self._op_minima.get((view.nodes[node].device, view.names[node]))
        return free_op_seconds(view, node) if seconds is None else seconds

    def transfer_seconds(self, transfer: Transfer) -> float:
        """The fastest run of a transfer."""
        seconds = self._transfer_minima.get(transfer.key)
        if seconds is None:
            raise missing_transfer(transfer.node, transfer.key)
        return seconds

    @cached_property
    def _op_minima(self) -> dict[tuple[str, str], float]:
        return {op: _minimum(runs, op[1]) for op, runs in self.op_samples.items() if runs}

    @cached_property
    def _transfer_minima(self) -> dict[TransferKey, float]:
        return {key: _minimum(runs, str(key)) for key, runs in self.transfer_samples.items() if runs}


def _minimum(runs: Sequence[float], name: str) -> float:
    return min(vetted(seconds, name) for seconds in runs)
