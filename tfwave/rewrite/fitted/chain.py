"""Control edges that keep the ops of a step in their turn."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from tfwave.graph.marks import FETCH_OP, STASH_OP
from tfwave.graph.names import parse_input
from tfwave.rewrite.fitted.turns import Turns
from tfwave.rewrite.fitted.views import VIEW_OPS


def chain(turns: Turns) -> None:
    """Let each node that keeps its turn wait for those that may not run beside it, unless it does so by itself.

    What was added to run before a node waits for these, too, and for the copies out for which the node waits; all
    but copies run one after the other before the node.
    """
    added = _added(turns)
    for index in range(len(turns.chained) + 1):
        before, own = turns.awaited(index), turns.chained[index : index + 1]
        leaving = _leaving(turns, own)
        for name in added[index]:
            _let_wait(turns, name, leaving)
        for name in (*filter(partial(_takes_room, turns), added[index]), *own):
            _let_wait(turns, name, before)
            before = (name,)


def _added(turns: Turns) -> dict[int, list[str]]:
    """By the number of the node that keeps its turn next."""
    found: dict[int, list[str]] = defaultdict(list)
    for name in turns.order:
        found[turns.index(name)] += [each for each in turns.added_before(name) if not _is_view(turns, each)]
    return found


def _leaving(turns: Turns, names: Sequence[str]) -> list[str]:
    """The copies out for which nodes wait."""
    sources = (parse_input(text).node for name in names for text in turns.graph.node(name).input)
    return [source for source in sources if turns.graph.node(source).op == STASH_OP]


def _takes_room(turns: Turns, name: str) -> bool:
    """Copies run beside the ops, which would wait for them by their views, too."""
    return turns.graph.node(name).op != FETCH_OP


def _is_view(turns: Turns, name: str) -> bool:
    return turns.graph.node(name).op in VIEW_OPS


def _let_wait(turns: Turns, name: str, before: Sequence[str]) -> None:
    """Add an edge from each of these, in turn, that the node does not wait for, the last first."""
    if not before:
        return
    earliest = min(map(turns.of, before))
    seen = {name}
    _reach(turns, name, earliest, seen)
    for source in reversed(before):
        if source not in seen:
            turns.graph.add_control_edge(source, name)
            seen.add(source)
            _reach(turns, source, earliest, seen)


def _reach(turns: Turns, name: str, earliest: float, seen: set[str]) -> None:
    """Add all that a node waits for, from a turn on: what lies between has its turn between theirs."""
    stack = [name]
    while stack:
        for text in turns.graph.node(stack.pop()).input:
            source = parse_input(text).node
            if source not in seen and turns.of(source) >= earliest:
                seen.add(source)
                stack.append(source)
