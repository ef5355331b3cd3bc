"""What of a step runs in which cell of the cycle table, and the edges that let devices keep to the table."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tfwave.errors import PassError
from tfwave.graph.levels import by_name
from tfwave.graph.reach import in_control_flow
from tfwave.graph.rewriter import GraphRewriter
from tfwave.rewrite.waves.cycles import CycleTable, Direction
from tfwave.rewrite.waves.names import SCOPE, wave_name
from tfwave.rewrite.waves.partitions import Partitions
from tfwave.rewrite.waves.training import Training


@dataclass(frozen=True)
class Cell:
    """The nodes of a wave that pass a partition in one direction, by number.

    `first` leaves out those that take something from another node of the cell, `last` those that give something
    to another.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]


Cells = Mapping[int, Cell]
"""By their cycle, in which all waves have the same."""


def find_cells(training: Training, partitions: Partitions, table: CycleTable) -> Cells:
    """What a wave runs in each cycle.

    1. Forward: what follows from weights, on the partition's device. Backward: what of the backward pass is there.
    2. A node of the backward pass that waits for what runs in a later cycle is of no cell, and runs when it can:
       clipping by the global norm waits for all partitions. Nor is what is on other devices, in branches and in
       loops, or comes after the gradients.

    So each node of a cell waits for cells of its own cycle and of earlier ones only, in its own wave; and where it
    waits for other waves, through an average or for its turn, so does the same node in each wave. Edges from each
    cell of a device to the device's next one therefore close no circle.

    Raises:
        PassError: a node of the forward pass waits for a later cycle, or a device has no node of either pass;
            names it.
    """
    members = _members(training, partitions, table)
    for work in table.works:
        if work.wave == 0 and not members[work.cycle]:
            raise PassError(
                f"no node of the {work.direction.name.lower()} pass is on '{partitions.devices[work.partition]}', "
                "which holds weights, outside of branches and loops of TensorFlow 1: "
                "let each gradient be computed there, as tf.compat.v1.gradients does with "
                "colocate_gradients_with_ops=True"
            )
    return {cycle: _cell(training, nodes) for cycle, nodes in members.items()}


def write_cells(
    graph: GraphRewriter, training: Training, cells: Cells, table: CycleTable, partitions: Partitions
) -> None:
    """Let each cell wait for the one before it on its device, of whatever wave."""
    names = training.step.view.names
    for device, place in enumerate(partitions.devices):
        for before, after in pairwise(table.on(device)):
            waits = [f"^{wave_name(names[node], before.wave)}" for node in cells[before.cycle].last]
            gate = graph.add_node(f"{SCOPE}/cells/{after.cycle}/{device}", "NoOp", waits, device=place)
            for node in cells[after.cycle].first:
                graph.add_control_edge(gate, wave_name(names[node], after.wave))


def _members(training: Training, partitions: Partitions, table: CycleTable) -> Mapping[int, list[int]]:
    step = training.step
    cycles = {(work.direction, work.partition): work.cycle for work in table.works if work.wave == 0}
    wanted = {node: cycles[one] for node, one in passes_of(training, partitions).items()}
    members: dict[int, list[int]] = {cycle: [] for cycle in cycles.values()}
    late: list[int] = []
    reached: dict[int, int] = {}
    for node in step.order:
        earlier = max((reached.get(fanin, -1) for fanin in step.fanins[node]), default=-1)
        cycle = wanted.get(node, -1)
        reached[node] = max(earlier, cycle)
        if node in wanted:
            (members[cycle] if earlier <= cycle else late).append(node)
    _check_late(training, partitions, late)
    return members


def passes_of(training: Training, partitions: Partitions) -> Mapping[int, tuple[Direction, int]]:
    """For each node of the forward or the backward pass on a partition's device: which pass it is to be of."""
    found: dict[int, tuple[Direction, int]] = {}
    inside = in_control_flow(training.step.view)
    for node, partition in partitions.at.items():
        if node in inside:
            continue
        if node in partitions.forward:
            found[node] = Direction.FORWARD, partition
        elif node in training.backward:
            found[node] = Direction.BACKWARD, partition
    return found


def _check_late(training: Training, partitions: Partitions, late: Iterable[int]) -> None:
    view = training.step.view
    for node in by_name(view, partitions.forward.intersection(late)):
        raise PassError(
            f"node '{view.names[node]}' of the forward pass is on '{partitions.devices[partitions.at[node]]}', and "
            "waits for a partition that comes after: take away the control edge, or place it there"
        )


def _cell(training: Training, nodes: Collection[int]) -> Cell:
    step, members = training.step, set(nodes)
    inner = {fanin for node in members for fanin in step.fanins[node]}
    return Cell(
        by_name(step.view, [node for node in members if members.isdisjoint(step.fanins[node])]),
        by_name(step.view, members - inner),
    )
