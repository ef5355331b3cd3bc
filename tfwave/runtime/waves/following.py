"""Nodes of a model parallel step that say no device, put on those of the data that they take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tfwave.graph.names import parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.rewrite.waves.flow import DataFlow
from tfwave.rewrite.waves.partitions import Partitions
from tfwave.rewrite.waves.training import Training


@dataclass(frozen=True)
class HandlesPlaced(GraphPass):
    """Puts what takes the handle of a variable that is fed where the variable lies, as TensorFlow does.

    What takes those of several devices stays as it is.
    """

    def run(self, graph: GraphRewriter) -> None:
        """Move them."""
        places = {parse_input(feed).node: device for feed, device in (graph.item.handles or {}).items()}
        for name, device in places.items():
            graph.move(name, device)
        for node in graph.view.nodes:
            sources = {parse_input(text).node for text in node.input if not text.startswith("^")}
            devices = {places[source] for source in sources if source in places}
            if len(devices) == 1:
                graph.move(node.name, devices.pop())


@dataclass(frozen=True)
class WeightsFollowed(GraphPass):
    """Puts nodes of the forward pass that say no device where the weights are that they take, as read or cast.

    What takes those of several devices stays as it is.
    """

    boundary: tuple[str, ...] = ()

    def run(self, graph: GraphRewriter) -> None:
        """Move them."""
        view, training = graph.view, Training.of(graph.item, graph.view, self.boundary)
        weights = {
            node: view.nodes[node].device for read in training.variables.reads.values() for node in read
        }
        before = DataFlow(training.step).upstream(training.end)
        for node in training.step.order:
            if node in before and node not in weights and not view.nodes[node].device:
                data = view.fanins[node][: view.data_fanins[node]]
                devices = {weights[source] for source in data if source in weights} - {""}
                if len(devices) == 1:
                    device = devices.pop()
                    graph.move(view.names[node], device)
                    if len(data) == 1:
                        weights[node] = device


@dataclass(frozen=True)
class NodesPlaced(GraphPass):
    """Puts nodes that say no device on a partition's; those that say one stay.

    1. A node of the forward pass goes to the last partition from which it takes data, weights among them.
    2. A node of a gradient goes where the node is that it is the gradient of (`forward_of`, by names).
    3. What is left of the backward pass, such as the sum of several gradients, goes where it is first taken: to
       the last partition that takes it.
    4. What else the updates need, such as what an optimizer makes of a slot, goes where all that take it are, if
       that is one partition.

    Others, such as metrics and a global norm, stay without a device. `boundary` names the end of the forward pass.
    """

    boundary: tuple[str, ...] = ()
    forward_of: Mapping[str, str] = field(default_factory=dict[str, str])

    def run(self, graph: GraphRewriter) -> None:
        """Move them."""
        training = Training.of(graph.item, graph.view, self.boundary)
        partitions = Partitions.of(training)
        places = _Places(training, partitions, dict(partitions.at))
        places.follow_data()
        places.follow_forward(self.forward_of)
        places.follow_takers()
        places.follow_updates()
        for node in sorted(places.at.keys() - partitions.at.keys()):
            graph.move(graph.view.names[node], partitions.devices[places.at[node]])


@dataclass(frozen=True)
class _Places:
    """The partitions of nodes, by number, as far as they are known."""

    training: Training
    partitions: Partitions
    at: dict[int, int]

    def follow_data(self) -> None:
        """Case 1."""
        flow = DataFlow(self.training.step)
        for node in self.training.step.order:
            if node in self.partitions.forward:
                self._put(node, flow.fanins[node])

    def follow_forward(self, forward_of: Mapping[str, str]) -> None:
        """Case 2."""
        names = self.training.step.view.names
        numbers = {name: node for node, name in enumerate(names)}
        for node in self.training.step.order:
            if names[node] in forward_of:
                self._put(node, [numbers[forward_of[names[node]]]])

    def follow_takers(self) -> None:
        """Case 3."""
        flow = DataFlow(self.training.step)
        for node in reversed(self.training.step.order):
            if node in self.training.backward:
                self._put(node, flow.fanouts[node])

    def follow_updates(self) -> None:
        """Case 4."""
        flow = DataFlow(self.training.step)
        before = flow.upstream(update.node for update in self.training.variables.updates)
        for node in reversed(self.training.step.order):
            if node in before and len({self.at.get(taker) for taker in flow.fanouts[node]}) == 1:
                self._put(node, flow.fanouts[node])

    def _put(self, node: int, beside: Iterable[int]) -> None:
        found = [self.at[other] for other in beside if other in self.at]
        if found and node not in self.at and not self.training.step.view.nodes[node].device:
            self.at[node] = max(found)
