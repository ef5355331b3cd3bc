"""What makes one placement better than another.

The measure of a placement is the pair of

1. the bytes of the busiest server;
2. the bytes waited for: summed over the moments t at which a step first needs something, the most that one server
   has to move of what is needed by t. All must be there at t, so the server that is behind counts.

Less of the first is better; where that is equal, less of the second.
"""

from collections.abc import Sequence

from tfwave.balance.exchange import Exchanges
from tfwave.balance.variable import Variable

MOST_MOMENTS = 256
"""So many moments of a step are told apart."""


def measure(variables: Sequence[Variable], assigned: Sequence[int], servers: int) -> tuple[int, int]:
    """(bytes of the busiest server, bytes waited for)."""
    return exchanges(variables, moving(variables), assigned, servers).measure


def totals(variables: Sequence[Variable], assigned: Sequence[int], servers: int) -> tuple[int, ...]:
    """The bytes of each server."""
    sums = [0] * servers
    for variable, server in zip(variables, assigned, strict=True):
        sums[server] += variable.bytes
    return tuple(sums)


def servers_now(variables: Sequence[Variable], servers: int) -> list[int] | None:
    """The server of each variable now; None if one is on none of so many."""
    now = [v.server for v in variables if v.server is not None and v.server < servers]
    return now if len(now) == len(variables) else None


def moving(variables: Sequence[Variable]) -> list[int]:
    """Those that move anything, largest first."""
    moving = [i for i, v in enumerate(variables) if v.bytes]
    return sorted(moving, key=lambda i: (-variables[i].bytes, variables[i].name))


def exchanges(
    variables: Sequence[Variable], moving: Sequence[int], assigned: Sequence[int], servers: int
) -> Exchanges:
    """The placement of the variables `moving`, in their order, to be measured and bettered."""
    own = [variables[i] for i in moving]
    return Exchanges([v.bytes for v in own], moments_of(own), [assigned[i] for i in moving], servers)


def moments_of(variables: Sequence[Variable]) -> list[int]:
    """The rank of each need among all that differ; where these are very many, equal parts of them count as one."""
    needs = sorted({v.need for v in variables})
    width = max(1, -(-len(needs) // MOST_MOMENTS))
    rank = {need: i // width for i, need in enumerate(needs)}
    return [rank[v.need] for v in variables]
