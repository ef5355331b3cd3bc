"""Small constants that are read on several devices are made on each: they never cross the network."""

import math

from tfwave.graph.names import CONTROL_PORT
from tfwave.graph.partition.wiring import Draft, Fanin, Wiring
from tfwave.proto.tensorflow_pb2 import NodeDef

_CONSTANTS = frozenset({"Const", "HostConst"})
_MOST_ELEMENTS = 16


def replicated(wiring: Wiring, first_number: int) -> Wiring:
    """Copy each constant of at most 16 elements to the devices of its readers, as TensorFlow does.

    Left as they are: constants that a control edge leaves, and those whose readers share a device.
    The copies are numbered from `first_number` on: ``name/replicate/_3``.
    """
    draft = Draft(wiring)
    gone: set[int] = set()
    for node, op in enumerate(wiring.ops):
        if op not in _CONSTANTS or not _is_small(wiring.nodes[node]):
            continue
        readers = wiring.fanouts[node]
        devices = sorted({wiring.devices[reader] for reader, _ in readers})
        if len(devices) < 2 or any(port == CONTROL_PORT for _, port in readers):
            continue
        for device in devices:
            _copy(draft, wiring, node, device, first_number)
            first_number += 1
        gone.add(node)
    made = draft.wiring()
    return made.kept([node for node in range(len(made)) if node not in gone]) if gone else wiring


def _copy(draft: Draft, wiring: Wiring, node: int, device: str, number: int) -> None:
    copy = NodeDef()
    copy.CopyFrom(wiring.nodes[node])
    copy.name = f"{copy.name}/replicate/_{number}"
    made = draft.add(copy, wiring.fanins[node], device)
    for reader in {reader for reader, _ in wiring.fanouts[node] if wiring.devices[reader] == device}:
        draft.fanins[reader] = tuple(_redirected(draft.fanins[reader], node, made))


def _redirected(fanins: tuple[Fanin, ...], old: int, new: int) -> list[Fanin]:
    return [(new, port) if source == old else (source, port) for source, port in fanins]


def _is_small(node: NodeDef) -> bool:
    value = node.attr.get("value")
    if value is None:
        return False
    return math.prod(dim.size for dim in value.tensor.tensor_shape.dim) <= _MOST_ELEMENTS
