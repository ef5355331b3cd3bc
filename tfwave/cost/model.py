"""What ops and transfers cost, in seconds, and how one knows."""

import math
from dataclasses import dataclass
from typing import Protocol

from tfwave.errors import CostError, MissingCost
from tfwave.graph.names import TransferKey
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import RECV_OPS, SEND_OPS, GraphView

WIRE_OPS = SEND_OPS | RECV_OPS
"""Cost nothing as ops: their time is their transfer's."""

FREE_OPS = frozenset(
    {
        "NoOp",  # the executor marks it done without calling a kernel
        "Const",  # hands out a tensor that is ready since the graph was built
        "HostConst",
        "Placeholder",  # in a graph that runs it is fed, so its kernel never starts
        "_Arg",  # pass a tensor over the border of the graph by reference
        "_Retval",
        "_DeviceArg",
        "_DeviceRetval",
    }
)
"""Cost nothing where no cost is given: no kernel work of their own, and traces may leave them out."""


@dataclass(frozen=True)
class CostSource:
    """Where costs come from; kinds: "measured", "estimated", "uniform", "file"."""

    ops: str
    transfers: str
    detail: str = ""


class CostModel(Protocol):
    """Seconds of each op and transfer on a resource of its own (TicTac section 3.1's time oracle)."""

    @property
    def source(self) -> CostSource:
        """Where these costs come from."""
        ...

    def op_seconds(self, view: GraphView, node: int) -> float:
        """Seconds of an op, by its index in the view.

        Raises:
            MissingCost: not known; names the node.
        """
        ...

    def transfer_seconds(self, transfer: Transfer) -> float:
        """Seconds of a transfer.

        Raises:
            MissingCost: not known; names the `_Recv` node or the channel.
        """
        ...


def vetted(seconds: float, name: str) -> float:
    """The same cost, if it can be one.

    Raises:
        CostError: negative, infinite or not a number; names the op.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise CostError(f"the cost of '{name}' is {seconds} s: it must be a finite number, zero or more")
    return seconds


def free_op_seconds(view: GraphView, node: int) -> float:
    """The cost of an op for which none is given: 0 s, for `FREE_OPS` and `WIRE_OPS` only.

    Raises:
        MissingCost: any other op; names the node.
    """
    if view.ops[node] in FREE_OPS or view.ops[node] in WIRE_OPS:
        return 0.0
    raise MissingCost(
        f"no cost is known for node '{view.names[node]}' ({view.ops[node]}): "
        "give one, trace more runs, or allow estimates"
    )


def missing_transfer(node: str, key: TransferKey) -> MissingCost:
    """The error for a transfer without a cost, by its `_Recv` node."""
    return MissingCost(
        f"no cost is known for the transfer that '{node}' receives ({key}): "
        "give one, trace more runs, or allow estimates"
    )
