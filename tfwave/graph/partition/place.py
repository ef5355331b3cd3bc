"""Placement: the full device of each node, as TensorFlow chooses it, where its kernels have no say."""

from collections.abc import Sequence

from tfwave.errors import GraphError
from tfwave.graph.functions.lower import lower
from tfwave.graph.insertion import in_insertion_order
from tfwave.graph.item import GraphItem
from tfwave.graph.names import CONTROL_PORT
from tfwave.graph.partition.colocate import PINNED_OPS, Groups
from tfwave.graph.partition.devices import (
    CPU,
    DeviceName,
    DeviceSet,
    client_device,
    known_devices,
    parse_device,
)
from tfwave.graph.partition.pins import as_job
from tfwave.graph.partition.signatures import IDENTITY_OPS, METADATA_OPS, Signatures, is_ref
from tfwave.graph.partition.wiring import Wiring
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef


def place(
    item: GraphItem,
    *,
    devices: Sequence[str] = (),
    default: str = "",
    soft: bool = False,
    view: GraphView | None = None,
) -> dict[str, str]:
    """Place a graph, calls and functional control flow lowered as TensorFlow does before.

    Args:
        item: the graph; not changed.
        devices: all devices of the job, also partial names; if empty those that the graph names, with the
            CPU:0 of each task.
        default: the client's device; what is left open goes to its task, in a function to the device itself.
            If empty the first of `devices`, else CPU:0 of the chief's (master's, worker's) task 0, else of
            this process.
        soft: TensorFlow's soft placement: a device that is not there, or has no kernel for the op, is replaced by
            another of its task.
        view: of the item's graph, where it is at hand: saves indexing it again.

    Returns:
        The full device name of each node, by the node's name, and of those that lowering made.

    Raises:
        GraphError: a malformed graph; a device that is malformed or not there; nodes that must share a device and
            cannot; a node of which a GPU's kernels decide where it runs. Names the nodes and the devices.
    """
    lowered = lower(as_job(item))
    graph = in_insertion_order(lowered.graph, view if lowered is item else None)
    known = device_set(graph, devices, default)
    placed = placed_wiring(Wiring.of(graph), known, soft=soft)
    return dict(zip(placed.names, placed.devices, strict=True))


def expected_places(item: GraphItem, view: GraphView) -> dict[str, str]:
    """As `place`, for who does not know whether soft placement will be on; `view` is that of the item's graph.

    It is taken to be on, so that the fewest graphs are refused; where a GPU's kernels would then decide, it is not.

    Raises:
        GraphError: as `place`, in both ways.
    """
    try:
        return place(item, soft=True, view=view)
    except GraphError:
        return place(item, view=view)


def device_set(graph: GraphDef, devices: Sequence[str], default: str) -> DeviceSet:
    """The devices on which a graph is placed; see `place`.

    Raises:
        GraphError: a device that is malformed.
    """
    named = [parse_device(text) for text in sorted({node.device for node in graph.node}) if text]
    client = client_device(default, devices, named)
    is_function = any(node.op in PINNED_OPS for node in graph.node)
    return DeviceSet(known_devices(devices, client, named), client, prefer_client=is_function)


def placed_wiring(wiring: Wiring, devices: DeviceSet, *, soft: bool) -> Wiring:
    """The wiring with a full device for each node; see `place`.

    Raises:
        GraphError: as `place`.
    """
    return _Placer(wiring, devices, soft=soft).run()


class _Placer:
    """One run of TensorFlow's algorithm.

    Pass 1 takes the nodes in order. Case 1: a node whose group has a device gets it. If its group allows,
    Case 2: a node that reads only its input's shape goes to that input, and
    Case 3: so does an Identity with one fanin and at most one fanout, if none of the three asks for a device.
    Case 4: all others get the preferred device that the group allows.
    Pass 2 takes the sources that pass 1 left out. Case 5: a source whose readers share a device goes there,
    if its group allows; else cases 1 and 4.

    Of CPUs that is all. A GPU has kernels of some ops only, and which they are is not known here. So where it could
    be one, a node is placed only by an explicit device without soft placement, by the runtime's own pin, or on a
    CPU: a function's own, or that of cases 2, 3 and 5. So TensorFlow's source says: it never ran on a GPU.
    """

    def __init__(self, wiring: Wiring, devices: DeviceSet, *, soft: bool) -> None:
        self._wiring = wiring
        self._set = devices
        self._soft = soft
        self._groups = Groups(wiring, soft=soft)
        self._signatures = Signatures(wiring.table)
        self._chosen: dict[int, str] = {}
        self._candidates: dict[DeviceName, list[str]] = {}
        self._devices = [""] * len(wiring)

    def run(self) -> Wiring:
        later: list[int] = []
        for node in range(len(self._wiring)):
            if self._is_generator(node):
                later.append(node)
            else:
                self._assign(node, self._sources_device(node))
        for node in later:
            self._assign(node, self._readers_device(node))
        w = self._wiring
        return Wiring(w.nodes, w.names, w.ops, w.fanins, tuple(self._devices), w.table)

    def _assign(self, node: int, wish: str) -> None:
        root = self._groups.root(node)
        device = self._chosen.get(root)
        if device is None:
            device = self._chosen[root] = self._choice(node, root, wish)
        self._devices[node] = device

    def _is_generator(self, node: int) -> bool:
        """Has it no data input, one output, and is that no reference?"""
        fanins = self._wiring.fanins[node]
        if (fanins and fanins[0][1] != CONTROL_PORT) or self._wiring.ops[node] in PINNED_OPS:
            return False
        kind = self._signatures.only_output(self._wiring.nodes[node])
        return kind is not None and not is_ref(kind)

    def _sources_device(self, node: int) -> str:
        """The device of a node's input, if the node should follow it: cases 2 and 3."""
        op = self._wiring.ops[node]
        if op in METADATA_OPS or (op in IDENTITY_OPS and self._is_open(node)):
            return self._devices[self._wiring.source(node)]
        return ""

    def _is_open(self, node: int) -> bool:
        fanins, fanouts = self._wiring.fanins[node], self._wiring.fanouts[node]
        if len(fanins) != 1 or fanins[0][1] == CONTROL_PORT or len(fanouts) > 1:
            return False
        neighbours = [node, *(n for n, _ in (*fanins, *fanouts))]
        return not any(self._wiring.devices[n] for n in neighbours)

    def _readers_device(self, node: int) -> str:
        devices = {self._devices[reader] for reader, _ in self._wiring.fanouts[node]}
        return devices.pop() if len(devices) == 1 else ""

    def _allowed(self, node: int, root: int) -> list[str]:
        spec = self._groups.requested(root)
        allowed = self._candidates.get(spec)
        if allowed is None:
            allowed = self._candidates[spec] = [str(device) for device in self._set.matching(spec)]
        if not allowed and self._soft:
            kept, moved = map(self._set.matching, self._groups.softened(root))
            allowed = [str(device) for device in kept or moved]
        if not allowed:
            raise self._unsatisfiable(node, spec)
        return allowed

    def _choice(self, node: int, root: int, wish: str) -> str:
        candidates = self._allowed(node, root)
        chosen = wish if wish in candidates else candidates[0]
        rivals = [chosen] if chosen in {wish, str(self._set.own)} else candidates
        if any(parse_device(device).kind != CPU for device in rivals):
            asked_for = bool(self._groups.requested(root).kind)
            if not asked_for or (self._soft and not self._groups.is_pinned(root)):
                raise self._uncertain(node, candidates)
        return chosen

    def _uncertain(self, node: int, candidates: Sequence[str]) -> GraphError:
        name, op = self._wiring.names[node], self._wiring.ops[node]
        return GraphError(
            f"where node '{name}' ({op}) runs depends on TensorFlow's kernels, which are not known here: it may be "
            f"[{', '.join(candidates)}], or with soft placement elsewhere; name its device and do without soft "
            "placement, leave out devices that the job does not have, or capture it, which tells where it ran"
        )

    def _unsatisfiable(self, node: int, spec: DeviceName) -> GraphError:
        own = self._wiring.devices[node]
        asks = f"asks for the device '{own}'" if own else "asks for no device"
        group = "" if own and parse_device(own) == spec else f", its colocation group for '{spec}'"
        return GraphError(
            f"node '{self._wiring.names[node]}' {asks}{group}, but there is only [{self._set}]: name all "
            "devices of the job, or allow soft placement"
        )
