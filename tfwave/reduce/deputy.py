"""Who deals with the other groups in the name of its own (sec. 5.2)."""

import threading
from collections.abc import Callable

from tfwave.errors import EnforcerError
from tfwave.reduce.held import Vector
from tfwave.stragglers.meetings import BETWEEN

Visit = Callable[[int, Vector], Vector]
"""Takes how many reduces a group has made and what it did by them, and gives what the others did."""


class Deputy:
    """Visits the other groups while its own goes on, and keeps what it brought until its group has it.

    The methods are called under the lock of the member that it is, but for the thread of a visit.

    Attributes:
        visit: the number of the newest visit that brought something, from 1.
        brought: what other groups did, until all members have it.
    """

    def __init__(
        self, visit: Visit, on_return: Callable[[], None], on_failure: Callable[[str], None]
    ) -> None:
        """`on_return` is called when a visit has brought something, `on_failure` with the reason if it did not."""
        self._visit, self._on_return, self._on_failure = visit, on_return, on_failure
        self._asked = 0
        self._away = False
        self.visit = 0
        self.brought: Vector | None = None

    def is_due(self, version: int) -> bool:
        """Whether a group that made so many reduces is to tell of them."""
        return not self._away and self.brought is None and version - self._asked >= BETWEEN

    def is_late(self, version: int) -> bool:
        """Whether the group, which made so many reduces, waits for its deputy: groups must not drift apart."""
        return self._away and version - self._asked >= BETWEEN

    def go(self, version: int, own: Vector) -> None:
        """Begin a visit, with what the group did by so many reduces."""
        self._asked, self._away = version, True
        threading.Thread(
            target=self._go, args=(version, own), name="tfwave-reduce-visit", daemon=True
        ).start()

    def settle(self) -> None:
        """The group has what was brought."""
        self.brought = None

    def _go(self, version: int, own: Vector) -> None:
        try:
            brought = self._visit(version, own)
        except EnforcerError as err:
            self._on_failure(str(err))
            return
        self.brought, self._away = brought, False
        self.visit += 1
        self._on_return()
