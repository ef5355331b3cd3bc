"""What a background among the jobs of a pool costs the others, and how much of the idle time it takes.

A pool (`tfwave.colocate.Pool`) trains a foreground, of three kinds as `background.py` has them, beside a
`Job(background=True, slowdown_at_most=1.05)` that trains convolutions, or with `--unlimited` one that nothing
holds. Short windows take turns in one pool: in every other one the background gets no batches. Steps are timed
where the foreground's batches are made: so pauses, and what it waits for the background's memory, are in it.

* `slowdown`, `slowdown_p95`: of the foreground's steps in a pool, with the background over without it: the
  median's, and the 95th percentile's.
* `told`: the median slowdown that the pool itself tells, by its own pauses.
* `share_of_idle`: steps of the background, over those that it makes in as long alone, over the idle share of the
  cores in the windows without it.
* `met`: the medians of the first two over all pools are at most 1.05 and 1.2, that of the last at least 0.8.

    tools/bench/bursts/background_jobs.py                               about eight minutes, and a quiet machine
    tools/bench/bursts/background_jobs.py --unlimited                   the same, of one that is never held
    tools/bench/bursts/background_jobs.py --seconds 1 --repeats 1       to see whether it works
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import tfwave.colocate as colocation
from tools.bench.bursts.background import MEDIAN_AT_MOST, P95_AT_MOST, Ran, idle_seconds, slowdowns

ALLOWED = 1.05
SHARE_AT_LEAST = 0.8
SETTLED_STEPS = 32
"""First steps, those that are planned, and those of the pacing's first pause."""
PAIRS = 4
"""Windows with the background and without it, in each pool."""
POOL = "1GiB"
_TICK_SECONDS = 0.05


class Batches:
    """Of the background: another one whenever it may make a step."""

    def __init__(self) -> None:
        """It may."""
        self.made = 0
        self.waits = False
        self._ended = False
        self._may = threading.Event()
        self._may.set()

    def __iter__(self) -> Iterator[tuple[()]]:
        try:
            while not self._ended:
                self.waits = not self._may.is_set()
                if self._may.wait(_TICK_SECONDS):
                    self.waits = False
                    self.made += 1
                    yield ()
        finally:
            self.waits = True

    def hold(self) -> None:
        """From now on it may not; it `waits` once its step is made."""
        self._may.clear()

    def go_on(self) -> None:
        """It may again."""
        self._may.set()

    def end(self) -> None:
        """There are no more."""
        self._ended = True


class Windows:
    """Batches of the foreground, in windows with its background and without it."""

    def __init__(self, background: Batches, seconds: float, wait_seconds: float) -> None:
        """Waits before each batch, as for data."""
        self._background = background
        self._seconds = seconds
        self._wait_seconds = wait_seconds
        self.without: list[float] = []
        self.beside: list[float] = []
        """Seconds of each step."""
        self.idle = 0.0
        """Core seconds, in windows without."""
        self.made = 0
        """Steps of the background, in windows with it."""

    def __iter__(self) -> Iterator[tuple[()]]:
        try:
            for _ in range(SETTLED_STEPS):
                yield self._batch()
            for pair in range(PAIRS):
                for window in (self._without, self._beside) if pair % 2 else (self._beside, self._without):
                    yield from window()
        finally:
            self._background.end()

    def _batch(self) -> tuple[()]:
        time.sleep(self._wait_seconds)
        return ()

    def _without(self) -> Iterator[tuple[()]]:
        self._background.hold()
        while not self._background.waits:
            yield self._batch()
        idle = idle_seconds()
        yield from self._window(self.without)
        self.idle += idle_seconds() - idle

    def _beside(self) -> Iterator[tuple[()]]:
        self._background.go_on()
        yield self._batch()
        made = self._background.made
        yield from self._window(self.beside)
        self.made += self._background.made - made

    def _window(self, steps: list[float]) -> Iterator[tuple[()]]:
        begin = before = time.perf_counter()
        while before < begin + self._seconds:
            yield self._batch()
            now = time.perf_counter()
            steps.append(now - before)
            before = now


def compare(
    foreground: object, background: colocation.SessionStep, allowed: float | None, seconds: float, wait: float
) -> Ran:
    """Both in a pool, the background first by itself."""
    batches = Batches()
    windows = Windows(batches, seconds, wait)
    job = colocation.Job("background", background, batches, background=True, slowdown_at_most=allowed)
    with colocation.Pool() as pool:
        handles = [pool.add(job)]
        rate = steps_a_second(batches, seconds)
        handles.append(pool.add(colocation.Job("foreground", foreground, windows)))
    for handle in handles:
        if error := handle.result().error:
            raise error
    idle = windows.idle / ((os.cpu_count() or 1) * sum(windows.without))
    progress = windows.made / sum(windows.beside) / rate
    return slowdowns(windows.without, windows.beside) | {
        "told": handles[0].result().slowdown,
        "progress": progress,
        "share_of_idle": progress / idle if idle else None,
    }


def steps_a_second(batches: Batches, seconds: float) -> float:
    """Of a background that is by itself, behind its first steps."""
    while batches.made < SETTLED_STEPS and not batches.waits:
        time.sleep(_TICK_SECONDS)
    made, begin = batches.made, time.perf_counter()
    time.sleep(seconds)
    return (batches.made - made) / (time.perf_counter() - begin)


def measure(seconds: float, repeats: int, allowed: float | None) -> dict[str, object]:
    """All kinds, in turn."""
    from tools.bench.bursts.background_trainings import GAP_SECONDS, KINDS, function, in_session

    background = colocation.SessionStep(*in_session(colocation.background_session))
    steps = {kind: function(kind) for kind in KINDS}
    runs: dict[str, list[Ran]] = {kind: [] for kind in KINDS}
    for _ in range(repeats):
        for kind, step in steps.items():
            wait = GAP_SECONDS if kind == "gaps" else 0.0
            runs[kind].append(compare(step, background, allowed, seconds, wait))
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
    parser.add_argument("--seconds", type=float, default=3.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--unlimited", action="store_true", help="never hold the background")
    arguments = parser.parse_args()
    colocation.limit_memory(POOL, own_threads=True)
    load, allowed = os.getloadavg(), None if arguments.unlimited else ALLOWED
    kinds = measure(arguments.seconds, arguments.repeats, allowed)
    print(json.dumps({"load": load, "kinds": kinds}, indent=1))


if __name__ == "__main__":
    main()
