"""The partitions of a model: the devices that hold its weights, in the order of the forward pass."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import GraphError, PassError
from tfwave.graph.levels import by_name, natural_ranks
from tfwave.graph.names import natural_key
from tfwave.graph.partition.devices import ANY, DeviceName, parse_device
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.rewrite.waves.flow import DataFlow
from tfwave.rewrite.waves.training import Training

Links = Mapping[tuple[int, int], list[int]]
"""By (one device, another): the nodes of the latter that take what comes from the former, by number."""


@dataclass(frozen=True)
class Partitions:
    """The partitions of a training step that is placed on several devices, numbered from 0.

    1. Partitions are the devices that hold weights: variables that the forward pass reads and gradients update.
       What is placed on another device, or on none, is of no partition.
    2. Two names are one device if kind and number are the same, and no other part differs.
    3. What reads a variable is where the variable is, whatever device it asks for.
    4. They are numbered as the data of the forward pass visit them; those beside each other by name.

    `at` has the partition of each node of the step that is of one, `forward` the nodes of the forward pass that
    follow from weights, both by number.
    """

    names: tuple[DeviceName, ...]
    at: Mapping[int, int]
    forward: frozenset[int]

    @classmethod
    def of(cls, training: Training) -> "Partitions":
        """The partitions of a step.

        Raises:
            PassError: a weight has no device, or the forward pass comes back to a device; names the node.
            GraphError: what is no device name; names the node.
        """
        finder = _Finder(training)
        links = finder.links()
        order = _ordered([str(name) for name in finder.names], links)
        if len(order) < len(finder.names):
            raise finder.visited_twice(links, set(range(len(finder.names))) - set(order))
        number = {device: partition for partition, device in enumerate(order)}
        at = {node: number[device] for node, device in finder.at.items()}
        return cls(tuple([finder.names[device] for device in order]), at, finder.forward)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def devices(self) -> tuple[str, ...]:
        """Their devices, to place nodes on."""
        return tuple(map(str, self.names))

    def asked_by(self, node: NodeDef) -> int | None:
        """On which partition's device a node asks to be, if on any.

        Raises:
            GraphError: what is no device name; names the node.
        """
        return _place(self.names, _device_of(node))


@dataclass(frozen=True)
class _Finder:
    training: Training

    @property
    def _view(self) -> GraphView:
        return self.training.step.view

    @cached_property
    def _flow(self) -> DataFlow:
        return DataFlow(self.training.step)

    @cached_property
    def _reads(self) -> tuple[int, ...]:
        """What reads weights for the forward pass."""
        variables = self.training.variables
        late = self._after_gradients
        weights = {v for update in variables.updates if update.node in late for v in update.variables}
        before = self._flow.upstream(self.training.end)
        reads = {n for v, nodes in variables.reads.items() if v in weights for n in nodes if n in before}
        return by_name(self._view, reads)

    @cached_property
    def _after_gradients(self) -> frozenset[int]:
        """All that waits for a gradient, through slots that are written and then read, too."""
        step = self.training.step
        found = {node for gradient in self.training.gradients for node, _ in gradient.uses}
        for node in step.order:
            if not found.isdisjoint(step.fanins[node]):
                found.add(node)
        return frozenset(found)

    @cached_property
    def forward(self) -> frozenset[int]:
        """The nodes of the forward pass that follow from weights."""
        return self._flow.upstream(self.training.end) & self._flow.downstream(self._reads)

    @cached_property
    def names(self) -> tuple[DeviceName, ...]:
        """Cases 1 and 2."""
        found: list[DeviceName] = []
        for node in self._reads:
            if self._device(node) == ANY:
                raise PassError(
                    f"the weight that node '{self._view.names[node]}' reads has no device: place each partition "
                    "of the model on a device of its own, with tf.device"
                )
        for name in sorted(
            {self._device(node) for node in self._reads}, key=lambda name: natural_key(str(name))
        ):
            same = next((i for i, one in enumerate(found) if _is_same(one, name)), None)
            if same is None:
                found.append(name)
            else:
                found[same] = found[same].specified_by(name)
        return tuple(found)

    @cached_property
    def at(self) -> Mapping[int, int]:
        """The device of each node of the step that is on one that holds weights, by number."""
        places = {node: _place(self.names, self._device(node)) for node in self.training.step.order}
        return {node: place for node, place in places.items() if place is not None}

    def _device(self, node: int) -> DeviceName:
        """Case 3."""
        view = self._view
        source = view.fanins[node][0] if view.data_fanins[node] else node
        is_handle = view.ops[source] == "VarHandleOp" and view.nodes[source].device
        return _device_of(view.nodes[source if is_handle else node])

    def links(self) -> Links:
        """Between which devices the data of the forward pass go, through nodes that are on none of them, too."""
        links: dict[tuple[int, int], list[int]] = {}
        comes_from: dict[int, frozenset[int]] = {}
        for node in self.training.step.order:
            if node not in self.forward:
                continue
            before = frozenset[int]().union(*(comes_from.get(f, ()) for f in self._flow.fanins[node]))
            here = self.at.get(node)
            comes_from[node] = before if here is None else frozenset({here})
            if here is not None:
                for source in before - {here}:
                    links.setdefault((source, here), []).append(node)
        return links

    def visited_twice(self, links: Links, among: Collection[int]) -> PassError:
        """Names the last node at which the forward pass comes back, or may be said to."""
        stuck = set(among)
        while ends := {one for one in stuck if not any((one, other) in links for other in stuck)}:
            stuck -= ends
        found = [
            (node, source) for (source, d), nodes in links.items() if {source, d} <= stuck for node in nodes
        ]
        ranks = natural_ranks(self._view, {node for node, _ in found}, self._view.levels)
        node, source = max(found, key=lambda one: (ranks[one[0]], one[1]))
        return PassError(
            f"node '{self._view.names[node]}' takes what comes from '{self.names[source]}' back to "
            f"'{self.names[self.at[node]]}', which the forward pass has left: place what is on a device side by "
            "side in the model"
        )


def _ordered(names: Sequence[str], links: Links) -> list[int]:
    """Case 4; without those that come back to each other, and what follows them."""
    left = set(range(len(names)))
    ordered: list[int] = []
    while free := [d for d in left if not any((other, d) in links for other in left)]:
        ordered.append(min(free, key=lambda device: natural_key(names[device])))
        left.remove(ordered[-1])
    return ordered


def _is_same(one: DeviceName, other: DeviceName) -> bool:
    return (one.kind, one.number) == (other.kind, other.number) and one.agrees_with(other)


def _place(names: Iterable[DeviceName], device: DeviceName) -> int | None:
    """Which of the names is this device, if it is sure to be one."""
    found = [number for number, name in enumerate(names) if device != ANY and _is_same(name, device)]
    return found[0] if len(found) == 1 else None


def _device_of(node: NodeDef) -> DeviceName:
    try:
        return parse_device(node.device)
    except GraphError as error:
        raise GraphError(f"node '{node.name}': {error}") from error
