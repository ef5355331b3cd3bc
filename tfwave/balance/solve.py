"""Placing variables: largest first, then exchanges until each moment of a step is even too."""

from collections.abc import Sequence

from tfwave.balance.measure import exchanges, measure, moving, servers_now
from tfwave.balance.result import Balance
from tfwave.balance.variable import Variable, refuse_duplicates
from tfwave.errors import GraphError, PlanError

MOST_SERVERS = 2**12
_MOST_BYTES = 2**62
"""More are taken for a damaged graph."""


def balance(variables: Sequence[Variable], servers: int) -> Balance:
    """Place variables on so many servers, by `measure`.

    Largest first, each onto the server with the least so far; then single moves and exchanges of two variables of
    like size, as long as one betters the measure. The placement of now is kept where this is no better. What
    moves nothing is placed by the bytes that it holds. Ties go to the lower name and server.

    Raises:
        PlanError: no server, or more than `MOST_SERVERS`.
        GraphError: two variables of one name, or more bytes than any job moves.
    """
    if not 1 <= servers <= MOST_SERVERS:
        raise PlanError(f"cannot place variables on {servers} servers: give from 1 to {MOST_SERVERS}")
    if sum(v.bytes for v in variables) >= _MOST_BYTES:
        largest = max(variables, key=lambda v: (v.bytes, v.name))
        raise GraphError(f"variable '{largest.name}' cannot have {largest.bytes} bytes: the graph is damaged")
    refuse_duplicates(variables)
    ordered = tuple(sorted(variables, key=lambda v: v.name))
    best = largest_first(ordered, servers)
    now = servers_now(ordered, servers)
    if now is not None and measure(ordered, now, servers) < measure(ordered, best, servers):
        best = now
    best = _exchanged(ordered, best, servers)
    if now is not None and measure(ordered, now, servers) == measure(ordered, best, servers):
        best = now
    return Balance(servers, ordered, tuple(best))


def largest_first(variables: Sequence[Variable], servers: int) -> list[int]:
    """The server of each variable: largest first (of equal ones the soonest needed) onto the least loaded one."""
    moved, resident = [0] * servers, [0] * servers
    assigned = [0] * len(variables)

    def key(i: int) -> tuple[object, ...]:
        variable = variables[i]
        return (
            -variable.bytes,
            -variable.resident_bytes if not variable.bytes else 0,
            variable.need,
            variable.name,
        )

    for i in sorted(range(len(variables)), key=key):
        first, second = (moved, resident) if variables[i].bytes else (resident, moved)
        server = min(range(servers), key=lambda s: (first[s], second[s], s))
        assigned[i] = server
        moved[server] += variables[i].bytes
        resident[server] += variables[i].resident_bytes
    return assigned


def _exchanged(variables: Sequence[Variable], assigned: Sequence[int], servers: int) -> list[int]:
    order = moving(variables)
    better = exchanges(variables, order, assigned, servers)
    better.improve()
    result = list(assigned)
    for i, server in zip(order, better.assigned, strict=True):
        result[i] = server
    return result
