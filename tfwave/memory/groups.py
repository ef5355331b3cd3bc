"""Node groups: a step cut where its memory has grown or shrunk by so much (Waterwave, section 4.2)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.cost.table import Costs
from tfwave.errors import GraphError, PlanError
from tfwave.graph.view import GraphView
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.releases import Replay
from tfwave.memory.units import name_key, unit_levels, unit_order, units_of
from tfwave.plan.groups import NodeGroup


@dataclass(frozen=True)
class Unit:
    """An op, or a while loop with all of its ops, each by its number in the view: what no cut parts."""

    nodes: tuple[int, ...]
    ops: tuple[str, ...]
    level: int
    seconds: float


@dataclass(frozen=True)
class LevelledStep:
    """The profiled ops of a step in the order in which groups take them: by level, then by name."""

    units: tuple[Unit, ...]
    replay: Replay

    @cached_property
    def whole(self) -> tuple[NodeGroup, ...]:
        """The step in one group, as profiled; none where nothing was."""
        return self._groups([0] * len(self.units))

    def cut(self, split_size: int) -> tuple[NodeGroup, ...]:
        """Groups whose net reaches `split_size` bytes, up or down, when their units run one after the other.

        Raises:
            PlanError: `split_size` is not above 0.
        """
        check_split_size(split_size)
        numbers: list[int] = []
        number = net = 0
        for unit_net in self._nets:
            numbers.append(number)
            net += unit_net
            if abs(net) >= split_size:
                number, net = number + 1, 0
        return self._groups(numbers)

    @cached_property
    def _nets(self) -> list[int]:
        places = {node: place for place, unit in enumerate(self.units) for node in unit.nodes}
        done = self.replay.at(places)
        return [sum(op.net for op in done[place]) for place in range(len(self.units))]

    def _groups(self, numbers: Sequence[int]) -> tuple[NodeGroup, ...]:
        """The groups, if each unit is in the one of that number."""
        members: dict[int, list[Unit]] = defaultdict(list)
        for number, unit in zip(numbers, self.units, strict=True):
            members[number].append(unit)
        numbered = zip(numbers, self.units, strict=True)
        done = self.replay.at({node: number for number, unit in numbered for node in unit.nodes})
        return tuple([_group(units, done[number]) for number, units in sorted(members.items())])


def check_split_size(split_size: int) -> None:
    """Refuse what no group can reach.

    Raises:
        PlanError: it is not above 0.
    """
    if split_size <= 0:
        raise PlanError(f"a split size of {split_size} bytes cuts nothing: give one above 0")


def _group(units: Sequence[Unit], done: Sequence[OpMemory]) -> NodeGroup:
    return NodeGroup(
        tuple([name for unit in units for name in unit.ops]),
        units[0].level,
        units[-1].level,
        sum(op.net for op in done),
        MemoryProfile("", done, resident=0).peak,
        max((op.piece for op in done), default=0),
        math.fsum(unit.seconds for unit in units),
    )


def node_groups(
    view: GraphView, profile: MemoryProfile, split_size: int, costs: Costs | None = None
) -> tuple[NodeGroup, ...]:
    """The profiled ops by level, cut where what they have allocated less what they have freed reaches `split_size`.

    Groups are a valid order of execution, and no path leaves one and comes back. `split_size` is in bytes. What a
    group holds is so if its ops run in the order in which they were profiled: within a group nothing orders them.

    Raises:
        PlanError: `split_size` is not above 0.
        GraphError: the profile names a node that the view has not, or a loop waits for itself; names the node.
        MissingCost: `costs` does not know an op; names it.
    """
    return levelled(view, profile, costs).cut(split_size)


def levelled(view: GraphView, profile: MemoryProfile, costs: Costs | None = None) -> LevelledStep:
    """The step of a profile, ready to be cut in one way or another.

    Raises:
        GraphError: the profile names a node that the view has not, or a loop waits for itself; names the node.
        MissingCost: `costs` does not know an op; names it.
    """
    runs = _profiled_runs(view, profile)
    units = units_of(view)
    levels = unit_levels(view, units)
    members: dict[int, set[int]] = defaultdict(set)
    for node, _ in runs:
        members[units[node]].add(node)
    ordered = [unit for unit in unit_order(view, levels) if unit in members]
    return LevelledStep(
        tuple([_unit(view, members[unit], levels[unit], costs) for unit in ordered]), Replay.of(view, runs)
    )


def _profiled_runs(view: GraphView, profile: MemoryProfile) -> list[tuple[int, OpMemory]]:
    """Each run with its node; of nodes of one name, the one on the profile's device."""
    index = {name: node for node, name in enumerate(view.names)}
    index |= {n.name: node for node, n in enumerate(view.nodes) if n.device == profile.device}
    for op in profile.ops:
        if op.node not in index:
            raise GraphError(
                f"the memory profile of '{profile.device}' names the node '{op.node}', which the graph has not: "
                "profile the graph that is planned"
            )
    return [(index[op.node], op) for op in profile.ops]


def _unit(view: GraphView, nodes: Iterable[int], level: int, costs: Costs | None) -> Unit:
    ordered = sorted(nodes, key=lambda node: name_key(view, node))
    seconds = math.fsum(costs.op_seconds(node) for node in ordered) if costs else 0.0
    return Unit(tuple(ordered), tuple([view.names[node] for node in ordered]), level, seconds)
