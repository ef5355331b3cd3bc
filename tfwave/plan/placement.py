"""The section of a plan on where variables lie: which server holds each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfwave.errors import PlanError


@dataclass(frozen=True)
class Placement:
    """The task number of the server of each variable, by the variable's name, and what that promises.

    `bytes` is predicted: what each server sends and receives for its variables in a step, by task; empty: not
    known. No placement gives its busiest server less than `bound_bytes`; 0: not known.

    Raises:
        PlanError: no server, a variable on a server that is not among them, or bytes of other servers.
    """

    servers: int
    variables: Mapping[str, int] = field(default_factory=dict[str, int])
    bytes: tuple[int, ...] = ()
    bound_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.servers < 1:
            raise PlanError(f"a placement on {self.servers} servers is none: give at least 1")
        for name in sorted(self.variables):
            if not 0 <= self.variables[name] < self.servers:
                raise PlanError(
                    f"variable '{name}' is placed on server {self.variables[name]}, "
                    f"but there are only {self.servers}, counted from 0"
                )
        if self.bytes and len(self.bytes) != self.servers:
            raise PlanError(
                f"the placement promises bytes of {len(self.bytes)} servers, and is for {self.servers}"
            )

    def check_servers(self, there: int) -> None:
        """Raises: PlanError: the job has another number of servers."""
        if there != self.servers:
            raise PlanError(
                f"the plan's placement is for {self.servers} servers, but the job has {there}: "
                f"make one with tfwave balance --servers {there}"
            )
