"""What a placement is decided by."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError


@dataclass(frozen=True)
class Variable:
    """A variable, or several that must share a server: the others are its `followers`.

    Attributes:
        name: of the variable in its graph.
        bytes: that its server sends and receives for it in a step, to and from all tasks.
        need: when a step first needs its value: seconds or a rank, the same kind for all.
        resident_bytes: that its server holds for it and for its followers; 0 where the graph does not say.
        wire_seconds: that its transfers take in a step; 0 where no time is known.
        server: the task number of the server that it is on now, if any.
        followers: names of variables that go where this one goes, such as the slots of an optimizer.
    """

    name: str
    bytes: int
    need: float
    resident_bytes: int = 0
    wire_seconds: float = 0.0
    server: int | None = None
    followers: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Its own and those of its followers."""
        return (self.name, *self.followers)


def refuse_duplicates(variables: Sequence[Variable]) -> None:
    """Raises: GraphError: two variables of one name."""
    seen: set[str] = set()
    for name in (name for variable in variables for name in variable.names):
        if name in seen:
            raise GraphError(f"the variable '{name}' is there twice: names must differ to be placed by")
        seen.add(name)
