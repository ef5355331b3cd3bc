"""How long a step takes: stock, with each row once, or staged, by what it moves and by the times of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.errors import PlanError
from tfwave.staging.capture import Capture
from tfwave.staging.counts import BatchLoads, Load


@dataclass(frozen=True)
class Links:
    """Between workers and servers: bytes a second of each host and direction, and seconds before each transfer.

    `workers` train beside each other, each on batches of its own.

    Raises:
        PlanError: a bandwidth of 0 or less, a latency below 0, or no worker.
    """

    bandwidth: float
    latency: float = 0.0
    workers: int = 1

    def __post_init__(self) -> None:
        """Refuse what no network has."""
        if not (self.bandwidth > 0 and 0 <= self.latency < float("inf") and self.workers >= 1):
            raise PlanError(
                f"{self.workers} workers on links of {self.bandwidth:g} bytes/s and {self.latency:g} s latency "
                "cannot be: give a worker at least, a bandwidth above 0 and a latency of at least 0"
            )

    def seconds(self, load: Load) -> float:
        """On the wire: the worker's link, or that of the busiest server, which all workers share."""
        return max(load.total, self.workers * load.busiest) / self.bandwidth


@dataclass(frozen=True)
class Times:
    """Seconds: of a step on the worker, and of one row on the servers."""

    worker: float
    row: float

    @classmethod
    def of(cls, capture: Capture, rows: float) -> "Times":
        """By a capture whose batches have so many rows, on average."""
        return cls(capture.step_seconds - capture.server_seconds, capture.server_seconds / max(1.0, rows))


def stock_seconds(capture: Capture, load: Load, asked: float, dense: Load, links: Links) -> float:
    """Of a step that sends ids, rows and gradients of all ids, one after the other; `asked` are the ids' bytes.

    What it computes is taken to be what a step computes that looks each row up once.
    """
    ids = Load(asked, asked * load.busiest / load.total if load.total else 0.0, load.rows)
    wire = links.seconds(ids) + 2 * (links.seconds(load) + links.seconds(dense))
    return (capture.step_seconds + wire + 3 * links.latency) / links.workers


class Call:
    """A staged call, replayed: each direction of the link, and the servers, take one thing after the other.

    All waits are those of the traced function: rows that a batch pulls early wait until servers send the repeated
    ones of the batch before, repeated rows for the updates of both batches before, and the rest of the gradients
    for word that the first have come, which is behind what servers send. Dense variables and their gradients
    travel before rows, and those of the first batch while servers are told of rows: of each batch when the rows of
    an earlier one are there, and of the first ones at once.
    """

    def __init__(self, batches: Sequence[BatchLoads], times: Times, links: Links) -> None:
        self._batches, self._times, self._links = batches, times, links
        self._served = self._pushed = 0.0
        self._pulled = links.seconds(batches[0].dense)

    def exact(self, *, apart: bool) -> float:
        """Seconds of it, with the gradients of repeated rows first, or all together."""
        told = [self._tell(0.0, own) for own in self._batches[:2]]
        ready = self._pull(told[0], self._batches[0].pulled_rows)
        sent, updated, end, latency = told[0], told[0], 0.0, self._links.latency
        for k, own in enumerate(self._batches):
            behind = self._batches[k + 1 : k + 2]
            early = [self._pull(max(sent, told[k + 1]), (b.early, b.new)) for b in behind]
            told += [self._tell(ready, b) for b in self._batches[k + 2 : k + 3]]
            end = max(end, ready) + self._times.worker
            self._round(end, own.dense)
            if apart and behind:
                first = self._push(end, (own.first,))
                known = max(self._pulled, self._pushed + latency) + latency
                sent = max(updated, first)
                late = self._pull(sent, (behind[0].late,))
                updated = self._push(known, (own.rest,))
            else:
                sent = updated = self._push(end, own.pushed_rows)
                late = self._pull(sent, [b.late for b in behind])
            ready = max([late, *early])
        return updated

    def stale(self, staleness: int) -> float:
        """Seconds of it, with all rows pulled so many batches ahead."""
        told = [self._tell(0.0, own) for own in self._batches[: staleness + 1]]
        ready = [self._pull(told[k], own.pulled_rows) for k, own in enumerate(self._batches[:staleness])]
        updated, end, dense = told[0], 0.0, 0.0
        for k, own in enumerate(self._batches):
            ready += [
                self._pull(max(updated, told[k + staleness]), b.pulled_rows)
                for b in self._batches[k + staleness : k + staleness + 1]
            ]
            told += [self._tell(ready[k], b) for b in self._batches[k + staleness + 1 : k + staleness + 2]]
            end = max(end, ready[k], dense) + self._times.worker
            dense = self._round(end, own.dense)
            updated = self._push(end, own.pushed_rows)
        return updated

    def _tell(self, at: float, batch: BatchLoads) -> float:
        """When the servers know the rows of a batch that comes to the worker then."""
        self._pushed = max(self._pushed, at) + self._links.seconds(batch.asked)
        return self._pushed + self._links.latency

    def _round(self, at: float, dense: Load) -> float:
        """When the variables are back, updated, whose gradients may leave from then on."""
        return self._pull(self._push(at, (dense,)), (dense,)) if dense.total else 0.0

    def _pull(self, at: float, loads: Sequence[Load]) -> float:
        """When the rows are there that servers may send from then on."""
        self._pulled = max(self._pulled, at) + sum(map(self._links.seconds, loads))
        return self._pulled + self._links.latency

    def _push(self, at: float, loads: Sequence[Load]) -> float:
        """When the rows are updated whose gradients may leave from then on."""
        self._pushed = max(self._pushed, at) + sum(map(self._links.seconds, loads))
        work = self._times.row * sum(load.rows for load in loads)
        self._served = max(self._served, self._pushed + self._links.latency) + work
        return self._served


def floor_seconds(batches: Sequence[BatchLoads], times: Times, links: Links, *, exact: bool) -> float:
    """Of a call: no order of its transfers takes less. The flow shop's, where each resource does all of its own.

    1. Behind the last pull a batch is computed, and pushed.
    2. Before the first push a batch is pulled, and computed. Pushed are all gradients, and which rows are wanted.
    3. The worker computes all batches behind the first pull, and before the last push. Steps go round by the
       worker, the push and the pull of dense variables, and exact ones by those of repeated rows, too: the second
       of both leaves while the first comes back.
    """
    pulls = [sum(map(links.seconds, own.pulled)) for own in batches]
    pushes = [sum(map(links.seconds, own.pushed)) for own in batches]
    asked = [links.seconds(own.asked) for own in batches]
    dense = links.seconds(batches[0].dense)
    first = max(asked[0] + pulls[0] - dense, pulls[0])
    rows = [exact * links.seconds(own.first) for own in batches[:-1]]
    trips = sum(dense + own + max(dense, own) for own in rows)
    return max(
        first + sum(pulls[1:]) + times.worker + min(pushes),
        first + times.worker + sum(pushes),
        sum(asked) + sum(pushes),
        first + len(batches) * times.worker + trips + pushes[-1],
    )
