"""How to stage the steps of a captured job: the section of a plan, and whether it is worth its while."""

from collections.abc import Iterator
from dataclasses import dataclass

from tfwave.errors import PlanError
from tfwave.plan.embeddings import Embeddings, RowPriorities
from tfwave.sizes import milliseconds
from tfwave.staging.capture import Capture
from tfwave.staging.cores import Cores, added_core_seconds
from tfwave.staging.counts import BYTES, BatchLoads, Counted, Load
from tfwave.staging.forecast import Call, Links, Times, floor_seconds, stock_seconds

_CALLS = (1, 2, 4, 8, 16, 32)
_SHARES = (8, 4, 2, 1)
"""Of the room for kept rows, an eighth and so on."""
_NEAR = 1.02
"""A forecast this near to the fastest is as good: the simpler one is taken."""
LEAST_GAIN = 0.05
"""Below this share of a stock step no gain is promised."""


@dataclass(frozen=True)
class Way:
    """One way to stage steps: what one takes, and the floor of that."""

    staleness: int
    hot_bytes: int
    steps: int
    seconds: float
    floor: float


class Forecaster:
    """Forecasts of one captured job on one network."""

    def __init__(self, capture: Capture, links: Links, cores: int | None = None) -> None:
        """All tasks share so many `cores` of one machine; None: each has enough of its own.

        Raises:
            CostError: as `Capture.check` and `Cores.of`.
            PlanError: no core.
        """
        self._capture, self._links, self.counted = capture, links, Counted(capture)
        self._cores = None if cores is None else Cores.of(capture, cores)
        rows = [len(batch) for batch in self.counted.batches]
        self._times = Times.of(capture, sum(rows) / len(rows))
        self._loads: dict[tuple[range, int], list[BatchLoads]] = {}

    @property
    def compute_seconds(self) -> float:
        """Of a step, on the worker."""
        return self._times.worker

    @property
    def repeated_share(self) -> float:
        """Of a batch's rows those that the next batch reads too."""
        whole = self._batches(range(len(self.counted.batches)), 0)
        return sum(own.first.rows for own in whole[:-1]) / max(1, sum(own.asked.rows for own in whole[1:]))

    @property
    def wire_seconds(self) -> float:
        """Of a batch one way: of its rows, each once, and the variables beside tables."""
        whole = self._batches(range(len(self.counted.batches)), 0)
        return sum(self._links.seconds(load) for own in whole for load in own.pulled) / len(whole)

    def stock(self) -> float:
        """Seconds of a step that looks each id up by itself."""
        found = [self._stock(load) for load in self.counted.stock]
        return sum(found) / len(found)

    def _stock(self, load: Load) -> float:
        ids, dense = BYTES * load.rows, self.counted.dense
        seconds = stock_seconds(self._capture, load, ids, dense, self._links)
        return self._shared(seconds, ids + 2 * (load.total + dense.total))

    def _shared(self, seconds: float, moved: float, added: float = 0.0) -> float:
        """Of a step that moves so many bytes, by which it keeps cores busy that all tasks share, if they do."""
        return seconds if self._cores is None else self._cores.seconds(seconds, moved, added)

    def unique(self) -> float:
        """Seconds of a step in which each row travels once, and nothing beside another thing."""
        return self.staged(0, 0, 1).seconds

    def staged(self, staleness: int, hot_bytes: int, steps: int, *, apart: bool = True) -> Way:
        """Seconds of a staged step, on average over the captured calls of so many steps.

        `apart`: the gradients of repeated rows leave before the others.

        Raises:
            PlanError: fewer batches than that were captured.
        """
        windows = self.counted.windows(steps)
        if not windows:
            raise PlanError(
                f"a call of {steps} steps cannot be forecast: {len(self.counted.batches)} batches were captured"
            )
        seconds = floor = moved = 0.0
        for window in windows:
            batches = self._batches(window, hot_bytes)
            call = Call(batches, self._times, self._links)
            seconds += call.stale(staleness) if staleness else call.exact(apart=apart)
            floor += floor_seconds(batches, self._times, self._links, exact=not staleness)
            moved += sum(own.moved for own in batches)
        count = len(windows) * steps
        each = count * self._links.workers
        taken = self._shared(seconds / each, moved / count, added_core_seconds(steps))
        return Way(staleness, hot_bytes, steps, taken, floor / each)

    def ways(self, staleness: int, room: int) -> Iterator[Way]:
        """All that may be chosen from: rows at most so old, and so many bytes for kept ones."""
        most = len(self.counted.batches)
        for hot in sorted({0, *(room // share for share in _SHARES)}):
            for steps in [count for count in _CALLS if count <= most]:
                for old in range(min(staleness, steps - 1) + 1):
                    yield self.staged(old, hot, steps)

    def _batches(self, window: range, hot_bytes: int) -> list[BatchLoads]:
        key = (window, hot_bytes)
        if key not in self._loads:
            self._loads[key] = self.counted.loads(window, hot_bytes)
        return self._loads[key]


def plan_embeddings(
    capture: Capture, links: Links, *, staleness: int = 0, room: int = 0, cores: int | None = None
) -> Embeddings:
    """The fastest way to stage steps, by forecast, or a simpler one that is nearly as fast.

    Simpler is: rows less old, fewer bytes of kept rows, fewer steps in a call. Repeated rows always go before
    cold ones: no call is forecast to take longer for it.

    Args:
        capture: of the job.
        links: of the network that it will have.
        staleness: by how many updates rows may be old at most.
        room: bytes on a worker for kept rows, at most.
        cores: of the one machine that all tasks are on, if they are.

    Raises:
        CostError: as `Forecaster`.
        PlanError: staleness or room below 0, or no core.
    """
    if staleness < 0 or room < 0:
        raise PlanError(f"rows cannot be {staleness} updates old, in a room of {room} bytes: give at least 0")
    forecaster = Forecaster(capture, links, cores)
    ways = list(forecaster.ways(staleness, room))
    fastest = min(way.seconds for way in ways)
    chosen = min(
        (way for way in ways if way.seconds <= fastest * _NEAR),
        key=lambda way: (way.staleness, way.hot_bytes, way.steps),
    )
    stock, unique = forecaster.stock(), forecaster.unique()
    return Embeddings(
        tables=tuple(sorted((table.planned for table in capture.tables), key=lambda table: table.name)),
        steps=chosen.steps,
        staleness=chosen.staleness,
        hot_bytes=chosen.hot_bytes,
        table_bytes=forecaster.counted.table_bytes,
        priorities=RowPriorities(),
        seconds=chosen.seconds,
        stock_seconds=stock,
        unique_seconds=unique,
        bound_seconds=chosen.floor,
        verdict=verdict_of(chosen.seconds, stock, unique, forecaster.compute_seconds / links.workers),
    )


def verdict_of(seconds: float, stock: float, unique: float, compute: float) -> str:
    """Whether staging is worth its while, in words."""
    gain = 1 - seconds / stock
    if gain < LEAST_GAIN:
        return (
            f"no gain expected: the worker computes for {milliseconds(compute)} of a stock step of "
            f"{milliseconds(stock)}, which staging would shorten by {max(0.0, gain):.1%}"
        )
    over = 1 - seconds / unique
    beside = (
        f"{over:.0%} less than each row once" if over >= LEAST_GAIN else "no less than each row once takes"
    )
    return f"gain expected: {stock / seconds:.1f} x the speed of stock steps, and {beside}"
