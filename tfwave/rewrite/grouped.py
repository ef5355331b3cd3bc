"""Nodes in groups that follow each other: which of them wait at a barrier, and which are waited for."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from tfwave.errors import GraphError
from tfwave.graph.flow_regions import flow_regions, is_entry
from tfwave.graph.partition.colocate import PINNED_OPS
from tfwave.graph.reach import in_control_flow, reached
from tfwave.graph.view import GraphView
from tfwave.rewrite.fused import in_kernels, kernel_ends


class GroupedNodes:
    """The nodes of each group, with the branches, loops and kernels that are in it, each of them whole."""

    def __init__(
        self, view: GraphView, groups: Mapping[int, int], units: Sequence[int], kernels: Collection[int] = ()
    ) -> None:
        """Group units by number; of each node `units` has its unit, and `kernels` are those to leave untouched."""
        self._view = view
        self._units = units
        self._inside = in_control_flow(view)
        self._kernels = kernels
        # TensorFlow keeps no control edge of arguments and results: they are the signature of a partition
        self._group = [
            -1 if op in PINNED_OPS else groups.get(unit, -1) for op, unit in zip(view.ops, units, strict=True)
        ]
        self._members = [list[int]() for _ in range(1 + max(groups.values(), default=-1))]
        for node in sorted(range(len(view)), key=lambda n: view.names[n]):
            if self._group[node] >= 0:
                self._members[self._group[node]].append(node)

    @classmethod
    def of_regions(cls, view: GraphView, groups: Sequence[Sequence[str]]) -> "GroupedNodes":
        """As they are named, branches and loops whole.

        Raises:
            GraphError: a branch or loop has nodes in two groups; names one of each.
        """
        regions = flow_regions(view)
        return cls(view, _numbers(view, groups, regions), regions)

    @classmethod
    def of_kernels(
        cls, view: GraphView, groups: Sequence[Sequence[str]], needed: Container[int]
    ) -> "GroupedNodes":
        """What TensorFlow may compute in one kernel is whole, too: in the later group, with all that waits for it.

        `needed` are the nodes that the step runs.

        Raises:
            GraphError: as `of_regions`, or a node waits for one of a later group; names both groups.
        """
        regions = flow_regions(view)
        numbers = _numbers(view, groups, regions)
        for region, number in settled(view, numbers, regions).items():
            if number != numbers[region]:
                raise GraphError(
                    f"counter_barrier: node '{view.names[region]}' of group {numbers[region]} waits for nodes of "
                    f"group {number}: order the groups as the graph does"
                )
        return cls.settled(view, groups, needed)

    @classmethod
    def settled(
        cls, view: GraphView, groups: Sequence[Sequence[str]], needed: Container[int]
    ) -> "GroupedNodes":
        """As `of_kernels`; a node that waits for one of a later group goes there."""
        ends, regions = kernel_ends(view, needed), flow_regions(view)
        units = [regions[end] for end in ends]
        index = {name: node for node, name in enumerate(view.names)}
        numbers: dict[int, int] = {}
        for number, group in enumerate(groups):
            numbers |= dict.fromkeys((units[index[name]] for name in group), number)
        return cls(view, settled(view, numbers, units), units, in_kernels(view, ends))

    def roots(self, group: int) -> list[int]:
        """What waits for no other node of the group."""
        return [
            node
            for node in self._in(group)
            if self._is_free(group, self._view.fanins[node]) and self._may_wait(node)
        ]

    def leaves(self, group: int) -> list[int]:
        """What no other node of the group waits for."""
        return [
            node
            for node in self._in(group)
            if self._is_free(group, self._view.fanouts[node]) and node not in self._inside
        ]

    def in_kernel(self, node: int) -> bool:
        """May TensorFlow compute it in one kernel with others, if nothing but data leads to and from it?"""
        return node in self._kernels

    def are_one(self, node: int, other: int) -> bool:
        """Are both in one kernel, branch or loop?"""
        return self._units[node] == self._units[other]

    def orders(self, first: int, second: int) -> bool:
        """Would barriers let `second` wait for `first`, which it does not wait for by itself?"""
        after = reached(self._view.fanouts.__getitem__, [first])
        if second in after:
            return False
        before = reached(self._view.fanins.__getitem__, [second])
        earliest = min((self._group[node] for node in after if self._group[node] >= 0), default=None)
        latest = max((self._group[node] for node in before), default=-1)
        return earliest is not None and earliest < latest

    def _in(self, group: int) -> Sequence[int]:
        return self._members[group] if group < len(self._members) else ()

    def _is_free(self, group: int, neighbours: Iterable[int]) -> bool:
        return all(self._group[other] != group for other in neighbours)

    def _may_wait(self, node: int) -> bool:
        """Is it outside of branches and loops, or an entry of one?"""
        return node not in self._inside or is_entry(self._view, node, self._inside)


def settled(view: GraphView, groups: Mapping[int, int], units: Sequence[int]) -> dict[int, int]:
    """The least group of each unit, not before its own nor before that of anything it waits for."""
    reached_by = [-1] * len(view)
    for unit, number in groups.items():
        reached_by[unit] = number
    moved = True
    while moved:
        moved = False
        for node in view.topological_order:
            least = max((reached_by[units[fanin]] for fanin in view.forward_fanins(node)), default=-1)
            if least > reached_by[units[node]]:
                reached_by[units[node]] = least
                moved = True
    return {unit: reached_by[unit] for unit in groups}


def _numbers(view: GraphView, groups: Sequence[Sequence[str]], regions: Sequence[int]) -> dict[int, int]:
    index = {name: node for node, name in enumerate(view.names)}
    numbers: dict[int, int] = {}
    for number, group in enumerate(groups):
        for name in group:
            region = regions[index[name]]
            if numbers.setdefault(region, number) != number:
                first = next(n for n in groups[numbers[region]] if regions[index[n]] == region)
                raise GraphError(
                    f"counter_barrier: nodes '{first}' and '{name}' belong to one branch or loop, and are in "
                    "two groups: put them into one"
                )
    return numbers
