"""What transfers take on network cards that they share, and alone."""

from dataclasses import replace

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.analytic import LinkModel
from tfwave.cost.cluster import UNSHARED
from tfwave.cost.network import Network
from tfwave.errors import MissingCost
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView

PULL, PUSH = Channel(SERVERS[0], WORKER), Channel(WORKER, SERVERS[0])


def pulled_and_pushed() -> tuple[GraphView, list[Transfer]]:
    """Two tensors are pulled, of which one was lost in the traces, and one is pushed."""
    build = Builder()
    for name, channel in (("busy", PULL), ("lost", PULL), ("pushed", PUSH)):
        build.pair(name, channel.source, channel.destination, send=False)
    build.op(WORKER, "op", [])
    view = GraphView.of(*build.partitions.values())
    found = {t.key.node: t for t in find_transfers(view).data}
    sizes = {"busy": 4000, "lost": 0, "pushed": 2000}
    return view, [replace(found[name], bytes=size) for name, size in sizes.items()]


VIEW, ALL = pulled_and_pushed()
BUSY, LOST, PUSHED = ALL
GIVEN = by_name(VIEW, {"op": 5.0}, {BUSY.node: 3.0, LOST.node: 7.0, PUSHED.node: 1.0})
CARD = LinkModel(0.25, 1000.0)


def test_without_a_card_all_is_as_given() -> None:
    network = Network(GIVEN, overheads={PULL: 0.5})
    assert (network.costs, network.cluster) == (GIVEN, UNSHARED)
    assert [network.card_seconds(t) for t in (BUSY, LOST)] == [3.0, 7.0]


def test_alone_on_a_card_a_transfer_takes_its_bytes_and_the_overhead_of_its_channel() -> None:
    network = Network(GIVEN, overheads={PULL: 0.5, PUSH: 0.0}).with_card(CARD, ALL)
    assert [network.costs.transfer_seconds(t) for t in (BUSY, PUSHED)] == [4.5, 2.0]
    assert network.given is GIVEN
    assert network.cluster.nic_of("/job:ps/replica:0/task:0") == CARD
    again = network.with_card(LinkModel(0.0, 2000.0), ALL)
    assert again.costs.transfer_seconds(BUSY) == 2.5


def test_a_card_is_busy_for_as_long_as_bytes_pass() -> None:
    network = Network(GIVEN, overheads={PULL: 0.5}).with_card(CARD, ALL)
    assert [network.card_seconds(t) for t in ALL] == [4.0, 7.0, 2.0]


def test_what_is_not_known_is_estimated_by_what_others_take_in_the_same_way() -> None:
    given = by_name(VIEW, {"op": 5.0}, {BUSY.node: 3.0, PUSHED.node: 1.0})
    network = Network(given, overheads={PULL: 0.5, PUSH: 0.0}).with_card(CARD, ALL)
    for costs in (network.given, network.costs):
        with pytest.raises(MissingCost, match=f"'{LOST.node}' receives"):
            costs.transfer_seconds(LOST)
    filled = network.estimated(ALL)
    assert filled.given.transfer_seconds(LOST) == filled.card_seconds(LOST) == 2.0
    assert filled.costs.transfer_seconds(LOST) == 3.25
    op = VIEW.names.index("op")
    assert [costs.op_seconds(op) for costs in (filled.given, filled.costs)] == [5.0, 5.0]
    assert Network(given).estimated(ALL).costs.transfer_seconds(LOST) == 2.0
