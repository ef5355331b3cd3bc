"""Transfer times from sizes: latency plus bytes over bandwidth."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfwave.cost.model import vetted
from tfwave.cost.table import Costs
from tfwave.errors import CostError
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer


@dataclass(frozen=True)
class LinkModel:
    """A link: a transfer takes ``latency_seconds + bytes / bytes_per_second``.

    `bytes_per_second` is infinite where size makes no difference. `relative_error` says how far the link is
    from the samples it was fitted to: the sum of ``|predicted - measured|`` over the sum of measured seconds;
    0 for a link that was not fitted.

    Raises:
        CostError: a negative or infinite latency, or a bandwidth that is not above zero.
    """

    latency_seconds: float
    bytes_per_second: float
    relative_error: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no link."""
        vetted(self.latency_seconds, "link latency")
        if not self.bytes_per_second > 0:
            raise CostError(
                f"the bandwidth of a link is {self.bytes_per_second} bytes/s: it must be above zero"
            )

    def seconds(self, size: int) -> float:
        """Seconds of a transfer of `size` bytes."""
        return self.latency_seconds + size / self.bytes_per_second


def over_links(costs: Costs, transfers: Iterable[Transfer], links: Mapping[Channel, LinkModel]) -> Costs:
    """Ops as in a table; of these transfers each by its size, over the link of its channel.

    Those of unknown size, or of a channel without a link, are not known.
    """
    seconds: dict[int, float] = {}
    why: dict[int, str] = {}
    for transfer in transfers:
        link = links.get(transfer.channel)
        if link is None:
            why[transfer.recv] = (
                f"no link is known for the channel {transfer.channel}: give one, or trace more runs"
            )
        elif not transfer.bytes:
            why[transfer.recv] = (
                f"the size of the transfer that '{transfer.node}' receives is not known: capture a run"
            )
        else:
            seconds[transfer.recv] = link.seconds(transfer.bytes)
    source = replace(costs.source, transfers="estimated")
    return Costs(costs.view, costs.ops, seconds, source, why)


def fit(samples: Sequence[tuple[int, float]]) -> LinkModel:
    """The link that is nearest to samples of (bytes, seconds): least squares, latency and slope not negative.

    Where all samples are of one size, latency and bandwidth cannot be told apart, and all time is put down to
    bandwidth (to latency, where the size is 0).

    Raises:
        CostError: no sample, a negative size, or seconds that are no cost.
    """
    if not samples:
        raise CostError("no transfer was measured: a link cannot be fitted to nothing")
    for size, seconds in samples:
        vetted(seconds, f"transfer of {size} bytes")
        if size < 0:
            raise CostError(f"a transfer of {size} bytes was given: sizes must not be negative")
    candidates = _candidates(samples)
    latency, slope = min(candidates, key=lambda line: _squares(samples, *line))
    misses = math.fsum(abs(latency + slope * size - seconds) for size, seconds in samples)
    measured = math.fsum(seconds for _, seconds in samples)
    return LinkModel(latency, 1 / slope if slope else math.inf, misses / measured if measured else 0.0)


def _candidates(samples: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """The lines (latency, slope) among which the best is: the free one, if allowed, and the borders' best.

    The borders suffice because the squared distance is convex.
    """
    count = len(samples)
    mean_size = math.fsum(size for size, _ in samples) / count
    mean_seconds = math.fsum(seconds for _, seconds in samples) / count
    spread = math.fsum((size - mean_size) ** 2 for size, _ in samples)
    squares = math.fsum(size * size for size, _ in samples)
    lines: list[tuple[float, float]] = []
    if squares:
        lines.append((0.0, math.fsum(size * seconds for size, seconds in samples) / squares))
    if spread:
        slope = math.fsum((x - mean_size) * (y - mean_seconds) for x, y in samples) / spread
        lines.append((mean_seconds - slope * mean_size, slope))
    if spread or not squares:
        lines.append((mean_seconds, 0.0))
    return [(latency, slope) for latency, slope in lines if latency >= 0 and _usable(slope)]


def _usable(slope: float) -> bool:
    return slope == 0 or (slope > 0 and math.isfinite(1 / slope))


def _squares(samples: Sequence[tuple[int, float]], latency: float, slope: float) -> float:
    return math.fsum((latency + slope * size - seconds) ** 2 for size, seconds in samples)
