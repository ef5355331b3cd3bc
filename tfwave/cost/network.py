"""What ops and transfers take, and the network cards and cores that they share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfwave.cost.analytic import LinkModel, over_links
from tfwave.cost.cluster import UNSHARED, Cluster
from tfwave.cost.estimate import estimated
from tfwave.cost.table import Costs
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfer

EXPOSED = 0.2
"""This share of the shorter of computing and sending is not hidden behind the other. It was 0.06 in VGG16-like
training, which mostly sends, and 0.27 in that of Inception v3 at 4 Gbit/s, which mostly computes."""


@dataclass(frozen=True)
class Network:
    """What ops and transfers take, and the network cards that transfers share, all alike.

    What transfers of a channel were seen to take tells what others left them of the cards: that is given, and they
    are ordered by it. What all take together goes by the cards, and by what each takes that has them to itself.

    Attributes:
        given: what ops take, and transfers, each channel seen by itself.
        card: that of each task, with the latency from one to another; None: each channel is a link of its own.
        overheads: seconds that a transfer takes beside its bytes, by channel: of all that may pass other cards.
        on_card: what ops take, and transfers that have the cards to themselves, if that is not what is given.
        seen: when the sender had each transfer, in seconds, of steps that were traced.
        machine_seconds: what the cores of the capturing machine need for a step, were none ever idle; sending and
            receiving take them, too. 0 if not known.
        cores: of the capturing machine; 0 if not known.
    """

    given: Costs
    card: LinkModel | None = None
    overheads: Mapping[Channel, float] = field(default_factory=dict[Channel, float])
    on_card: Costs | None = None
    seen: Sequence[Mapping[TransferKey, float]] = ()
    machine_seconds: float = 0.0
    cores: int = 0

    @property
    def costs(self) -> Costs:
        """What ops take, and transfers that have the cards to themselves; where several pass, they share."""
        return self.given if self.on_card is None else self.on_card

    @property
    def cluster(self) -> Cluster:
        """The cards; each device runs one op at a time."""
        return UNSHARED if self.card is None else Cluster(self.card)

    def card_seconds(self, transfer: Transfer) -> float:
        """For which a transfer's bytes keep its cards busy; without a card, or of unknown size, what is given.

        Raises:
            MissingCost: it is not; names it.
        """
        if self.card is None or not transfer.bytes:
            return self.given.transfer_seconds(transfer)
        return transfer.bytes / self.card.bytes_per_second

    def cores_seconds(self, carried_seconds: float, workers: int = 1) -> float:
        """What a step takes at the least by the cores, where a card is busy for so long in one direction.

        Cores that send and receive wait for the wire at times, while all workers do: `EXPOSED` of it for one, as
        far as it is not the longer, and that share of what is left for each other one.
        """
        return self.machine_seconds + EXPOSED**workers * min(self.machine_seconds, carried_seconds)

    def with_card(self, card: LinkModel, transfers: Iterable[Transfer]) -> "Network":
        """With such cards: alone a transfer takes what its bytes take on them, and its channel's overhead."""
        links = {c: LinkModel(overhead, card.bytes_per_second) for c, overhead in self.overheads.items()}
        return replace(self, card=card, on_card=over_links(self.given, transfers, links))

    def estimated(self, transfers: Sequence[Transfer]) -> "Network":
        """With estimates for what is not known of these transfers and of the ops."""
        on_card = None if self.on_card is None else estimated(self.on_card, transfers)
        return replace(self, given=estimated(self.given, transfers), on_card=on_card)
