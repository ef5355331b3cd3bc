"""Run waves of a training step, each while the one before is in its backward pass."""

from dataclasses import dataclass
from typing import Literal, get_args

from tfwave.errors import PassError
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass
from tfwave.plan.match import check_graph
from tfwave.plan.plan import Plan
from tfwave.plan.waves import MOST_WAVES, Waves
from tfwave.rewrite.waves.checks import check_step
from tfwave.rewrite.waves.gate import check_gate, find_gate
from tfwave.rewrite.waves.names import wave_name
from tfwave.rewrite.waves.once import check_fetches, check_whole, has_waves
from tfwave.rewrite.waves.training import Training
from tfwave.rewrite.waves.write import WaveWriter

__all__ = ["TickTock", "wave_name"]

Average = Literal["wave", "batch"]


@dataclass(frozen=True)
class TickTock(GraphPass):
    """Run `waves` training steps in one call, each while the one before is in its backward pass (Wavelet).

    A backward pass frees the memory that the forward pass of the next wave takes. The nodes that the fetches need
    are copied for each further wave, with variables and optimizer slots of its own.

    1. Wave 0 keeps its names. Wave w has copies named ``tick_tock/<w>/<name>``: feed each wave's own placeholders
       (a batch for each), fetch each wave's own losses and train op, all in one call. In the list of feeds, and in
       that of fetches, each name is followed by the same of the further waves.
    2. Each wave has a copy of all variables that the step changes. What gives a variable its value outside of the
       step (an initialiser, a restore) gives it to those of all waves, so that they begin as one. Checkpoints hold
       those of wave 0. Variables that the step does not change, tables, queues and iterators are shared; what
       changes a shared one does so wave by wave.
    3. Nothing of a wave begins before its gate, ``tick_tock/gates/<w>``. It opens after the forward pass of the
       wave before, and after a share `offset` of its backward pass: of all nodes of that, by longest-path level
       and name, so many must have run. 0 is the paper's, 1 lets no two waves compute side by side.
    4. The forward pass ends with the fetched losses, or else with the first nodes that all weights go into;
       `boundary` names its last nodes where neither is so. Found from data edges, whatever names are.
    5. ``average="wave"`` is the paper's Eq. 1: a wave takes the mean of its own gradient and that of the wave
       before, which was taken at other weights. The last gradient of a call is kept for the next; the first
       wave after an initialiser or a restore takes its own alone. The weights of waves differ. It is not the same
       as one large batch. ``average="batch"`` is: all waves take the mean over the call, so that their weights
       stay equal bit for bit, and each waits for the gradients of all before it updates.
       Averaged is the gradient, after clipping and after an all-reduce; what an optimizer makes of it, of slots and
       of a weight that it reads again is made of the average. A penalty in the loss is part of the gradient. What
       is kept lies where the gradient is computed: of workers that share variables, each runs ``tick_tock/begin``
       once.
       Of single rows with their numbers, as of an embedding (`tf.IndexedSlices`), those of all waves come one after
       another, as in a large batch, each divided by the number of waves: an optimizer sees a row as often as
       samples took it, and makes rows unique, if it does, behind the average.
    6. A random op with fixed seeds draws as before in wave 0, and in wave w as one would whose second seed is
       higher by w * 2**32. Stateless random ops draw from the seeds that they are given: waves that read them from
       constants or variables draw alike; feed them, to draw differently.
    7. A collective op has an instance key for each wave, higher by w * 2**24; functions are shared.

    Each wave counts its own global step. A call must run all waves. In the graph of a traced function, where
    handles are fed, those of the further waves are fed, too; so are, with ``average="wave"``, those of
    ``tick_tock/going_on``, a truth value that begins as false, and of ``tick_tock/average/<gradient>/kept``,
    which begin as 0.

    Refused are reference variables, updates of slices, rows that are made unique in each wave before an optimizer
    takes them that does not do so itself, gradients in branches of TensorFlow 1's control flow, functions with
    random state, collectives or variables of their own, updates that follow from several gradients, or from one
    mixed with what the forward pass has read of the weight, single rows that are taken into a branch, as
    accumulated ones are, those of a scaled loss and those between replicas, and any update that takes what follows
    from the batch and is not averaged: of what the forward pass reads or an optimizer keeps, but for a state that
    the forward pass gives as it is; of others, such as metrics, if it comes from the backward pass.

    A plan with waves, as `tfwave waves --graph` writes it, says `waves` and `offset`, and fits one graph.

    Raises:
        PassError: less than one wave or more than 64, an offset outside of 0 to 1, or not that of the plan, or an
            unknown average.
        PlanError: the plan was made for another graph.
    """

    waves: int = 2
    average: Average = "wave"
    offset: float = 0.0
    boundary: tuple[str, ...] = ()
    plan: Plan | None = None

    def __post_init__(self) -> None:
        """Take what a plan says, and refuse options out of range."""
        if self._planned is not None:
            self._follow(self._planned)
        if not 1 <= self.waves <= MOST_WAVES:
            raise PassError(f"tick_tock: waves is {self.waves}, it must be 1 to {MOST_WAVES}")
        if not 0 <= self.offset <= 1:
            raise PassError(f"tick_tock: offset is {self.offset}, it must be from 0 to 1")
        if self.average not in get_args(Average):
            raise PassError(f"tick_tock: average is {self.average!r}, it must be 'wave' or 'batch'")

    def requires(self, view: GraphView) -> None:
        """The graph is not cut yet, and its steps are single."""
        check_whole(view, self.name)

    def run(self, graph: GraphRewriter) -> None:
        """Copy the step, and let each copy wait for the middle of the one before it."""
        if self.waves == 1 or has_waves(graph.view, graph.author):
            return
        check_fetches(graph.item, self.name)
        if self._planned is not None:
            check_graph(self._planned.graph, graph.view)
        training = Training.of(graph.item, graph.view, self.boundary)
        check_step(graph.item, training)
        writer = WaveWriter(graph, training, self.waves)
        gate = find_gate(training, self.offset, writer.copied)
        if self.average == "batch":
            check_gate(training, gate)
        writer.copy()
        writer.gate(gate)
        writer.take_turns()
        kept = self._average(writer)
        writer.initialise()
        graph.rename_ends(
            feeds=[*writer.of_all_waves(graph.item.feeds), *(kept if writer.variables.fed else ())],
            fetches=writer.of_all_waves(graph.item.fetches),
        )
        writer.remark()

    @property
    def _planned(self) -> Waves | None:
        return self.plan.waves if self.plan is not None else None

    def _follow(self, planned: Waves) -> None:
        """The options are the plan's from here on, so that the nodes that are added tell them."""
        for option, value in (("waves", planned.count), ("offset", planned.offset)):
            given, default = getattr(self, option), getattr(type(self), option)
            if given not in (value, default):
                raise PassError(f"tick_tock: {option} is {given}, and the plan says {value}: leave it out")
            object.__setattr__(self, option, value)

    def _average(self, writer: WaveWriter) -> tuple[str, ...]:
        if self.average == "wave":
            return writer.average_sequence()
        writer.average_call()
        return ()
