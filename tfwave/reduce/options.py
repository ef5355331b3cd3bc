"""What a member is told: who it is, whom it reduces with, and how."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal, get_args

from tfwave.errors import EnforcerError
from tfwave.proto.reduce_pb2 import Hello
from tfwave.reduce.groups import Groups
from tfwave.reduce.held import Local
from tfwave.runtime.control.credentials import Credentials

Probes = int | Literal["all"]

MOST_WORKERS = 256
"""Each has a thread of the coordinator."""

LONGEST_SECONDS = 1e6
"""Nobody is waited for longer: eleven days, which every clock can tell."""


@dataclass(frozen=True)
class Options:
    """One member, and the rules; these must be the same for all members.

    Attributes:
        rank: its number among all workers, from 0.
        workers: how many are waited for at the start: all, or those of its group.
        coordinator: ``host:port``.
        host: under which name or address neighbours reach this process.
        probes: how many members are asked at random, of which the first with a gradient lets the reduce go;
            "all": each reduce has a gradient of every member.
        local: as in `tfwave.reduce.held`.
        staleness: as in `tfwave.reduce.held.Held`.
        deadline: seconds without a byte from a neighbour, or an answer, after which a member is given up.
        patience: seconds without a gradient after which a member is given up that others wait for; also how
            long workers are waited for at the start.
        credentials: what is shown to the coordinator.
        groups: the ranks of each, where workers reduce in groups; (): they do not.

    Raises:
        EnforcerError: a value out of range.
    """

    rank: int
    workers: int
    coordinator: str
    host: str = "127.0.0.1"
    probes: Probes = 2
    local: Local = "linear"
    staleness: int = 32
    deadline: float = 30.0
    patience: float = 300.0
    credentials: Credentials | None = None
    groups: Groups = ()

    def __post_init__(self) -> None:
        if not self.groups and not 0 <= self.rank < self.workers:
            raise EnforcerError(f"rank {self.rank} is none of {self.workers} workers: give 0 to workers - 1")
        if self.probes != "all" and not (isinstance(self.probes, Integral) and self.probes >= 1):
            raise EnforcerError(f"probes={self.probes!r}: give a number from 1, or 'all'")
        if self.local not in get_args(Local):
            raise EnforcerError(
                f"local={self.local!r} is not known: give one of {', '.join(get_args(Local))}"
            )
        if self.staleness < 1:
            raise EnforcerError(f"staleness={self.staleness} would drop all: give at least 1")
        for name, seconds in (("deadline", self.deadline), ("patience", self.patience)):
            if not (isinstance(seconds, Real) and 0 < seconds <= LONGEST_SECONDS):
                raise EnforcerError(f"{name}={seconds!r}: give seconds above 0, at most {LONGEST_SECONDS:g}")

    def hello(self, address: str, layout: str, *, ticks: bool) -> Hello:
        """The first words of this member, which others call at `address`; see the fields there."""
        return Hello(
            rank=self.rank,
            workers=self.workers,
            address=address,
            layout=layout,
            probes=0 if self.probes == "all" else self.probes,
            deadline_seconds=self.deadline,
            patience_seconds=self.patience,
            ticks=ticks,
        )
