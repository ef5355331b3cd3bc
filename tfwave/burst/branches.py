"""Branches that leave a layer, of which the search takes each by itself."""

from tfwave.burst.costs import LayerCosts
from tfwave.errors import PlanError


def check_branches(costs: LayerCosts) -> None:
    """Branches share no layer before the one where they meet.

    Raises:
        PlanError: some do; names the layer, the one that they leave and where they meet.
    """
    for layer, after in enumerate(costs.readers):
        if len(after) > 1:
            _check_block(costs, layer, costs.joins[layer])


def _check_block(costs: LayerCosts, layer: int, join: int) -> None:
    seen: set[int] = set()
    for first in costs.readers[layer]:
        branch = _between(costs, first, join)
        if seen & branch:
            shared, left, met = (costs.names[one] for one in (min(seen & branch), layer, join))
            raise PlanError(
                f"'{shared}' is on two branches that leave '{left}', and the search takes branches that share no "
                f"layer: make one layer of what lies between that and '{met}'"
            )
        seen |= branch


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
