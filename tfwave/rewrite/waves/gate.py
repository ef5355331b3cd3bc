"""Where in a step the next wave begins, and what of that wave waits for it."""

from collections.abc import Collection
from dataclasses import dataclass

from tfwave.errors import PassError
from tfwave.graph.levels import by_name, natural_ranks
from tfwave.graph.reach import in_control_flow, upstream_of
from tfwave.rewrite.waves.training import Training

_SOURCE_OPS = frozenset({"Placeholder", "PlaceholderV2", "_Arg"})
"""What only gives what it is fed."""


@dataclass(frozen=True)
class Gate:
    """The nodes of a wave that come before the gate, and those of the next that wait for it, by number.

    Both leave out what the others imply: `before` nodes that another of them follows from, `behind` nodes that
    follow from another.
    """

    before: tuple[int, ...]
    behind: tuple[int, ...]


def backward_order(training: Training) -> tuple[int, ...]:
    """The nodes of the backward pass, by longest-path level in the graph, then by name.

    Without those in branches and loops of TensorFlow 1: nothing outside can wait for one of their runs.
    """
    view = training.step.view
    nodes = training.backward - in_control_flow(view)
    ranks = natural_ranks(view, nodes, view.levels)
    return tuple(sorted(nodes, key=lambda node: ranks[node]))


def find_gate(training: Training, offset: float, copied: Collection[str]) -> Gate:
    """The gate behind the end of the forward pass and a share `offset` of the backward pass, 0 to 1.

    The share counts nodes, in `backward_order`, rounded to a whole number (half to even). At 1 all gradients come
    before the gate. All nodes of a wave of which it has copies (`copied`) come behind it.
    """
    order = backward_order(training)
    before = {*training.end, *order[: round(offset * len(order))]}
    return Gate(_last(training, before), _first(training, copied))


def check_gate(training: Training, gate: Gate) -> None:
    """Refuse a gate that comes after an update, where updates wait for the gradients of all waves.

    Raises:
        PassError: names the update.
    """
    view = training.step.view
    earlier = upstream_of(view, gate.before)
    for gradient in training.gradients:
        for node, _ in gradient.uses:
            if node in earlier:
                raise PassError(
                    f"the next wave would begin after '{view.names[node]}', which takes a gradient and waits for "
                    'that of the next wave: take average="wave"'
                )


def _last(training: Training, nodes: Collection[int]) -> tuple[int, ...]:
    view = training.step.view
    inner = {fanin for node in nodes for fanin in view.fanins[node]}
    return by_name(view, [node for node in nodes if node not in inner])


def _first(training: Training, copied: Collection[str]) -> tuple[int, ...]:
    step = training.step
    names, ops = step.view.names, step.view.ops
    live = {node for node in step.order if names[node] in copied and ops[node] not in _SOURCE_OPS}
    return by_name(step.view, [node for node in live if live.isdisjoint(step.fanins[node])])
