"""A plan's order, written on the nodes of a graph, so that it travels with the graph.

The node that a planned transfer hangs on bears the attribute ``_tfwave_rank``, a list of ``<rank>;<transfer key>``.
It is the `_Recv` in a graph that is cut into partitions, else the node whose output will cross.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tfwave.errors import GraphError, PlanError
from tfwave.graph.marks import PREFIX
from tfwave.graph.names import Channel, TransferKey, parse_number
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import AttrValue

NOTE = "rank"
_ATTR = f"{PREFIX}_{NOTE}"


@dataclass(frozen=True, order=True)
class Annotation:
    """One transfer in its turn: `rank` counts from 0 within the channel; `node` bears the note."""

    rank: int
    key: TransferKey
    node: str


def rank_note(entries: Iterable[tuple[int, TransferKey]]) -> AttrValue:
    """The note for a node with these ranks."""
    texts = sorted(f"{rank};{key}" for rank, key in entries)
    return AttrValue(list=AttrValue.ListValue(s=[text.encode() for text in texts]))


def annotated_orders(view: GraphView) -> dict[Channel, tuple[Annotation, ...]]:
    """The order of each channel that is noted in a graph, channels and ranks sorted; empty if nothing is.

    Raises:
        GraphError: a note that cannot be read; names the node.
    """
    channels: dict[Channel, list[Annotation]] = defaultdict(list)
    for node in view.nodes:
        if _ATTR not in node.attr:
            continue
        for text in node.attr[_ATTR].list.s:
            entry = _parse(node.name, text.decode(errors="replace"))
            channels[entry.key.channel].append(entry)
    return {channel: tuple(sorted(channels[channel])) for channel in sorted(channels)}


def _parse(node: str, text: str) -> Annotation:
    rank, _, key = text.partition(";")
    number = parse_number(rank)
    if number is None:
        raise GraphError(f"node '{node}': the note '{text}' in {_ATTR} is malformed: expected '<rank>;<key>'")
    try:
        return Annotation(number, TransferKey.parse(key), node)
    except PlanError as error:
        raise GraphError(f"node '{node}': {error}") from error
