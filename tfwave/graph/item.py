"""What goes into and out of every analysis: graphs with the names that must stay."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfwave.proto.tensorflow_pb2 import GraphDef


@dataclass(frozen=True)
class GraphItem:
    """A GraphDef, library included, with its feeds, fetches and nodes to preserve (names).

    The proto is shared, never edited in place. `custom_ops` names ops of the user's own libraries, which tfwave
    cannot know: nodes of such ops are taken as they are. `handles` is set for the graph of a traced function, whose
    feeds are its inputs: the device of each variable that comes in, by the name of its feed.
    """

    graph: GraphDef
    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    preserve: frozenset[str] = frozenset()
    custom_ops: frozenset[str] = frozenset()
    handles: Mapping[str, str] | None = None
