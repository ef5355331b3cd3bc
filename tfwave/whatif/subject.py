"""The job that is asked about: as captured, with what is known of its costs and of the network."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tfwave.balance.holdings import Holdings
from tfwave.capture.bundle import Bundle
from tfwave.capture.cards import card_of
from tfwave.capture.costs import bundle_costs, channel_links
from tfwave.cost.analytic import AnalyticCosts, LinkModel
from tfwave.cost.estimate import EstimateMissing
from tfwave.cost.model import CostModel
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfers
from tfwave.graph.view import GraphView

_ANY_BANDWIDTH = 1.0
"""Of cards that are all alike the bandwidth makes no difference to how they are shared."""


@dataclass(frozen=True)
class Subject:
    """A job as captured; `given` knows what ops take, and transfers where no card is known.

    Attributes:
        card: the network card of each task, fitted to the capture; None where transfers have times of their own.
        overheads: seconds that each transfer of a channel takes beside its bytes.
        captured_seconds: the median of the captured steps; None where none was captured.
    """

    view: GraphView
    transfers: Transfers
    given: CostModel
    job: str
    card: LinkModel | None = None
    overheads: Mapping[Channel, float] = field(default_factory=dict[Channel, float])
    captured_seconds: float | None = None

    def costs(self, bandwidth: float | None) -> EstimateMissing:
        """What ops take, and transfers that have a card to themselves; what is not known is estimated.

        Raises:
            MissingCost: at first use, if no transfer is known at all.
        """
        if bandwidth is None and self.card is not None:
            bandwidth = self.card.bytes_per_second
        known = self.given
        if bandwidth is not None:
            channels = {t.channel for t in self.transfers.data}
            links = {c: LinkModel(self.overheads.get(c, 0.0), bandwidth) for c in channels}
            known = AnalyticCosts(self.given, links)
        return EstimateMissing(known, self.view, self.transfers.data)

    def network(self, bandwidth: float | None, latency_seconds: float) -> LinkModel:
        """The card of each task."""
        captured = _ANY_BANDWIDTH if self.card is None else self.card.bytes_per_second
        return LinkModel(latency_seconds, captured if bandwidth is None else bandwidth)


def graph_subject(view: GraphView, transfers: Transfers, given: CostModel, job: str) -> Subject:
    """A graph with costs from elsewhere; bytes are known where whole variables are read."""
    sized = Holdings(view, job).sized(transfers.data)
    return Subject(view, replace(transfers, data=sized), given, job)


def bundle_subject(bundle: Bundle, job: str) -> Subject:
    """A captured job: all its network cards are taken to be alike."""
    links = channel_links(bundle.records)
    return Subject(
        bundle.view,
        bundle.transfers,
        bundle_costs(bundle),
        job,
        card_of(bundle.records),
        {channel: link.latency_seconds for channel, link in links.items()},
        bundle.manifest.median_seconds,
    )
