"""Network cards: what all channels of a task share."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tfwave.capture.bundle import Bundle
from tfwave.capture.costs import bundle_costs, channel_links, time_oracle
from tfwave.capture.step_stats import TransferRecord
from tfwave.cost.analytic import AnalyticCosts, LinkModel
from tfwave.cost.model import CostModel, CostSource
from tfwave.graph.names import Channel, task_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.planner import Network
from tfwave.sim.cluster import UNSHARED, Cluster


@dataclass(frozen=True)
class OnCard:
    """Another model's costs, but what a transfer's bytes take on a card that it has to itself, if a card is known.

    A channel that shares a card with others is slower: its own link, fitted while they were busy too, says what it
    takes beside them, and nothing of what all take together.
    """

    base: CostModel
    card: LinkModel | None

    @property
    def source(self) -> CostSource:
        return self.base.source

    def op_seconds(self, view: GraphView, node: int) -> float:
        return self.base.op_seconds(view, node)

    def transfer_seconds(self, transfer: Transfer) -> float:
        if self.card is None or not transfer.bytes:
            return self.base.transfer_seconds(transfer)
        return transfer.bytes / self.card.bytes_per_second


def bundle_network(bundle: Bundle) -> Network:
    """What was captured, as cards that channels share; all are taken to be like the busiest one.

    A channel's own link, fitted while others were busy too, tells what its card left it then.
    """
    card = card_of(bundle.records)
    if card is None:
        return Network(bundle_costs(bundle), UNSHARED)
    links = {
        channel: LinkModel(link.latency_seconds, card.bytes_per_second)
        for channel, link in channel_links(bundle.records).items()
    }
    return Network(AnalyticCosts(time_oracle(bundle), links), Cluster(LinkModel(0.0, card.bytes_per_second)))


def card_of(traced: Iterable[Iterable[TransferRecord]]) -> LinkModel | None:
    """The network card that moved the most bytes in one direction, fitted to all that passed it.

    The others may have been faster than what they had to move tells. None where no bytes were traced.
    """
    steps = [list(records) for records in traced]
    moved: dict[Channel, int] = defaultdict(int)
    for record in (record for records in steps for record in records):
        for port in _ports(record.channel):
            moved[port] += record.bytes
    if not any(moved.values()):
        return None
    busiest = min(moved, key=lambda port: (-moved[port], port))
    through = (
        [replace(r, channel=busiest) for r in records if busiest in _ports(r.channel)] for records in steps
    )
    return channel_links(through)[busiest]


def _ports(channel: Channel) -> tuple[Channel, Channel]:
    """What the card of a task sends, and what that of another receives."""
    return Channel(task_of(channel.source), ""), Channel("", task_of(channel.destination))
