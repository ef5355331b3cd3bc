"""What a member gets: sums, and figures of them."""

from dataclasses import dataclass

from tfwave.reduce.held import Vector

MOST_BYTES = 2 << 30
"""Sums that a member has not taken are kept until they have so many bytes; then no reduce goes."""
LEAST_SUMS = 2
"""So many are always kept: members in step have one that is taken, and one that comes."""


def most_sums(size: int) -> int:
    """How many sums of `size` bytes a member keeps."""
    return max(LEAST_SUMS, MOST_BYTES // max(1, size))


@dataclass(frozen=True)
class Update:
    """A sum that every member applies, once, after the one before: of gradients, or what other groups did.

    Attributes:
        version: its number, from 1.
        values: the sum over the members; not to be written to.
        members: how many were in the ring.
        of_others: whether it is what other groups did since the beginning, and no gradient.
    """

    version: int
    values: Vector
    members: int
    of_others: bool = False


@dataclass
class ReduceFigures:
    """What a member has seen so far.

    Attributes:
        reduces: those that counted.
        broken: those that came to nothing.
        gave: gradients of this member in those that counted.
        dropped: gradients of this member that were staler than allowed.
        joined: the mean share of members that gave something to a reduce.
        met: how often this group got what the other groups did.
    """

    reduces: int = 0
    broken: int = 0
    gave: int = 0
    dropped: int = 0
    joined: float = 0.0
    met: int = 0

    def count(self, gave: int, joined: float) -> None:
        """One more reduce counted, to which this member gave so many, and this share of the members something."""
        self.gave += gave
        self.joined += (joined - self.joined) / (self.reduces + 1)
        self.reduces += 1
