"""What keeps the order of a channel: in plans, where they are enforced, and in the simulator."""

from enum import StrEnum


class Discipline(StrEnum):
    """What keeps the order of a channel.

    A counter lets rank k leave after rank k-1, in each step by itself: exact, but it waits for what is not ready. A
    priority queue never waits: of what is ready, whatever its step, the lowest rank leaves first, as long as what
    left and is not yet on the wire fits a window.
    """

    COUNTER = "counter"
    PRIORITY = "priority"


ACK_WINDOW = 3
"""So many transfers of a channel are under way where `ack_window` keeps their order, if nobody says otherwise."""
