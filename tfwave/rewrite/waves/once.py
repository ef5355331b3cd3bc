"""Which graphs passes that write waves take: whole ones, and each once."""

import re

from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.graph.marks import added_by
from tfwave.graph.view import GraphView, transfer_ends

WAVE_PASSES = frozenset({"tick_tock", "tick_tock_partitions"})


def check_whole(view: GraphView, name: str) -> None:
    """Refuse, for the pass `name`, a graph that is cut, or has several steps; not one that has waves already.

    Raises:
        PassError: names a node and the way out.
    """
    if _authors(view):
        return
    ends = transfer_ends(view)
    if ends:
        raise PassError(f"node '{min(ends)}': the graph is cut already; run {name} before 'cut'")
    steps = [n.name for n in view.nodes if added_by(n).startswith("cross_step")]
    if steps:
        raise PassError(f"node '{min(steps)}' is of a further step; run {name} before 'cross_step'")


def check_fetches(item: GraphItem, name: str) -> None:
    """Refuse, for the pass `name`, a graph of which nobody says what a step runs.

    Raises:
        PassError: says so.
    """
    if not item.fetches:
        raise PassError(f"{name} must know what a step runs: give the loss and the train op as fetches")


def has_waves(view: GraphView, author: str) -> bool:
    """Did `author`, a pass with its options, write waves into this graph?

    Raises:
        PassError: another one did.
    """
    others = _authors(view) - {author}
    if others:
        raise PassError(f"the graph went through {min(others)} already: strip it first")
    return bool(_authors(view))


def _authors(view: GraphView) -> set[str]:
    """The passes that wrote waves into a graph, with their options."""
    authors = set(map(added_by, view.nodes))
    return {author for author in authors if re.split("[{#]", author)[0] in WAVE_PASSES}
