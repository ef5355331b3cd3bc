"""A placement with what it is predicted to give."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.balance.measure import measure, servers_now, totals
from tfwave.balance.variable import Variable
from tfwave.plan.placement import Placement

NO_GAIN = 0.01
"""A placement that takes less than this share off is not worth a new start."""


@dataclass(frozen=True)
class Balance:
    """A placement with what it is predicted to give.

    `variables` are sorted by name. Seconds and bytes of servers count a variable's transfers at its new server as
    they were at the old one: the servers' links are taken to be alike.
    """

    servers: int
    variables: tuple[Variable, ...]
    assigned: tuple[int, ...]
    """The server of each of `variables`."""

    @cached_property
    def placement(self) -> Placement:
        """For all variables, followers included, as a section of a plan."""
        pairs = zip(self.variables, self.assigned, strict=True)
        names = {name: server for v, server in pairs for name in v.names}
        return Placement(self.servers, names, self.bytes_after, self.bound_bytes)

    @property
    def bytes_now(self) -> tuple[int, ...] | None:
        """Of each server; None if some variable is on none of them."""
        now = servers_now(self.variables, self.servers)
        return None if now is None else totals(self.variables, now, self.servers)

    @property
    def bytes_after(self) -> tuple[int, ...]:
        """Of each server."""
        return totals(self.variables, self.assigned, self.servers)

    @property
    def wire_seconds_now(self) -> tuple[float, ...] | None:
        """Of each server, of the variables' transfers; None as for bytes, or if no time is known."""
        now = servers_now(self.variables, self.servers)
        return None if now is None else self._wire_seconds(now)

    @property
    def wire_seconds_after(self) -> tuple[float, ...] | None:
        """Of each server, of the variables' transfers; None if no time is known."""
        return self._wire_seconds(self.assigned)

    @property
    def waited_bytes(self) -> int:
        """The second measure of the placement."""
        return measure(self.variables, self.assigned, self.servers)[1]

    @property
    def waited_bytes_now(self) -> int | None:
        """The second measure of how things are; None as for bytes."""
        now = servers_now(self.variables, self.servers)
        return None if now is None else measure(self.variables, now, self.servers)[1]

    @property
    def bound_bytes(self) -> int:
        """No placement gives its busiest server less: the largest variable, or an equal part of all."""
        return max(self._equal_part, *(v.bytes for v in self.variables), 0)

    @property
    def too_large(self) -> Variable | None:
        """The variable that is by itself more than an equal part: only splitting it would make the servers even."""
        largest = max(self.variables, key=lambda v: (v.bytes, v.name), default=None)
        return largest if largest is not None and largest.bytes > self._equal_part else None

    @property
    def ratio(self) -> float:
        """The busiest server's bytes over the bound; 1 is perfect."""
        return max(self.bytes_after) / self.bound_bytes if self.bound_bytes else 1.0

    @property
    def gain(self) -> float | None:
        """Share of the busiest server's wire time (its bytes, if no time is known) that goes; None as for bytes."""
        now, after = self.wire_seconds_now, self.wire_seconds_after
        if now is None or after is None:
            now, after = self.bytes_now, self.bytes_after
        if now is None:
            return None
        return 1 - max(after) / max(now) if max(now) else 0.0

    @property
    def waited_gain(self) -> float | None:
        """Share of the bytes waited for that goes; None as for bytes."""
        now = self.waited_bytes_now
        if now is None:
            return None
        return 1 - self.waited_bytes / now if now else 0.0

    @property
    def gains(self) -> bool:
        """Whether to place anew.

        Not if it is known to take next to nothing off the busiest server and off the waits, or to load the busiest
        server with more wire time: bytes may be even where times are not.
        """
        if self.gain is None or self.waited_gain is None:
            return True
        return self.gain > -NO_GAIN and max(self.gain, self.waited_gain) >= NO_GAIN

    @property
    def _equal_part(self) -> int:
        return -(-sum(v.bytes for v in self.variables) // self.servers)

    def _wire_seconds(self, assigned: Sequence[int]) -> tuple[float, ...] | None:
        if not any(v.wire_seconds for v in self.variables):
            return None
        totals = [0.0] * self.servers
        for variable, server in zip(self.variables, assigned, strict=True):
            totals[server] += variable.wire_seconds
        return tuple(totals)
