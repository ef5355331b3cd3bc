"""The gradient that several tensors follow from, which come to updates of one weight."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tfwave.graph.reach import reached, reached_without


@dataclass(frozen=True)
class Origins:
    """Looks back from nodes, by number, to what they follow from.

    `fanins` gives what a node takes of what follows from the forward pass; `begins` says whether it takes something
    of the forward pass itself, or of what that is fed: a gradient can begin there, and no look goes further.
    """

    fanins: Callable[[int], Iterable[int]]
    begins: Callable[[int], bool]

    def common(self, nodes: Collection[int]) -> Iterator[tuple[frozenset[int], int | None]]:
        """Those of some nodes that have anything in common, and the last node without which none of them would be.

        1. A node that has nothing in common with another is a gradient, or all that is taken of one.
        2. Otherwise theirs is a single node through which each of them follows from the forward pass: the last.
        3. There may be none: they follow from several gradients. None is given then.
        """
        walks = {node: self.behind([node]) for node in nodes} if len(nodes) > 1 else {}
        for joined in _joined(walks):
            if len(joined) > 1:
                first, *rest = [walks[node] for node in joined]
                yield joined, self._last(joined, first.intersection(*rest))

    def made_alone(self, node: int) -> frozenset[int] | None:
        """A node and what it follows from; None if a gradient may begin there."""
        return reached_without(self.fanins, [node], self.begins)

    def behind(self, nodes: Iterable[int], end: int | None = None) -> frozenset[int]:
        """These nodes and what they follow from, up to where gradients begin, or to `end`; both included."""
        return reached(lambda node: () if node == end or self.begins(node) else self.fanins(node), nodes)

    def _last(self, nodes: Iterable[int], shared: Iterable[int]) -> int | None:
        passed = {end: self.behind(nodes, end) for end in shared}
        lasts = [end for end, found in passed.items() if not any(map(self.begins, found - {end}))]
        return min(lasts, key=lambda end: len(passed[end]), default=None)


def _joined(walks: Mapping[int, frozenset[int]]) -> list[frozenset[int]]:
    """Nodes whose walks meet, directly or by way of others'."""
    groups: list[tuple[frozenset[int], frozenset[int]]] = []
    for node, walk in walks.items():
        members, places = frozenset({node}), walk
        apart: list[tuple[frozenset[int], frozenset[int]]] = []
        for group in groups:
            if group[1].isdisjoint(walk):
                apart.append(group)
            else:
                members, places = members | group[0], places | group[1]
        groups = [*apart, (members, places)]
    return [members for members, _ in groups]
