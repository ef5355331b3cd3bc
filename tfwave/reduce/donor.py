"""Who gives the weights to members that come late."""

import threading

from tfwave.proto.reduce_pb2 import Give
from tfwave.reduce.state import send_state


class Donor:
    """Keeps what is asked for until the weights are those that it is of.

    The methods but `bring` are called under the lock of the member that it is.

    Attributes:
        offer: all members' weights before the first reduce, which others may wait for; None once they change.
    """

    def __init__(self, deadline: float) -> None:
        """Who takes nothing for `deadline` seconds gets nothing."""
        self._deadline = deadline
        self._asked: list[Give] = []
        self.offer: bytes | None = None

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for weights."""
        return bool(self._asked)

    def ask(self, give: Give) -> None:
        """Give at once what is on offer, and keep in mind what is not."""
        if give.version == 0 and self.offer is not None:
            self.bring([give], 0, self.offer)
        else:
            self._asked.append(give)

    def due(self, version: int) -> list[Give]:
        """What weights with so many sums in them are wanted for, which is then no longer asked for."""
        due = [give for give in self._asked if give.version <= version]
        self._asked = [give for give in self._asked if give.version > version]
        return due

    def bring(self, wanted: list[Give], version: int, state: bytes) -> None:
        """Send weights to all who want them; returns before they are there."""
        for give in wanted:
            threading.Thread(
                target=send_state,
                args=(give.address, give.key, self._deadline, version, state),
                name="tfwave-reduce-give",
                daemon=True,
            ).start()
