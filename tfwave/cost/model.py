"""What a cost is, in seconds, which ops have none, and how one knows."""

import math
from dataclasses import dataclass

from tfwave.errors import CostError
from tfwave.graph.view import RECV_OPS, SEND_OPS

WIRE_OPS = SEND_OPS | RECV_OPS
"""They cost nothing as ops: their time is their transfer's."""

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
"""They cost nothing where no cost is given: they do no kernel work, and traces may leave them out."""


@dataclass(frozen=True)
class CostSource:
    """Where costs come from; kinds: "measured", "estimated", "uniform", "file"."""

    ops: str
    transfers: str
    detail: str = ""


def vetted(seconds: float, name: str) -> float:
    """The same cost, if it can be one.

    Raises:
        CostError: negative, infinite or not a number; names the op.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise CostError(f"the cost of '{name}' is {seconds} s: it must be a finite number, zero or more")
    return seconds
