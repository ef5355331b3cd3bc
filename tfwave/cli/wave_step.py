"""From a captured step to the pass `tick_tock`: its graph, and the earliest offset at which two waves fit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import CapturedMemory
from tfwave.cli.inputs import only_graph, open_graphs
from tfwave.errors import BundleError, GraphError, PlanError, TfwaveError
from tfwave.graph.flow_ops import ARG_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.step import step_of
from tfwave.graph.verify import verify
from tfwave.passes.text import build_pass
from tfwave.plan.waves import Waves
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, GraphDef
from tfwave.rewrite.waves.training import Training
from tfwave.waves.fit import fitting_offset, pool_needs
from tfwave.waves.needs import PoolNeeds
from tfwave.waves.number import planned_waves
from tfwave.waves.verdict import WaveVerdict


@dataclass(frozen=True)
class CapturedStep:
    """A captured step that is to run in waves under a limit, in bytes; `training` says why, where there is none."""

    found: CapturedMemory
    training: Training | str
    limit: int

    @cached_property
    def needs(self) -> PoolNeeds:
        """Of the pool; without the graph, the copies of gradients do not count."""
        memory, others = self.found.memory, self.found.others or 0
        if isinstance(self.training, str):
            return PoolNeeds(memory, others)
        return pool_needs(self.training, memory, others)

    @cached_property
    def offset(self) -> float | str:
        """The earliest at which two waves with the captured batch fit, or why there is none."""
        if isinstance(self.training, str):
            return self.training
        try:
            return fitting_offset(self.training, self.found.memory, self.limit, self.found.others or 0)
        except PlanError as error:
            return str(error)

    @property
    def is_too_large(self) -> bool:
        """Is it known that two waves of it fit at no offset?"""
        return not isinstance(self.training, str) and isinstance(self.offset, str)

    def planned(self, verdict: WaveVerdict) -> Waves:
        """As many waves of the captured batch as are worth running, as a section of a plan.

        Raises:
            PlanError: there is no graph to plan for; says why.
        """
        if isinstance(self.training, str):
            raise PlanError(f"there are no waves to plan: {self.training}")
        return planned_waves(self.training, verdict, self.needs, self.limit, self.found.others or 0)

    @property
    def passes(self) -> str | None:
        """The pass with this offset, as `tfwave rewrite --passes` takes it."""
        offset = self.offset
        return None if isinstance(offset, str) else str(build_pass("tick_tock", {"offset": offset}))


def training_of(bundle: Bundle, graph: str | None, fetches: Sequence[str]) -> Training | str:
    """The training step that was captured: of a graph in a file, or else as the bundle has it, or why it has none.

    Raises:
        GraphError, PassError: the file cannot be read, has no single training step, or its step is not the one
            that was captured.
    """
    if graph is not None:
        item = only_graph(open_graphs(graph), graph)
        _check_captured(bundle, item, graph)
        return _training(item, fetches)
    try:
        return _training(_traced(bundle), fetches)
    except TfwaveError as error:
        return str(error)


def _training(item: GraphItem, fetches: Sequence[str]) -> Training:
    item = replace(item, fetches=tuple(fetches))
    if not item.fetches:
        raise GraphError("nobody says what a step runs: give the loss and the train op with --fetch")
    return Training.of(item, verify(item))


def _check_captured(bundle: Bundle, item: GraphItem, graph: str) -> None:
    """Refuse a graph whose step has other nodes than the captured one had in the program, if that is known."""
    if bundle.own is None:
        return
    captured, given = map(_named, (bundle.own, step_of(item.graph, bundle.manifest.fetches)))
    if captured != given:
        name, op = min(captured ^ given)
        which = "a" if (name, op) in given else "no"
        raise GraphError(
            f"'{graph}' is not the graph that was captured: its step has {which} node '{name}' ({op}); give the "
            "graph of the session that was traced, or capture this one"
        )


def _named(graph: GraphDef) -> frozenset[tuple[str, str]]:
    return frozenset((node.name, node.op) for node in graph.node)


def _traced(bundle: Bundle) -> GraphItem:
    graph, *more = bundle.graphs
    if more:
        raise BundleError(
            f"the step ran in {len(more) + 1} parts, and tick_tock takes the whole graph: give it with --graph"
        )
    if any(node.op in ARG_OPS and node.attr["T"].type == DT_RESOURCE for node in graph.node):
        raise BundleError(
            "the step is a tf.function, whose trace does not tell which buffers are gradients: in waves, let "
            'offset="auto" choose'
        )
    return GraphItem(graph)
