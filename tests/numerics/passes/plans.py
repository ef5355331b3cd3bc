"""Notes for the samples, of all that crosses devices: also within one task, which a plan leaves out."""

from collections import defaultdict
from dataclasses import dataclass

from tfwave.graph.names import Channel, TransferKey, edge_source, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.partition.place import place
from tfwave.graph.reach import in_control_flow
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.transfer import is_control_only
from tfwave.graph.view import RECV_OPS, GraphView, wire_key
from tfwave.passes.base import GraphPass
from tfwave.plan.annotation import NOTE, annotated_orders, rank_note
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT

Crossing = tuple[TransferKey, str]
"""A transfer and the node that bears its rank."""


@dataclass(frozen=True)
class NoteAll(GraphPass):
    """Rank all transfers of each channel in a topological order of their sources."""

    devices: tuple[str, ...] = ()

    def run(self, graph: GraphRewriter) -> None:
        view = graph.view
        if annotated_orders(view):
            return
        is_cut = any(op in RECV_OPS for op in view.ops)
        crossings = _received(view) if is_cut else _to_cross(graph, self.devices)
        counts: dict[Channel, int] = defaultdict(int)
        ranks: dict[str, list[tuple[int, TransferKey]]] = defaultdict(list)
        for key, bearer in crossings:
            ranks[bearer].append((counts[key.channel], key))
            counts[key.channel] += 1
        for bearer in sorted(ranks):
            graph.note(bearer, NOTE, rank_note(ranks[bearer]))


def _received(view: GraphView) -> list[Crossing]:
    inside = in_control_flow(view)
    found: list[Crossing] = []
    for node in view.topological_order:
        if view.ops[node] not in RECV_OPS or node in inside or is_control_only(view, node):
            continue
        source, destination, edge = wire_key(view.nodes[node])
        port = parse_input(view.nodes[view.sends[node]].input[0]).port
        found.append((TransferKey(edge_source(edge), port, Channel(source, destination)), view.names[node]))
    return found


def _to_cross(graph: GraphRewriter, devices: tuple[str, ...]) -> list[Crossing]:
    view, table = graph.view, OpTable.of(graph.item.graph)
    inside, homes = in_control_flow(view), place(graph.item, devices=devices, soft=True)
    found: dict[TransferKey, str] = {}
    for node in view.topological_order:
        if node in inside:
            continue
        home = homes[view.names[node]]
        for reader in sorted(view.fanouts[node], key=lambda n: view.names[n]):
            away = homes[view.names[reader]]
            if away == home:
                continue
            for text in view.nodes[reader].input[: view.data_fanins[reader]]:
                name = parse_input(text)
                if name.node != view.names[node]:
                    continue
                kind = table.output_types(view.nodes[node])[name.port]
                if kind not in (DT_RESOURCE, DT_VARIANT) and kind < 100:
                    found.setdefault(TransferKey(name.node, name.port, Channel(home, away)), name.node)
    return list(found.items())
