"""What transfers take on network cards that they share, and alone."""

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.cost.analytic import LinkModel
from tfwave.cost.file import FileCosts
from tfwave.errors import MissingCost
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.planner import Network
from tfwave.sim.cluster import UNSHARED

PULL, PUSH = Channel(SERVERS[0], WORKER), Channel(WORKER, SERVERS[0])


def transfer(name: str, size: int, channel: Channel = PULL) -> Transfer:
    return Transfer(TransferKey(name, 0, channel), name, f"edge_{name}", 0, size)


BUSY, LOST, PUSHED = transfer("busy", 4000), transfer("lost", 0), transfer("pushed", 2000, PUSH)
GIVEN = FileCosts({"op": 5.0}, {"busy": 3.0, "lost": 7.0, "pushed": 1.0})
CARD = LinkModel(0.25, 1000.0)


def test_without_a_card_all_is_as_given() -> None:
    network = Network(GIVEN, overheads={PULL: 0.5})
    assert (network.costs, network.cluster) == (GIVEN, UNSHARED)
    assert [network.card_seconds(t) for t in (BUSY, LOST)] == [3.0, 7.0]


def test_alone_on_a_card_a_transfer_takes_its_bytes_and_the_overhead_of_its_channel() -> None:
    network = Network(GIVEN, overheads={PULL: 0.5, PUSH: 0.0}).with_card(CARD)
    assert [network.costs.transfer_seconds(t) for t in (BUSY, PUSHED)] == [4.5, 2.0]
    assert network.given is GIVEN
    assert network.cluster.nic_of("/job:ps/replica:0/task:0") == CARD
    again = network.with_card(LinkModel(0.0, 2000.0))
    assert again.costs.transfer_seconds(BUSY) == 2.5


def test_a_card_is_busy_for_as_long_as_bytes_pass() -> None:
    network = Network(GIVEN, overheads={PULL: 0.5}).with_card(CARD)
    assert [network.card_seconds(t) for t in (BUSY, LOST, PUSHED)] == [4.0, 7.0, 2.0]


def test_what_is_not_known_is_estimated_by_what_others_take_in_the_same_way() -> None:
    build = Builder()
    build.op(WORKER, "op", [])
    view = GraphView.of(*build.partitions.values())
    given = FileCosts({"op": 5.0}, {"busy": 3.0, "pushed": 1.0})
    network = Network(given, overheads={PULL: 0.5, PUSH: 0.0}).with_card(CARD)
    for costs in (network.given, network.costs):
        with pytest.raises(MissingCost, match="lost"):
            costs.transfer_seconds(LOST)
    filled = network.estimated(view, [BUSY, LOST, PUSHED])
    assert filled.given.transfer_seconds(LOST) == filled.card_seconds(LOST) == 2.0
    assert filled.costs.transfer_seconds(LOST) == 3.25
    assert [costs.op_seconds(view, 0) for costs in (filled.given, filled.costs)] == [5.0, 5.0]
    unshared = Network(given).estimated(view, [BUSY, LOST, PUSHED])
    assert unshared.costs.transfer_seconds(LOST) == 2.0
