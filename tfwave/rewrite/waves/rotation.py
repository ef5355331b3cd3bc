"""The devices of waves in model parallel training: each wave passes a partition on another one."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfwave.graph.attrs import colocated_with
from tfwave.graph.names import parse_input
from tfwave.graph.reach import reached
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, NodeDef
from tfwave.rewrite.waves.cycles import device_of
from tfwave.rewrite.waves.names import wave_name
from tfwave.rewrite.waves.partitions import Partitions
from tfwave.rewrite.waves.updates import StepTensors
from tfwave.rewrite.waves.write import WaveWriter


@dataclass(frozen=True)
class Rotation:
    """Moves what the further waves have for themselves, once it is written.

    1. What is on the device of partition p goes to that of p + w in wave w (modulo their number), variables and
       what initialises them included.
    2. What takes the handle of something that waves share stays where that is, as TensorFlow demands; so does
       what is colocated with it, or with anything else that is not copied.
    """

    writer: WaveWriter
    partitions: Partitions

    def turn(self) -> None:
        """Move all waves but wave 0."""
        graph, devices = self.writer.graph, self.partitions.devices
        moved = (self.writer.own - self._staying()) | set(self.writer.variables.writers)
        for node in graph.view.nodes:
            partition = self.partitions.asked_by(node) if node.name in moved else None
            if partition is not None:
                for wave in range(1, self.writer.waves):
                    device = devices[device_of(len(devices), partition, wave)]
                    graph.move(wave_name(node.name, wave), device)

    def _staying(self) -> frozenset[str]:
        """Case 2, with nodes that are not copied among them."""
        ties = self._ties()
        return reached(ties.__getitem__, [name for name in ties if name not in self.writer.own])

    def _ties(self) -> Mapping[str, list[str]]:
        """For each name those of which it must share the device."""
        ties: dict[str, list[str]] = defaultdict(list)
        tensors = StepTensors(self.writer.graph.item, self.writer.training.step)
        view = self.writer.graph.view
        for number in self.writer.training.step.order:
            node = view.nodes[number]
            if node.name in self.writer.own:
                for other in (*_handles(tensors, node), *colocated_with(node)):
                    ties[node.name].append(other)
                    ties[other].append(node.name)
        return ties


def _handles(tensors: StepTensors, node: NodeDef) -> Iterator[str]:
    """The nodes whose handles a node takes."""
    for text in node.input:
        tensor = parse_input(text)
        if tensors.kind(tensor) == DT_RESOURCE:
            yield tensor.node
