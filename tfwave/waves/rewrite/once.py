"""Which graphs passes that write waves take: whole ones, and each once."""

import re
from collections.abc import Sequence

from tfwave.errors import PassError
from tfwave.graph.marks import added_by
from tfwave.graph.view import RECV_OPS, SEND_OPS, GraphView

WAVE_PASSES = frozenset({"tick_tock", "tick_tock_partitions"})


def check_whole(view: GraphView, name: str) -> None:
    """Refuse, for the pass `name`, a graph that is cut, or has several steps; not one that has waves already.

    Raises:
        PassError: names a node and the way out.
    """
    if _authors(view):
        return
    cut = [node for node, op in zip(view.names, view.ops, strict=True) if op in SEND_OPS | RECV_OPS]
    if cut:
        raise PassError(f"node '{min(cut)}': the graph is cut already; run {name} before 'cut'")
    steps = [n.name for n in view.nodes if added_by(n).startswith("cross_step")]
    if steps:
        raise PassError(f"node '{min(steps)}' is of a further step; run {name} before 'cross_step'")


def has_waves(view: GraphView, author: str) -> bool:
    """Did `author`, a pass with its options, write waves into this graph?

    Raises:
        PassError: another one did.
    """
    others = _authors(view) - {author}
    if others:
        raise PassError(f"the graph went through {min(others)} already: strip it first")
    return bool(_authors(view))


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*(f"'{name}'" for name in names[:most]), *more])


def _authors(view: GraphView) -> set[str]:
    """The passes that wrote waves into a graph, with their options."""
    authors = set(map(added_by, view.nodes))
    return {author for author in authors if re.split("[{#]", author)[0] in WAVE_PASSES}
