"""Ops of a step that keep their turn: when each of them may begin."""

from collections.abc import Sequence


def first_beside(beside: Sequence[int], index: int) -> int:
    """The first of the ops that may still run when one of them begins; itself, if it must be alone."""
    return index - (beside[index] if index < len(beside) else 0)


def awaited(beside: Sequence[int], index: int) -> range:
    """For which ops one of them has to wait, so that all before those that may run beside it are done.

    Those in turn waited for all before: none that is missing here is still running.
    """
    first = first_beside(beside, index)
    return range(first_beside(beside, first - 1), first) if first else range(0)


def last_beside(beside: Sequence[int], count: int) -> list[int]:
    """Of each of so many ops: the last that may begin before it is done."""
    last = list(range(count))
    for index in range(count):
        first = first_beside(beside, index)
        last[first : index + 1] = [max(last[i], index) for i in range(first, index + 1)]
    return last
