"""Run waves of a model parallel training step, one partition after the other on each device."""

from collections.abc import Iterator
from dataclasses import dataclass

from tfwave.errors import PassError
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass
from tfwave.plan.match import check_graph
from tfwave.plan.plan import Plan
from tfwave.plan.waves import MOST_WAVES, Waves
from tfwave.rewrite.waves.cells import find_cells, write_cells
from tfwave.rewrite.waves.checks import check_step
from tfwave.rewrite.waves.cycles import CycleTable, cycle_table
from tfwave.rewrite.waves.names import wave_name
from tfwave.rewrite.waves.once import check_fetches, check_whole, has_waves
from tfwave.rewrite.waves.partition_checks import check_partitions
from tfwave.rewrite.waves.partitions import Partitions
from tfwave.rewrite.waves.rotation import Rotation
from tfwave.rewrite.waves.training import Training
from tfwave.rewrite.waves.write import WaveWriter

__all__ = ["TickTockPartitions", "wave_name"]


@dataclass(frozen=True)
class TickTockPartitions(GraphPass):
    """Run a model parallel training step on `waves` batches at once, each on another device at a time (Wavelet).

    Of a model whose partitions lie on N devices, a batch keeps one device busy at a time. Here up to N batches pass
    the partitions side by side, by the cycle table of the paper's section 3.3.

    1. Partitions are the devices that hold weights, numbered as the forward pass visits them. N waves are the
       most, and what `waves=0` means; `tfwave waves` of a captured step finds fewer, where so many slow wave 0 or
       do not fit the memory (appendix B.2).
    2. Wave 0 keeps its names and devices. Wave w has copies named ``tick_tock/<w>/<name>``, each w devices on: feed
       and fetch them as with tick_tock. So each device holds, besides its own partition, copies of those that the
       other waves pass there, with their optimizer slots. What gives a variable its first value gives it to all.
    3. In the first cycle wave w runs forward through partition 0, on device w. In the next the device goes on to
       partition (p + 1) mod N and batch (b - 1) mod N; backward in the inverse order. Gates
       ``tick_tock/cells/<cycle>/<device>`` let what runs in a cycle of the table wait for what the same device runs
       before it. No device waits for a cycle to end on another one: only for its batch to arrive.
    4. What runs by the table is what follows from weights in the forward pass, and the backward pass, where they
       are on a partition's device. Other nodes run when they can: what is placed nowhere or elsewhere, where it
       stays in all waves; what clipping by the global norm computes of all partitions; updates.
    5. A gradient is averaged over all waves of the call as soon as all have made it, where wave 0 makes it, and
       each wave updates its copies by the average: those of a partition while others are still in their backward
       pass, unless clipping joins them. All copies of a weight stay equal bit for bit. A call equals one step of
       sequential training that updates by the mean of the gradients of the call's batches, taken at the same
       weights: for a loss that is a mean over samples, one step with one large batch. It is not what several steps
       of one batch do; schedules see one step a call. Averaged is what enters the updates, after clipping.
    6. The end of the forward pass is found, or named by `boundary`, and random ops draw, as with tick_tock.
       What waves share (variables that the step does not change, tables, iterators) stays where it is, and so does
       what takes it.

    A call must run all waves. In the graph of a traced function, where handles are fed, those of the further waves
    are fed, too: feed variables on the devices of case 2.

    Refused are, besides what tick_tock refuses, a forward pass that comes back to a device, weights on one device
    only or without a device, a backward pass that is placed elsewhere, collectives, and branches and loops of
    TensorFlow 1 on several partitions.

    A plan of `tfwave waves` says `waves`, and fits one graph.

    Raises:
        PassError: a number of waves below 0, or above that of partitions or 64, or not that of the plan.
        PlanError: the plan was made for another graph.
    """

    waves: int = 0
    boundary: tuple[str, ...] = ()
    plan: Plan | None = None

    def __post_init__(self) -> None:
        """Take what a plan says, and refuse options out of range."""
        if self._planned is not None:
            if self.waves not in (0, self._planned.count):
                raise PassError(
                    f"{self.name}: waves is {self.waves}, and the plan says {self._planned.count}: leave it out"
                )
            object.__setattr__(self, "waves", self._planned.count)
        if not 0 <= self.waves <= MOST_WAVES:
            raise PassError(
                f"tick_tock_partitions: waves is {self.waves}, it must be 0 (all) to {MOST_WAVES}"
            )

    def requires(self, view: GraphView) -> None:
        """The graph is not cut yet, and its steps are single."""
        check_whole(view, self.name)

    def run(self, graph: GraphRewriter) -> None:
        """Copy the step to the devices of each wave, and let each device keep to the table."""
        if self.waves == 1 or has_waves(graph.view, graph.author):
            return
        check_fetches(graph.item, self.name)
        if self._planned is not None:
            check_graph(self._planned.graph, graph.view)
        training = Training.of(graph.item, graph.view, self.boundary)
        check_step(graph.item, training)
        partitions = Partitions.of(training)
        check_partitions(graph.item, training, partitions)
        table = self._table(len(partitions))
        cells = find_cells(training, partitions, table)
        writer = WaveWriter(graph, training, table.waves)
        writer.copy()
        write_cells(graph, training, cells, table, partitions)
        writer.take_turns()
        writer.average_call()
        writer.initialise()
        Rotation(writer, partitions).turn()
        graph.rename_ends(
            feeds=writer.of_all_waves(graph.item.feeds), fetches=writer.of_all_waves(graph.item.fetches)
        )
        writer.remark()
        _remark(graph, partitions, table)

    @property
    def _planned(self) -> Waves | None:
        return self.plan.waves if self.plan is not None else None

    def _table(self, partitions: int) -> CycleTable:
        most = min(partitions, MOST_WAVES)
        waves = self.waves or most
        if waves > most:
            raise PassError(f"{self.name}: waves is {waves}, and {partitions} partitions take 1 to {most}")
        return cycle_table(partitions, waves)


def _remark(graph: GraphRewriter, partitions: Partitions, table: CycleTable) -> None:
    places = [f"{number} '{device}'" for number, device in enumerate(partitions.devices)]
    graph.remark(f"partitions, and devices, by the order of the forward pass: {', '.join(places)}")
    graph.remark("\n".join(["F and B of (partition, wave) by cycle:", *_lines(table)]))


def _lines(table: CycleTable) -> Iterator[str]:
    rows = list(table.rows())
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
