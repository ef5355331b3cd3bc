"""The sums that a member has, from when one is made until it is taken."""

from collections import deque

from tfwave.reduce.held import Vector
from tfwave.reduce.update import Update, most_sums


class Sums:
    """Those that count and were not taken yet, and one that is not decided; the member's lock guards them.

    Attributes:
        handed: the number of the last sum that was taken.
        version: the number of the last sum that was tried.
    """

    def __init__(self, size: int) -> None:
        """Of so many bytes each."""
        self.handed = self.version = 0
        self._most = most_sums(size)
        self._undecided: Vector | None = None
        self._updates: deque[Update] = deque()

    @property
    def are_most(self) -> bool:
        """Whether no more may be kept."""
        return len(self._updates) + (self._undecided is not None) >= self._most

    def __bool__(self) -> bool:
        """Whether there are some to take."""
        return bool(self._updates)

    def note(self, version: int, total: Vector | None) -> None:
        """A reduce ended here: with a sum, or without."""
        self.version, self._undecided = version, total

    def settle(self, members: int, *, commit: bool, of_others: bool) -> bool:
        """It is decided; whether there is a sum that counts."""
        total, self._undecided = self._undecided, None
        if not commit or total is None:
            return False
        total.flags.writeable = False
        if self.version > self.handed:  # else it is in the state that came, sooner than this verdict
            self._updates.append(Update(self.version, total, members, of_others))
        return True

    def take(self) -> list[Update]:
        """All, oldest first."""
        updates = list(self._updates)
        self._updates.clear()
        if updates:
            self.handed = updates[-1].version
        return updates

    def go_on_from(self, version: int) -> None:
        """The weights have so many sums in them."""
        self.handed = version
        while self._updates and self._updates[0].version <= version:
            self._updates.popleft()
