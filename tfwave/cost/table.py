"""Costs as data: one table of seconds, and what can be done with it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tfwave.cost.model import FREE_OPS, WIRE_OPS, CostSource
from tfwave.errors import CostError, MissingCost
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView

_T = TypeVar("_T")
_WAY_OUT = "give one, trace more runs, or allow estimates"


@dataclass(frozen=True)
class Costs:
    """Seconds of the ops and transfers of a view, each on a resource of its own (TicTac section 3.1's time oracle).

    What is not in the table is not known.

    Attributes:
        view: whose nodes the table speaks of, by their index.
        ops: seconds of each op that is known; sends and receives take none: their time is their transfer's.
        transfers: seconds of each transfer that is known, by its `_Recv`.
        source: where they come from.
        why: of transfers that are not known, by `_Recv`, the reason, where there is more to it than that.
    """

    view: GraphView
    ops: Mapping[int, float]
    transfers: Mapping[int, float]
    source: CostSource
    why: Mapping[int, str] = field(default_factory=dict[int, str])

    @classmethod
    def of(
        cls, view: GraphView, ops: Mapping[int, float], transfers: Mapping[int, float], source: CostSource
    ) -> "Costs":
        """A table of what is given, by node.

        Case 1: `WIRE_OPS` take nothing as ops, whatever is given.
        Case 2: `FREE_OPS` that are not given take nothing.
        """
        free = {node: 0.0 for node, op in enumerate(view.ops) if op in FREE_OPS}
        wire = {node: 0.0 for node, op in enumerate(view.ops) if op in WIRE_OPS}
        return cls(view, {**free, **ops, **wire}, transfers, source)

    @classmethod
    def named(
        cls, view: GraphView, ops: Mapping[str, float], transfers: Mapping[str, float], source: CostSource
    ) -> "Costs":
        """A table of what is given by name; that of a transfer is its `_Recv`'s.

        A name counts for each partition that has it.
        """
        return cls.of(view, _by_node(view, ops), _by_node(view, transfers), source)

    def op_seconds(self, node: int) -> float:
        """Seconds of an op, by its index in the view.

        Raises:
            MissingCost: not known; names the node.
        """
        seconds = self.ops.get(node)
        if seconds is None:
            raise MissingCost(
                f"no cost is known for node '{self.view.names[node]}' ({self.view.ops[node]}): {self._way_out}"
            )
        return seconds

    def transfer_seconds(self, transfer: Transfer) -> float:
        """Seconds of a transfer.

        Raises:
            MissingCost: not known; names the `_Recv` node or the channel.
        """
        seconds = self.transfers.get(transfer.recv)
        if seconds is None:
            what = f"the transfer that '{transfer.node}' receives ({transfer.key})"
            raise MissingCost(self.why.get(transfer.recv, f"no cost is known for {what}: {self._way_out}"))
        return seconds

    @property
    def _way_out(self) -> str:
        """With what is known of a file, in which a name may be wrong."""
        return f"{_WAY_OUT} (costs are of {self.source.detail})" if self.source.ops == "file" else _WAY_OUT

    def check_view(self, view: GraphView) -> None:
        """Refuse to speak of the nodes of another view.

        Raises:
            CostError: its nodes are others, or in another sequence.
        """
        if view.names != self.view.names:
            raise CostError(
                "the costs are of another graph: make them from the view that they are given with"
            )

    def fill(self, ops: Mapping[int, float], transfers: Mapping[int, float] | None = None) -> "Costs":
        """With these seconds, by node, where none are known; what is known stays."""
        return replace(self, ops={**ops, **self.ops}, transfers={**(transfers or {}), **self.transfers})

    def scale(self, factor: float, nodes: Iterable[int]) -> "Costs":
        """With so many times the seconds for the ops of these nodes, which makes estimates of them."""
        if factor == 1:
            return self
        scaled = {node: self.ops[node] * factor for node in nodes if node in self.ops}
        return replace(self, ops={**self.ops, **scaled}, source=replace(self.source, ops="estimated"))

    def restrict(self, view: GraphView, origins: Sequence[int]) -> "Costs":
        """The table of a view whose nodes are some of this one's, or copies of them: `origins` tells which."""
        return Costs(
            view, _at(origins, self.ops), _at(origins, self.transfers), self.source, _at(origins, self.why)
        )


def _by_node(view: GraphView, seconds: Mapping[str, float]) -> dict[int, float]:
    return {node: seconds[name] for node, name in enumerate(view.names) if name in seconds}


def _at(origins: Sequence[int], column: Mapping[int, _T]) -> dict[int, _T]:
    return {node: column[origin] for node, origin in enumerate(origins) if origin in column}
