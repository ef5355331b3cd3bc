"""The costs that a bundle tells, and the network."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.cards import traced_network, without_bytes
from tfwave.bundle.links import channel_links, service_seconds
from tfwave.bundle.step_stats import op_seconds
from tfwave.cost.analytic import LinkModel, over_links
from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.cost.trace import measured_costs
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfer


def bundle_costs(bundle: Bundle, transfers: Sequence[Transfer] | None = None) -> Costs:
    """Ops: the minimum over the traced steps (TicTac section 5). Transfers: a link fitted to their times.

    A traced arrival spent most of its time behind other transfers, which a minimum over few runs does not take
    away; a line (latency + bytes / bandwidth) through the times that the channel worked does.
    A transfer whose events TensorFlow lost in every step has no bytes, and is not known.

    Args:
        bundle: what was captured.
        transfers: its own, where more is known of their sizes than the traces tell.
    """
    known = bundle.transfers.data if transfers is None else transfers
    return _over_links(bundle, known, channel_links(bundle.records))


def bundle_network(bundle: Bundle) -> Network:
    """What was captured, given as by `bundle_costs`; all cards are taken to be alike."""
    transfers, links = bundle.transfers.data, channel_links(bundle.records)
    given = _over_links(bundle, transfers, links)
    network = traced_network(given, links, transfers, bundle.records)
    told = bundle.manifest
    return replace(network, seen=_seen(bundle), machine_seconds=told.machine_seconds, cores=told.cores or 0)


def _over_links(bundle: Bundle, transfers: Sequence[Transfer], links: Mapping[Channel, LinkModel]) -> Costs:
    """By size; what was traced without bytes, as an empty tensor is, takes what it took."""
    traced = traced_costs(bundle)
    return over_links(traced, transfers, links).fill({}, without_bytes(traced, transfers))


def traced_costs(bundle: Bundle) -> Costs:
    """The minimum of the runs of each op, and of the service time of each transfer."""
    ops: dict[tuple[str, str], list[float]] = defaultdict(list)
    for step in bundle.steps:
        for op, seconds in op_seconds(step):
            ops[op].append(seconds)
    served: dict[TransferKey, list[float]] = defaultdict(list)
    for records in bundle.records:
        for record, seconds in service_seconds(records):
            if (transfer := bundle.transfer_of(record)) is not None:
                served[transfer.key].append(seconds)
    return measured_costs(bundle.view, bundle.transfers.data, ops, served)


def _seen(bundle: Bundle) -> list[dict[TransferKey, float]]:
    """When the sender had each transfer, of each step."""
    return [
        {t.key: r.start_seconds for r in step if (t := bundle.transfer_of(r)) is not None}
        for step in bundle.records
    ]
