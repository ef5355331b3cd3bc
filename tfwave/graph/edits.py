"""What was done to a graph: the entries of a rewrite's log."""

from dataclasses import dataclass

from tfwave.proto.tensorflow_pb2 import AttrValue, NodeDef


@dataclass(frozen=True)
class NodeAdded:
    """A node that was not there."""

    node: NodeDef


@dataclass(frozen=True)
class NodeRemoved:
    """A node taken out, as it was."""

    node: NodeDef


@dataclass(frozen=True)
class ControlEdgeAdded:
    """`target` now waits for `source` (node names)."""

    source: str
    target: str


@dataclass(frozen=True)
class InputRedirected:
    """The data input at `position` of a node now reads the tensor `after` in place of `before`."""

    node: str
    position: int
    before: str
    after: str


@dataclass(frozen=True)
class InputsReplaced:
    """All inputs of a node at once, data before control."""

    node: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class DeviceChanged:
    """A node moved."""

    node: str
    before: str
    after: str


@dataclass(frozen=True)
class AttrSet:
    """A note of tfwave's own on a node; None where it was taken away."""

    node: str
    name: str
    value: AttrValue | None


Edit = NodeAdded | NodeRemoved | ControlEdgeAdded | InputRedirected | InputsReplaced | DeviceChanged | AttrSet
