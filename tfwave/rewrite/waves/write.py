"""Writing the waves of a step into its graph."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import PassError
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.reach import in_control_flow
from tfwave.graph.rewriter import GraphRewriter
from tfwave.rewrite.steps.copies import find_copied
from tfwave.rewrite.waves.average import BEGIN, add_kept, average_call, average_sequence
from tfwave.rewrite.waves.copies import WaveCopier
from tfwave.rewrite.waves.gate import Gate
from tfwave.rewrite.waves.names import SCOPE, wave_name
from tfwave.rewrite.waves.training import Gradient, Training
from tfwave.rewrite.waves.variables import OwnVariables, own_variables


@dataclass(frozen=True)
class WaveWriter:
    """Adds `waves` - 1 further waves of a training step to a graph, step by step.

    Raises:
        PassError: a variable that nothing initialises; names it.
    """

    graph: GraphRewriter
    training: Training
    waves: int

    @cached_property
    def copied(self) -> frozenset[str]:
        """The nodes that each wave has for itself, handles aside."""
        return find_copied(self.graph.item, self.graph.view)

    @cached_property
    def variables(self) -> OwnVariables:
        """The variables that each wave has for itself."""
        changed = self.training.variables.changed
        return own_variables(self.graph.item, self.graph.view, changed, self.copied)

    @cached_property
    def own(self) -> frozenset[str]:
        """All that each wave has for itself."""
        return self.copied | self.variables.handles

    @property
    def _further(self) -> range:
        return range(1, self.waves)

    def remark(self) -> None:
        """Say how to call the waves, where the forward pass ends, and what is averaged."""
        graph, gradients = self.graph, self.training.gradients
        graph.remark(
            f"{self.waves} waves a call: feed and fetch those of wave w under its names, "
            f"such as '{wave_name(graph.item.fetches[0], 1)}' for wave 1"
        )
        ends = [graph.view.names[node] for node in self.training.end]
        graph.remark(
            f"the forward pass ends at {_listed(ends)}; averaged are {len(gradients)} gradients: "
            f"{_listed([gradient.tensor.node for gradient in gradients])}"
        )

    def copy(self) -> None:
        """Copy the step and its variables."""
        copier = self._copier(self.own)
        for name, node in zip(self.graph.view.names, self.graph.view.nodes, strict=True):
            if name in self.own:
                for wave in self._further:
                    for made in copier.copies(node, wave):
                        self.graph.insert(made)

    def initialise(self) -> None:
        """Let what writes a variable outside of the step write those of all waves first."""
        copier = self._copier(self.variables.handles)
        index = dict(zip(self.graph.view.names, self.graph.view.nodes, strict=True))
        for name in self.variables.writers:
            for wave in self._further:
                self.graph.insert(copier.copy(index[name], wave))
                self.graph.add_control_edge(wave_name(name, wave), name)
            if self.graph.has_node(BEGIN):
                self.graph.add_control_edge(BEGIN, name)

    def gate(self, gate: Gate) -> None:
        """Let each wave wait for the one before."""
        names, nodes = self.graph.view.names, self.graph.view.nodes
        for wave in self._further:
            before = [f"^{wave_name(names[node], wave - 1)}" for node in gate.before]
            made = self.graph.add_node(
                f"{SCOPE}/gates/{wave}", "NoOp", before, device=nodes[gate.before[0]].device
            )
            for node in gate.behind:
                self.graph.add_control_edge(made, wave_name(names[node], wave))

    def take_turns(self) -> None:
        """Let what changes something that waves share do so wave by wave.

        Raises:
            PassError: it is in a branch or a loop of TensorFlow 1; names it.
        """
        names, inside = self.graph.view.names, in_control_flow(self.graph.view)
        found = self.training.variables
        nodes = {t.node for t in found.touches if t.writes and t.resource not in found.changed}
        for node in sorted(nodes, key=lambda node: names[node]):
            if node in inside:
                raise PassError(
                    f"node '{names[node]}' changes what waves share, within a branch or a loop of TensorFlow 1: "
                    "build the graph after tf.compat.v1.enable_control_flow_v2()"
                )
            for wave in self._further:
                self.graph.add_control_edge(wave_name(names[node], wave - 1), wave_name(names[node], wave))

    def average_call(self) -> None:
        """Let updates take the averages over a call."""
        self._average(average_call)

    def average_sequence(self) -> tuple[str, ...]:
        """Let updates take the averages with the wave before; gives the handles of what is kept."""
        kept = add_kept(self.graph, self.training.gradients, fed=self.variables.fed)
        self._average(average_sequence)
        return kept

    def of_all_waves(self, tensors: Iterable[str]) -> list[str]:
        """Each tensor, followed by the same tensor of the further waves."""
        counts = [(name, self.waves if parse_input(name).node in self.own else 1) for name in tensors]
        return [wave_name(name, wave) for name, count in counts for wave in range(count)]

    def _average(self, add: Callable[[GraphRewriter, Gradient, int], list[str]]) -> None:
        names = self.graph.view.names
        for gradient in self.training.gradients:
            for wave, average in enumerate(add(self.graph, gradient, self.waves)):
                for node, position in gradient.uses:
                    self.graph.redirect(wave_name(names[node], wave), position, average)

    def _copier(self, own: frozenset[str]) -> WaveCopier:
        item = self.graph.item
        return WaveCopier(OpTable.of(item.graph), own, self.variables.handles, item.custom_ops)


def _listed(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*(f"'{name}'" for name in names[:most]), *more])
