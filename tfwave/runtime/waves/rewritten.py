"""The graph that runs the waves of a traced step, and what is fed to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.verify import verify
from tfwave.rewrite.waves.names import SCOPE, wave_name
from tfwave.rewrite.waves.training import Training
from tfwave.runtime.live.replay import traced_item
from tfwave.runtime.waves.carry import CarryOver
from tfwave.runtime.waves.following import HandlesPlaced, NodesPlaced, WeightsFollowed
from tfwave.runtime.waves.loops import HandlesAroundLoops
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.state import KeptGradient, WaveState
from tfwave.runtime.waves.step import TracedStep

_AVERAGE, _KEPT = f"{SCOPE}/average/", "/kept"


@dataclass(frozen=True)
class RewrittenStep:
    """A traced step, and the graph of its waves.

    Raises:
        PassError: the step cannot run in waves; see `grappler_passes.tick_tock`.
        GraphError: its graph is not understood; names the node.
    """

    step: TracedStep
    options: WaveOptions

    @cached_property
    def plain(self) -> GraphItem:
        """The graph of a step as the pass takes it; the losses are fetched, too.

        A loss that is not returned would not be computed, and no wave could wait for it.
        """
        graph = self.step.concrete.graph
        item = traced_item(graph)
        targets = dict.fromkeys((*self.step.ends, *(operation.name for operation in graph.control_outputs)))
        item = replace(item, fetches=(*item.fetches, *targets))
        item = HandlesAroundLoops()(item).item
        if not self.options.is_parallel:
            return item
        for placed in (
            HandlesPlaced(),
            WeightsFollowed(self.step.ends),
            NodesPlaced(self.step.ends, self.step.forward_of),
        ):
            item = placed(item).item
        return item

    @cached_property
    def training(self) -> Training:
        """The step as the pass takes it apart."""
        return Training.of(self.plain, verify(self.plain), self.step.ends)

    @cached_property
    def item(self) -> GraphItem:
        """The graph of the waves; its feeds and fetches are those of all waves."""
        graph, count = self.step.concrete.graph, self.step.carried
        item = self.options.graph_pass(self.step.ends)(self.plain).item
        feeds = tuple([tensor.name for tensor in graph.inputs[:count]])
        sources = tuple([_computed(tensor).name for tensor in graph.outputs[:count]])
        return CarryOver(self.options.waves, feeds, sources)(item).item

    @property
    def outputs(self) -> list[str]:
        """What the last wave carries on, and what each wave returns."""
        names = [tensor.name for tensor in self.step.concrete.graph.outputs]
        carried, returned = names[: self.step.carried], names[self.step.carried :]
        last = [wave_name(name, self.options.waves - 1) for name in carried]
        return [*last, *(wave_name(name, wave) for wave in range(self.options.waves) for name in returned)]

    @property
    def targets(self) -> list[str]:
        """The ops that must run."""
        return [name for name in self.item.fetches if ":" not in name]

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The tensors of the step that a call gives: those that are carried, then the arguments of each wave."""
        inputs = self.step.concrete.graph.inputs
        count, all_given = self.step.carried, len(inputs) - len(self.step.concrete.captured_inputs)
        given = {tensor.name: tensor for tensor in inputs[:count]}
        for wave in range(self.options.waves):
            given |= {wave_name(tensor.name, wave): tensor for tensor in inputs[count:all_given]}
        return given

    def captured(self, state: WaveState) -> dict[str, Any]:
        """What is outside of the graph, by the feeds that stand for it; makes the variables of the further waves.

        What TensorFlow asks for at each call is the callable that it asks, such as a collective's instance key.

        Raises:
            EnforcerError: as `WaveState.variable` and `WaveState.kept`.
        """
        fed = frozenset(self.item.feeds)
        devices = {node.name: node.device for node in self.item.graph.node}
        found = {tensor.name: value for tensor, value in self._outside()}
        for tensor, value in self._outside():
            for wave in range(1, self.options.waves):
                if (name := wave_name(tensor.name, wave)) in fed:
                    own = tensor.dtype.name == "resource"
                    found[name] = (
                        state.variable(value, wave, devices[parse_input(name).node]).handle if own else value
                    )
        return {**found, **{f"{name}:0": variable.handle for name, variable in self._kept(state).items()}}

    def apart(self, state: WaveState) -> dict[str, Any]:
        """As `captured`, with the variables of wave 1 in the place of those that the step changes.

        Raises:
            EnforcerError: as `WaveState.variable`.
        """
        changed = {name for _, _, name in self.training.variables.changed}
        return {
            tensor.name: state.variable(value, 1).handle if tensor.op.name in changed else value
            for tensor, value in self._outside()
        }

    def _outside(self) -> list[tuple[Any, Any]]:
        """What is captured: the tensors of the graph, and what they stand for."""
        graph = self.step.concrete.graph
        outside = [*graph.external_captures, *graph.deferred_external_captures]
        inside = graph.inputs[len(graph.inputs) - len(outside) :]
        return list(zip(inside, outside, strict=True))

    def _kept(self, state: WaveState) -> dict[str, Any]:
        names = [name for name in self.item.feeds if ":" not in name]
        return state.kept(names[0], list(self._gradients(names[1:]))) if names else {}

    def _gradients(self, names: Sequence[str]) -> Iterator[KeptGradient]:
        graph = self.step.concrete.graph
        devices = {node.name: node.device for node in self.item.graph.node}
        for name in names:
            node, _, port = name.removeprefix(_AVERAGE).removesuffix(_KEPT).rpartition("_")
            tensor = graph.get_tensor_by_name(f"{node}:{port}")
            yield KeptGradient(name, tensor.dtype, tensor.shape, devices[node])


def _computed(tensor: Any) -> Any:
    """The tensor behind the copy that a function returns, which waits for all that the function does."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor
