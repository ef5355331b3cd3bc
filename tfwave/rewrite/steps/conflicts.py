"""What a step must wait for of the step before it, resource by resource: what a barrier implies, and no more."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfwave.graph.access import Resource
from tfwave.rewrite.resources import Touch
from tfwave.rewrite.steps.step import Step, union

Waits = list[tuple[int, int]]
"""(a node, the node of the next step that waits for it)."""


def waits_between(step: Step, touches: Sequence[Touch]) -> Waits:
    """The fewest pairs that keep, from one step to the next, the order of all that conflicts.

    For each resource that a step changes:

    1. each access waits for all writes of the step before;
    2. each write waits for all reads of the step before.

    A pair is left out where others imply it, through what surely runs before within a step. Sorted by name.
    """
    nodes = list(dict.fromkeys(touch.node for touch in touches))
    bits = {node: 1 << i for i, node in enumerate(nodes)}
    before = step.preceding(bits, step.calls)
    pairs = {pair for accesses in _by_resource(touches) for pair in accesses.pairs(bits, before)}
    names = step.view.names
    return sorted(_least(step, pairs, bits, before), key=lambda pair: (names[pair[0]], names[pair[1]]))


@dataclass
class _Accesses:
    """Of one resource, as sets of bits; `nodes` are all that touch it."""

    nodes: list[int]
    writes: list[int]

    def pairs(self, bits: Mapping[int, int], before: Mapping[int, int]) -> Waits:
        all_writes = union(bits[node] for node in self.writes)
        all_nodes = union(bits[node] for node in self.nodes)
        covered = union(before[node] for node in self.writes)
        last_writes = [node for node in self.writes if not covered & bits[node]]
        reads = [node for node in self.nodes if not all_writes & bits[node]]
        late_reads = [node for node in reads if not covered & bits[node]]
        first = [node for node in self.nodes if not before[node] & all_nodes]
        first_writes = [node for node in self.writes if not before[node] & all_writes]
        return [
            *((write, node) for write in last_writes for node in first),
            *((read, node) for read in late_reads for node in first_writes),
        ]


def _by_resource(touches: Iterable[Touch]) -> list[_Accesses]:
    found: dict[Resource, _Accesses] = defaultdict(lambda: _Accesses([], []))
    for touch in touches:
        found[touch.resource].nodes.append(touch.node)
        if touch.writes:
            found[touch.resource].writes.append(touch.node)
    return [accesses for accesses in found.values() if accesses.writes]


def _least(
    step: Step, pairs: Iterable[tuple[int, int]], bits: Mapping[int, int], before: Mapping[int, int]
) -> Waits:
    """The pairs without those that another implies: from its source or a later one, to its target or an earlier."""
    sources: dict[int, list[int]] = defaultdict(list)
    for source, target in pairs:
        sources[target].append(source)
    covered = {target: union(before[source] for source in found) for target, found in sources.items()}
    done = {target: covered[target] | union(bits[s] for s in found) for target, found in sources.items()}
    earlier = step.preceding(done, step.calls)
    return [
        (source, target)
        for target, found in sources.items()
        for source in found
        if not (covered[target] | earlier[target]) & bits[source]
    ]
