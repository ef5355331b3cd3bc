"""Ways that part at a layer, as the search takes them: in branches that share no layer before they meet."""

from dataclasses import dataclass

from tfwave.burst.costs import LayerCosts
from tfwave.errors import PlanError


@dataclass(frozen=True)
class Fork:
    """Ways that leave a layer.

    Attributes:
        layer: that they leave.
        firsts: the layers that they lead to first.
        join: the first layer that is on all of them; one of `firsts` where a way leads straight to it.
    """

    layer: int
    firsts: tuple[int, ...]
    join: int

    @property
    def is_edge(self) -> bool:
        """Does nothing lie between?"""
        return self.firsts == (self.join,)


def fork_at(costs: LayerCosts, layer: int) -> Fork:
    """All ways from a layer."""
    return Fork(layer, costs.readers[layer], costs.joins[layer])


def branches_of(costs: LayerCosts, fork: Fork) -> list[Fork]:
    """The branches of a fork: each to where its own ways meet, which is its first layer if it has only one.

    Ways that share a layer before the join are one branch, and part only within it.

    Raises:
        PlanError: ways share a layer, and meet nowhere before the join; names that layer, and both ends.
    """
    branches: list[tuple[set[int], list[int]]] = []
    for first in fork.firsts:
        if first != fork.join:
            layers, firsts = _between(costs, first, fork.join), [first]
            for other in [branch for branch in branches if branch[0] & layers]:
                branches.remove(other)
                layers, firsts = layers | other[0], other[1] + firsts
            branches.append((layers, firsts))
    return [Fork(fork.layer, tuple(firsts), _meeting(costs, fork, firsts)) for _, firsts in branches]


def _meeting(costs: LayerCosts, fork: Fork, firsts: list[int]) -> int:
    """The first layer on all ways from these."""
    on_all = [_joins_from(costs, first) for first in firsts]
    meeting = min(layer for layer in on_all[0] if all(layer in each for each in on_all))
    if meeting == fork.join:
        ways = [_between(costs, first, fork.join) for first in firsts]
        shared = min(layer for way in ways for layer in way if sum(layer in each for each in ways) > 1)
        raise PlanError(
            f"'{costs.names[shared]}' is on two branches that leave '{costs.names[fork.layer]}', which meet "
            f"nowhere before '{costs.names[fork.join]}', and the search takes branches that share no layer: make "
            "one layer of what lies between these two"
        )
    return meeting


def _joins_from(costs: LayerCosts, layer: int) -> set[int]:
    """The layers on all ways from one, that one among them."""
    found = {layer}
    while costs.joins[layer] != layer:
        layer = costs.joins[layer]
        found.add(layer)
    return found


def _between(costs: LayerCosts, first: int, join: int) -> set[int]:
    """The layers on all ways from one to a join, that one among them, the join not."""
    found: set[int] = set()
    left = [first]
    while left:
        layer = left.pop()
        if layer != join and layer not in found:
            found.add(layer)
            left += costs.readers[layer]
    return found
