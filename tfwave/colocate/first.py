"""The first step of a job: TensorFlow makes its graph ready in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfwave.colocate.life import Instance, Stepping
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.group_barriers import Watch
from tfwave.runtime.live.grappler import in_grappler


@dataclass(frozen=True)
class FirstStep:
    """Graphs as TensorFlow's optimizer left them, in its turns; and those that run, one for each device."""

    optimized: Sequence[GraphItem]
    graphs: Sequence[GraphDef]


def first_step(life: Stepping, instance: Instance) -> FirstStep:
    """Make the first step of a job in an instance; the job may end with it, or fail."""
    watch = Watch()
    made: list[GraphDef] = []

    def first(*batch: Any) -> Any:
        with in_grappler(life.rewritten(watch)):
            value, graphs = instance.first(*batch)
        made.extend(graphs)
        return value

    life.advance(first)
    return FirstStep(watch.seen, made)
