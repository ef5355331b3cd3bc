"""Which worker a process is, and where the coordinator is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.reduce.groups import Groups, groups_of
from tfwave.reduce.options import Options
from tfwave.runtime.control.address import listening_address, split_address
from tfwave.runtime.control.tf_config import VARIABLE, read_tf_config


@dataclass(frozen=True)
class Place:
    """One of some workers.

    Attributes:
        workers: ``host:port`` of each.
        rank: which of them this process is.
        elsewhere: the coordinator's address; None: it is the first worker's.
        groups: the ranks of each, where workers reduce in groups, each with a coordinator at its first worker's
            address; (): they do not.
    """

    workers: Sequence[str]
    rank: int
    elsewhere: str | None = None
    groups: Groups = ()

    @classmethod
    def find(cls, workers: Sequence[str] | None, rank: int | None) -> "Place":
        """As a program says it, or TF_CONFIG where there are no workers.

        Raises:
            EnforcerError: as `given` and `of_tf_config`.
        """
        return cls.of_tf_config() if workers is None else cls.given(workers, rank)

    @classmethod
    def given(cls, workers: Sequence[str], rank: int | None) -> "Place":
        """As a program says it.

        Raises:
            EnforcerError: there is no rank, or it is none of the workers; or these are no list, or an address is
                malformed.
        """
        if isinstance(workers, str | int):
            raise EnforcerError(f"workers={workers!r} is no list: give host:port of each worker")
        if not (isinstance(rank, Integral) and 0 <= rank < len(workers)):
            raise EnforcerError(
                f"rank={rank!r} is none of {len(workers)} workers: give a number from 0 to {len(workers) - 1}"
            )
        for address in workers:
            try:
                split_address(address)
            except ValueError as err:
                raise EnforcerError(f"worker address {err}: give host:port") from err
        return cls(workers, rank)

    @classmethod
    def of_tf_config(cls) -> "Place":
        """As TF_CONFIG says it.

        Raises:
            EnforcerError: it is not set, malformed, or of no worker.
        """
        config = read_tf_config()
        if config.task is None or config.task.type != "worker":
            raise EnforcerError(
                f"{VARIABLE} names {config.task or 'no task'}, and reduces are made by workers: give "
                '"task": {"type": "worker", "index": 0}'
            )
        by_index = config.cluster.get("worker", {})
        place = cls.given([by_index[i] for i in sorted(by_index)], config.task.index)
        return cls(place.workers, place.rank, config.tfwave.reduce)

    def grouped(self, groups: Sequence[Sequence[int]] | None) -> "Place":
        """The same, of workers that reduce in groups, if they do.

        Raises:
            EnforcerError: as `groups_of`.
        """
        if groups is None:
            return self
        return replace(self, elsewhere=None, groups=groups_of(groups, len(self.workers)))

    @property
    def group(self) -> tuple[int, ...]:
        """The ranks of the workers that this one reduces with, its own included."""
        whole = tuple(range(len(self.workers)))
        return next((group for group in self.groups if self.rank in group), whole)

    @property
    def is_coordinator(self) -> bool:
        """Whether the coordinator runs in this process."""
        return self.elsewhere is None and self.rank == self.group[0]

    @property
    def listen(self) -> str:
        """Where it listens then."""
        return listening_address(self.workers[self.group[0]])

    def options(self, **rules: Any) -> Options:
        """Those of a member at this place.

        Raises:
            EnforcerError: a rule out of range.
        """
        return Options(
            rank=self.rank,
            workers=len(self.group),
            coordinator=self.elsewhere or self.workers[self.group[0]],
            host=split_address(self.workers[self.rank])[0],
            groups=self.groups,
            **rules,
        )
