"""What a background among the jobs of a pool costs the others, and how much of the idle time it takes.

A pool (`tfwave.colocate.Pool`) trains a foreground, of three kinds as `background.py` has them, alone and beside a
`Job(background=True, slowdown_at_most=1.05)` that trains convolutions, or with `--unlimited` one that nothing
holds; both take turns, and slowdowns are of the two of a repeat. Steps are timed where their batches are made,
behind the first ones: so pauses, and what the foreground waits for the background's memory, are in it.

* `slowdown`, `slowdown_p95`: of the foreground's steps, the median's and the 95th percentile's.
* `told`: the median slowdown that the pool itself tells, by the foreground's own pauses.
* `share_of_idle`: steps of the background, over those that it makes in as long alone, over the idle share of the
  cores beside the foreground alone.
* `met`: the medians of the first two are at most 1.05 and 1.2, that of the last at least 0.8.

    tools/bench/bursts/background_jobs.py                               about eight minutes, and a quiet machine
    tools/bench/bursts/background_jobs.py --unlimited                   the same, of one that is never held
    tools/bench/bursts/background_jobs.py --seconds 2 --repeats 1       to see whether it works
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import tfwave.colocate as colocation
from tfwave.colocate.latency import p95
from tools.bench.bursts.background import MEDIAN_AT_MOST, P95_AT_MOST, Ran, idle_seconds

ALLOWED = 1.05
SHARE_AT_LEAST = 0.8
SETTLED_STEPS = 32
"""First steps, those that are planned, and those of the pacing's first pause."""
POOL = "1GiB"


@dataclass(frozen=True)
class Foreground:
    """A step, and how long each of its batches is waited for."""

    step: object
    wait_seconds: float


class Timed:
    """Batches for so many seconds behind the settled steps; when each was asked for."""

    def __init__(self, seconds: float, wait_seconds: float = 0.0) -> None:
        """Waits before each batch, as for data."""
        self.asked: list[float] = []
        self._seconds = seconds
        self._wait_seconds = wait_seconds
        self.idle: float | None = None
        """Of the cores, the share while it was timed."""

    def __iter__(self) -> Iterator[tuple[()]]:
        begun = 0.0
        for number in range(1 << 62):
            now = time.perf_counter()
            if number == SETTLED_STEPS:
                begun, self._begin = idle_seconds(), now
            if number >= SETTLED_STEPS:
                self.asked.append(now)
                if now > self._begin + self._seconds:
                    break
            time.sleep(self._wait_seconds)
            yield ()
        self.idle = (idle_seconds() - begun) / ((os.cpu_count() or 1) * (self.asked[-1] - self.asked[0]))

    @property
    def steps(self) -> list[float]:
        """Seconds of each."""
        return [after - before for before, after in zip(self.asked, self.asked[1:], strict=False)]


class Until:
    """Batches until another job has ended."""

    def __init__(self, ended: Callable[[], bool]) -> None:
        self._ended = ended
        self.asked: list[float] = []

    def __iter__(self) -> Iterator[tuple[()]]:
        while not self._ended():
            self.asked.append(time.perf_counter())
            yield ()


def ran_alone(step: object, timed: Timed) -> Timed:
    """In a pool of its own."""
    with colocation.Pool() as pool:
        pool.add(colocation.Job("foreground", step, timed))
    return timed


def ran_beside(
    background: colocation.SessionStep, allowed: float | None, step: object, timed: Timed
) -> tuple[Until, float | None]:
    """Likewise, beside the background, which ends with it and is held where it slows it by more than allowed."""
    handles: list[colocation.Handle] = []
    until = Until(lambda: handles[0].ended)
    with colocation.Pool() as pool:
        handles.append(pool.add(colocation.Job("foreground", step, timed)))
        job = colocation.Job("background", background, until, background=True, slowdown_at_most=allowed)
        handles.append(pool.add(job))
    for handle in handles:
        if error := handle.result().error:
            raise error
    return until, handles[1].result().slowdown


def compare(
    foreground: Foreground,
    run_beside: Callable[[object, Timed], tuple[Until, float | None]],
    rate: float,
    seconds: float,
    first: bool,
) -> Ran:
    """Both, in one order or the other; the background makes so many steps a second by itself."""
    without, beside = (Timed(seconds, foreground.wait_seconds) for _ in range(2))
    step = foreground.step
    if first:
        ran_alone(step, without)
    until, told = run_beside(step, beside)
    if not first:
        ran_alone(step, without)
    begin, end = beside.asked[0], beside.asked[-1]
    made = sum(begin <= asked < end for asked in until.asked)
    progress = made / (end - begin) / rate
    return {
        "slowdown": statistics.median(beside.steps) / statistics.median(without.steps),
        "slowdown_p95": (p95(beside.steps) or 0.0) / (p95(without.steps) or 1.0),
        "told": told,
        "progress": progress,
        "share_of_idle": progress / without.idle if without.idle else None,
    }


def measure(seconds: float, repeats: int, allowed: float | None) -> dict[str, object]:
    """All kinds, in turn."""
    from tools.bench.bursts.background_trainings import GAP_SECONDS, KINDS, function, in_session

    session = colocation.background_session
    background = colocation.SessionStep(*in_session(session))
    run_beside = partial(ran_beside, background, allowed)
    foregrounds = {kind: Foreground(function(kind), GAP_SECONDS if kind == "gaps" else 0.0) for kind in KINDS}
    runs: dict[str, list[Ran]] = {kind: [] for kind in KINDS}
    for repeat in range(repeats):
        for kind in KINDS:
            by_itself = ran_alone(background, Timed(seconds)).steps
            rate = len(by_itself) / sum(by_itself)
            runs[kind].append(compare(foregrounds[kind], run_beside, rate, seconds, bool(repeat % 2)))
    return {kind: told(found) for kind, found in runs.items()}


def told(runs: Sequence[Ran]) -> dict[str, object]:
    """Median, least and most of each figure, and whether they are as they should be."""
    figures: dict[str, object] = {}
    for name in runs[0]:
        values = [value for run in runs if (value := run[name]) is not None]
        figures[name] = [statistics.median(values), min(values), max(values)] if values else None
    median, tail, share = (
        statistics.median([run[name] or 0.0 for run in runs])
        for name in ("slowdown", "slowdown_p95", "share_of_idle")
    )
    return figures | {"met": median <= MEDIAN_AT_MOST and tail <= P95_AT_MOST and share >= SHARE_AT_LEAST}


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--unlimited", action="store_true", help="never hold the background")
    arguments = parser.parse_args()
    colocation.limit_memory(POOL, own_threads=True)
    load, allowed = os.getloadavg(), None if arguments.unlimited else ALLOWED
    kinds = measure(arguments.seconds, arguments.repeats, allowed)
    print(json.dumps({"load": load, "kinds": kinds}, indent=1))


if __name__ == "__main__":
    main()
