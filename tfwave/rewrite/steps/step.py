"""One step of a job: what a call that fetches some tensors runs of a graph, and what surely runs before what."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tfwave.graph.flow_ops import MERGE_OPS
from tfwave.graph.functions.lower import may_expand
from tfwave.graph.item import GraphItem
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class Step:
    """The nodes that a call runs: all that the fetches need, where a tensor that is fed needs nothing."""

    view: GraphView
    fetched: tuple[int, ...]
    fanins: Mapping[int, tuple[int, ...]]
    """Of each node that runs: what it waits for, without the sources of fed tensors."""
    calls: frozenset[int]
    """The calls, branches and loops that run, in whose place TensorFlow may put the nodes of functions: some of
    these begin before all that the call takes is there, and some end after what it gives."""

    @classmethod
    def of(cls, item: GraphItem, view: GraphView) -> "Step":
        """The step of an item's feeds and fetches."""
        index = {name: i for i, name in enumerate(view.names)}
        fed = {parse_input(name) for name in item.feeds}
        fetched = tuple([index[parse_input(name).node] for name in item.fetches])
        fanins: dict[int, tuple[int, ...]] = {}
        stack = list(fetched)
        while stack:
            node = stack.pop()
            if node not in fanins:
                inputs = [parse_input(text) for text in view.nodes[node].input]
                fanins[node] = tuple(
                    [index[i.node] for i in inputs if i.port == CONTROL_PORT or i not in fed]
                )
                stack += fanins[node]
        functions = {function.signature.name for function in item.graph.library.function}
        calls = frozenset(node for node in fanins if may_expand(view.nodes[node], functions))
        return cls(view, fetched, fanins, calls)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The nodes that run, in topological order."""
        return tuple([node for node in self.view.topological_order if node in self.fanins])

    def preceding(self, bits: Mapping[int, int], calls: Collection[int] = ()) -> Mapping[int, int]:
        """For each node the bits of those nodes that have run, or never will, when it runs.

        1. A Merge waits for one of its data inputs only: what it surely comes after is what all of them come after.
        2. One of `calls` as a whole surely comes after what it waits for by control edges alone, and no node of the
           step surely comes after all of it.
        """
        before: dict[int, int] = {}

        def given(fanin: int) -> int:
            return before[fanin] | (0 if fanin in calls else bits.get(fanin, 0))

        for node in self.order:
            forward = set(self.view.forward_fanins(node))
            data = self.view.data_fanins[node]
            fed = len(self.view.fanins[node]) - len(self.fanins[node])
            taken = () if node in calls else self.fanins[node][: data - fed]
            known = [given(f) for f in taken if f in forward]
            controls = [given(f) for f in self.fanins[node][data - fed :]]
            merges = self.view.ops[node] in MERGE_OPS
            before[node] = union([_common([0] * fed + known) if merges else union(known), *controls])
        return before


def _common(sets: list[int]) -> int:
    if not sets:
        return 0
    common = sets[0]
    for one in sets[1:]:
        common &= one
    return common


def union(sets: Iterable[int]) -> int:
    """The bits that are in any of these."""
    found = 0
    for one in sets:
        found |= one
    return found
