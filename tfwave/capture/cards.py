"""Network cards: what all channels of a task share."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tfwave.capture.bundle import Bundle
from tfwave.capture.costs import channel_links, time_oracle
from tfwave.capture.step_stats import TransferRecord
from tfwave.cost.analytic import AnalyticCosts, LinkModel
from tfwave.cost.model import CostModel
from tfwave.graph.names import Channel, task_of
from tfwave.graph.transfer import Transfer
from tfwave.planner import Network


def bundle_network(bundle: Bundle) -> Network:
    """What was captured, given as by `bundle_costs`; all cards are taken to be like the busiest one."""
    links = channel_links(bundle.records)
    given = AnalyticCosts(time_oracle(bundle), links)
    return traced_network(given, links, bundle.transfers.data, bundle.records)


def traced_network(
    given: CostModel,
    links: Mapping[Channel, LinkModel],
    transfers: Iterable[Transfer],
    traced: Sequence[Iterable[TransferRecord]],
) -> Network:
    """What traces tell of transfers: `links` are those of the channels, fitted to them."""
    overheads = dict.fromkeys((t.channel for t in transfers), 0.0)
    overheads |= {channel: link.latency_seconds for channel, link in links.items()}
    network, card = Network(given, overheads=overheads), card_of(traced)
    return network if card is None else network.with_card(card)


def card_of(traced: Iterable[Iterable[TransferRecord]]) -> LinkModel | None:
    """The network card that moved the most bytes in one direction, fitted to all that passed it.

    The others may have been faster than what they had to move tells. What transfers took beside their bytes is no
    latency of the card. None where no bytes were traced.
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
    return replace(channel_links(through)[busiest], latency_seconds=0.0)


def _ports(channel: Channel) -> tuple[Channel, Channel]:
    """What the card of a task sends, and what that of another receives."""
    return Channel(task_of(channel.source), ""), Channel("", task_of(channel.destination))
