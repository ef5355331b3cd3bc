"""Control edges that keep the ops of a step in their turn."""

from collections.abc import Iterator
from itertools import pairwise

from tfwave.graph.marks import FETCH_OP, STASH_OP
from tfwave.graph.names import parse_input
from tfwave.rewrite.fitted.turns import Turns
from tfwave.rewrite.fitted.views import VIEW_OPS


def chain(turns: Turns) -> None:
    """Let each node that keeps its turn wait for the one before it, unless it does so by itself.

    What was added to run before a node takes its turn there.
    """
    for before, after in pairwise(_in_turn(turns)):
        if not _waits(turns, after, before):
            turns.graph.add_control_edge(before, after)


def _in_turn(turns: Turns) -> Iterator[str]:
    chained = set(turns.chained)
    for name in turns.order:
        yield from (added for added in turns.added_before(name) if _takes_room(turns, added))
        if name in chained:
            yield name


def _takes_room(turns: Turns, name: str) -> bool:
    """Not a view; and copies run beside the ops, which would wait for them by their views, too."""
    return turns.graph.node(name).op not in {STASH_OP, FETCH_OP, *VIEW_OPS}


def _waits(turns: Turns, after: str, before: str) -> bool:
    """Does a node wait for another? What lies between has its turn between theirs."""
    earliest = turns.of(before)
    stack, seen = [after], {after}
    while stack:
        for text in turns.graph.node(stack.pop()).input:
            source = parse_input(text).node
            if source == before:
                return True
            if source not in seen and turns.of(source) >= earliest:
                seen.add(source)
                stack.append(source)
    return False
