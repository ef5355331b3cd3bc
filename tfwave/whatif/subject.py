"""The job that is asked about: as captured, with what is known of its costs and of the network."""

from dataclasses import dataclass, replace

from tfwave.balance.holdings import Holdings
from tfwave.bundle.bundle import Bundle
from tfwave.bundle.costs import bundle_network
from tfwave.cost.analytic import LinkModel
from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfers
from tfwave.graph.view import GraphView
from tfwave.whatif.change import Change

_ANY_CARD = LinkModel(0.0, 1.0)
"""Of cards that are all alike the bandwidth makes no difference to how they are shared."""


@dataclass(frozen=True)
class Subject:
    """A job as captured.

    Attributes:
        network: its cards are fitted to the capture; without, transfers have times of their own.
        captured_seconds: the median of the captured steps; None where none was captured.
    """

    view: GraphView
    transfers: Transfers
    network: Network
    job: str
    captured_seconds: float | None = None

    def network_after(self, change: Change) -> Network:
        """With cards of the bandwidth and latency asked for; what is not known is estimated.

        Raises:
            MissingCost: at first use, if no transfer is known at all.
        """
        if change.bandwidth is not None:
            card = LinkModel(change.latency_seconds, change.bandwidth)
            changed = self.network.with_card(card, self.transfers.data)
        else:
            captured = self.network.card or _ANY_CARD
            card = replace(captured, latency_seconds=change.latency_seconds)
            changed = replace(self.network, card=card)
        return changed.estimated(self.transfers.data)


def graph_subject(view: GraphView, transfers: Transfers, given: Costs, job: str) -> Subject:
    """A graph with costs from elsewhere; bytes are known where whole variables are read."""
    sized = Holdings(view, job).sized(transfers.data)
    network = Network(given, overheads=dict.fromkeys((t.channel for t in sized), 0.0))
    return Subject(view, replace(transfers, data=sized), network, job)


def bundle_subject(bundle: Bundle, job: str) -> Subject:
    """A captured job: all its network cards are taken to be alike."""
    network = bundle_network(bundle)
    return Subject(bundle.view, bundle.transfers, network, job, bundle.manifest.median_seconds)
