"""Network cards: what all channels of a task share."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from tfwave.bundle.links import service_seconds
from tfwave.bundle.step_stats import TransferRecord
from tfwave.cost.analytic import LinkModel
from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.graph.names import Channel, task_of
from tfwave.graph.transfer import Transfer


def traced_network(
    given: Costs,
    links: Mapping[Channel, LinkModel],
    transfers: Sequence[Transfer],
    traced: Sequence[Iterable[TransferRecord]],
) -> Network:
    """What traces tell of transfers: `links` are those of the channels, fitted to them."""
    overheads = dict.fromkeys((t.channel for t in transfers), 0.0)
    overheads |= {channel: link.latency_seconds for channel, link in links.items()}
    card = card_of(traced)
    if card is None:
        return Network(given, overheads=overheads)
    left = _left(traced, card)
    overheads = {channel: min(latency, left.get(channel, latency)) for channel, latency in overheads.items()}
    network = Network(given, overheads=overheads).with_card(card, transfers)
    on_card = network.on_card and network.on_card.fill({}, without_bytes(given, transfers))
    return replace(network, on_card=on_card)


def without_bytes(traced: Costs, transfers: Iterable[Transfer]) -> dict[int, float]:
    """Seconds of the transfers that were traced without bytes, as an empty tensor is, by node."""
    return {t.recv: traced.transfers[t.recv] for t in transfers if not t.bytes and t.recv in traced.transfers}


def _left(traced: Iterable[Iterable[TransferRecord]], card: LinkModel) -> dict[Channel, float]:
    """What transfers of each channel took on average beside what their bytes take on the card, in seconds."""
    taken: dict[Channel, list[float]] = defaultdict(list)
    for record, seconds in (served for records in traced for served in service_seconds(records)):
        taken[record.channel].append(seconds - record.bytes / card.bytes_per_second)
    return {channel: max(0.0, fmean(seconds)) for channel, seconds in taken.items()}


def card_of(traced: Iterable[Iterable[TransferRecord]]) -> LinkModel | None:
    """A network card, as fast as that of any task was in any step, in one direction.

    What passed it counts over the time in which anything was under way there. That is too slow where a card waited
    for others, or where TensorFlow lost arrivals, and never too fast. Cards that moved less than half of what the
    busiest did tell nothing. None where no bytes were traced.
    """
    passed: dict[Channel, list[_Passed]] = defaultdict(list)
    for records in traced:
        for port, of_step in _passed(records).items():
            passed[port].append(of_step)
    moved = {port: sum(size for size, _ in steps) for port, steps in passed.items()}
    busy = [steps for port, steps in passed.items() if 2 * moved[port] >= max(moved.values())]
    rates = [max((size / seconds for size, seconds in steps if seconds), default=0.0) for steps in busy]
    fastest = max(rates, default=0.0)
    if not fastest:
        return None
    steps = busy[rates.index(fastest)]
    waited = math.fsum(seconds - size / fastest for size, seconds in steps)
    return LinkModel(0.0, fastest, waited / math.fsum(seconds for _, seconds in steps))


_Passed = tuple[int, float]
"""Bytes, and the seconds in which any were under way."""


def _passed(records: Iterable[TransferRecord]) -> dict[Channel, _Passed]:
    """Of a step, in each direction of each card."""
    through: dict[Channel, list[TransferRecord]] = defaultdict(list)
    for record in records:
        for port in _ports(record.channel):
            through[port].append(replace(record, channel=port))
    return {
        port: (sum(r.bytes for r in own), math.fsum(seconds for _, seconds in service_seconds(own)))
        for port, own in through.items()
    }


def _ports(channel: Channel) -> tuple[Channel, Channel]:
    """What the card of a task sends, and what that of another receives."""
    return Channel(task_of(channel.source), ""), Channel("", task_of(channel.destination))
