"""What two waves of a training step take and gain in a limited pool.

    tools/bench/memory/tick_tock.py                       all parts
    tools/bench/memory/tick_tock.py --parts auto --quick  one of them, with one small model

1. offset: the pool's peak with two waves over that of one step, by the offset of the second, beside the model's.
2. auto: under limits between what waves one after the other need and what they need at offset 0, by the model: does
   the offset that is chosen for the limit keep to it, without waiting for room in the pool?
3. capacity: the largest total batch in one pool of gang scheduling (one step), two replicas that begin at once, two
   waves one after the other, and two waves with the offset that is chosen for the limit.
4. throughput: samples per second of the last over those of the first, each with its largest batch, in turn, beside
   what was simulated. It needs a quiet machine.

Each trial is a process of its own, on CPU without oneDNN; a batch counts if no trial of it fails. What was done is
kept in --out, where a run that was stopped goes on.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.errors import EnforcerError, PlanError
from tfwave.memory.slots import room
from tools.bench.interleaved import run_interleaved
from tools.bench.memory.limited import SMALLER, largest, run_steps
from tools.bench.memory.tick_tock_modes import GANG, MB, REPLICAS, WAVES, Case, limits_between
from tools.bench.memory.tick_tock_trials import Work, open_work
from tools.bench.record import machine

BATCHES: dict[str, tuple[int, ...]] = {
    "resnet": (16, 24, 32),
    "vgg": (48, 72, 96),
    "dense_bert": (16, 24, 32),
    "drawn_bert": (16, 24, 32),
}
"""Of each wave, by model."""
OFFSETS = (0.0, 0.25, 0.5, 0.75, 1.0)
AMPLE = 2048 * MB
LIMITS = 7
"""For each model and batch."""
GRID = 0.02
"""Steps of the batches that are tried, as a share of what fits by the model."""
FIRST_BATCH = 8
"""Of the profile from which a first guess is made, which the profile of the guess makes better."""
GUESSES = 2
IN_TURN, AUTO = "in_turn", "auto"
COMPARED = (GANG, REPLICAS, IN_TURN, AUTO)
PARTS = ("offset", "auto", "capacity", "throughput")
Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """The parts of the measurement."""

    work: Work
    batches: Mapping[str, Sequence[int]]
    limits: int
    ways: Sequence[str]
    pool: int
    repeats: int
    blocks: int
    guesses: int = GUESSES

    def offset(self) -> Iterator[Row]:
        for model, batches in self.batches.items():
            each = batches[-1]
            step = self.work.traced(model, each)
            for offset in OFFSETS:
                trials = self.work.tried(Case(model, WAVES, 2 * each, AMPLE, offset), self.repeats)
                peaks = [trial.peak for trial in trials]
                yield {
                    "model": model,
                    "batch_each": each,
                    "offset": offset,
                    "starts_at": step.start(offset),
                    "one_step": step.measured_peak,
                    "peaks": peaks,
                    "over_one_step": max(peaks) / step.measured_peak,
                    "predicted_over_one_step": step.peak(offset) / step.captured.peak,
                    "predicted_peak": step.peak(offset),
                    "error": step.peak(offset) / max(peaks) - 1,
                }

    def auto(self) -> Iterator[Row]:
        for model, batches in self.batches.items():
            for each in batches:
                step = self.work.traced(model, each)
                low, high = (step.least_limit(offset) for offset in (1.0, 0.0))
                for limit in limits_between(low, high, self.limits):
                    offset = step.fitting(limit)
                    trial = self.work.trial(Case(model, WAVES, 2 * each, limit, offset))
                    yield {
                        "model": model,
                        "batch_each": each,
                        "limit": limit,
                        "offset": offset,
                        "predicted_peak": step.peak(offset),
                        "peak": trial.peak,
                        "of_limit": trial.peak / limit,
                        "slowest_seconds": max(trial.seconds[1:], default=None),
                        "outcome": trial.outcome,
                        "losses": trial.losses,
                    }

    def capacity(self, model: str, way: str) -> Row:
        each = self._largest(model, way)
        case = self._case(model, way, each)
        grid = self._grid(model, way)
        if case is None:
            return {"model": model, "way": way, "limit": self.pool, "batch": 0}
        trials = self.work.tried(case, self.repeats)
        above = self._case(model, way, each + grid)
        return {
            "model": model,
            "way": way,
            "limit": self.pool,
            "batch": case.batch,
            "offset": case.offset,
            "successes": sum(trial.ok for trial in trials),
            "repeats": len(trials),
            "grid": case.batch // each * grid,
            "peak": max(trial.peak for trial in trials),
            "seconds": statistics.median(s for trial in trials for s in trial.seconds[1:]),
            "above": [trial.outcome for trial in self.work.tried(above, self.repeats)]
            if above
            else "refused",
        }

    def throughput(self, model: str) -> Row:
        """With the largest batches; both a step smaller, as often as a run that is longer than a trial fails."""
        error = ""
        tops = {way: (self._largest(model, way), self._grid(model, way)) for way in (GANG, AUTO)}
        for less in range(SMALLER):
            gang, waves = (self._case(model, way, each - less * grid) for way, (each, grid) in tops.items())
            if gang is None or waves is None or waves.offset is None:
                break
            try:
                return self._compared(model, gang, waves, waves.offset)
            except EnforcerError as failure:
                error = str(failure)
        return {"model": model, "throughput": None, "error": error}

    def _compared(self, model: str, gang: Case, waves: Case, offset: float) -> Row:
        rates = self._rates({GANG: gang, AUTO: waves})
        ratios = [a / b for a, b in zip(rates[AUTO], rates[GANG], strict=True)]
        step = self.work.traced(model, waves.each)
        verdict = step.verdict(self.pool, offset)
        return {
            "model": model,
            "limit": self.pool,
            "batches": {GANG: gang.batch, AUTO: waves.batch},
            "offset": offset,
            "throughput": statistics.median(ratios),
            "ratios": ratios,
            "spread": statistics.stdev(ratios) if len(ratios) > 1 else None,
            "samples_per_second": {way: statistics.median(of_way) for way, of_way in rates.items()},
            "compute_share": step.compute_share,
            "predicted": step.speedup(offset, gang.batch / waves.each),
            "verdict": {"speedup": verdict.best.speedup, "low": verdict.low, "high": verdict.high},
        }

    def _rates(self, cases: Mapping[str, Case]) -> dict[str, list[float]]:
        """Samples per second of each block, in turn."""
        with ExitStack() as stack:
            tasks = {way: stack.enter_context(self.work.running(case)) for way, case in cases.items()}
            runs = {
                way: lambda t=task: run_steps(t, self.work.steps)["seconds"] for way, task in tasks.items()
            }
            run_interleaved(runs, 1)
            found = run_interleaved(runs, self.blocks)
        return {
            way: [cases[way].batch / statistics.median(block) for block in blocks]
            for way, blocks in found.items()
        }

    def _largest(self, model: str, way: str) -> int:
        """The largest batch of half of what a way runs, to about 2 %; 0 if there is none."""
        grid = self._grid(model, way)

        def holds(place: int, repeats: int) -> bool:
            case = self._case(model, way, place * grid)
            return case is not None and all(trial.ok for trial in self.work.tried(case, repeats))

        start = self._modelled(model, way) // grid
        places = range(1, 16 * start)
        return grid * largest(places, start, lambda p: holds(p, 1), lambda p: holds(p, self.repeats))

    def _grid(self, model: str, way: str) -> int:
        return max(1, round(GRID * self._modelled(model, way)))

    def _modelled(self, model: str, way: str) -> int:
        """About the same by the model, at least 1."""
        copies = 1 if way == GANG else 2
        resident = self.work.traced(model, FIRST_BATCH).captured.memory.profile.resident
        held = room(self.pool, 2 if way == AUTO else 1) - copies * resident
        batch = self._holding(model, held // (2 if way == REPLICAS else 1))
        return max(1, batch // (2 if way == GANG else 1))

    def _holding(self, model: str, held: int) -> int:
        """About the batch whose step holds so many bytes at its peak, besides what it always holds.

        By the line through two profiles: much of a peak may not grow with the batch.
        """
        before, batch, peak = 0, FIRST_BATCH, 0
        for _ in range(self.guesses):
            profile = self.work.traced(model, batch).captured.memory.profile
            slope = (profile.peak - profile.resident - peak) / (batch - before)
            before, peak = batch, profile.peak - profile.resident
            batch = max(before + 1, int(before + (held - peak) / slope))
        return batch

    def _case(self, model: str, way: str, each: int) -> Case | None:
        """None where no offset fits, or there is no batch."""
        if each < 1:
            return None
        if way in (GANG, REPLICAS):
            return Case(model, way, 2 * each, self.pool)
        try:
            offset = 1.0 if way == IN_TURN else self.work.traced(model, each).fitting(self.pool)
        except PlanError:
            return None
        return Case(model, WAVES, 2 * each, self.pool, offset)


def measure(bench: Bench, parts: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {"machine": machine()}
    if "offset" in parts:
        rows = said(bench.offset())
        found["offset"] = {"largest_error": max(abs(row["error"]) for row in rows), "all": rows}
    if "auto" in parts:
        found["auto"] = kept_limits(said(bench.auto()))
    if "capacity" in parts:
        found["capacity"] = over_gang(
            said(bench.capacity(model, way) for model in bench.batches for way in bench.ways)
        )
    if "throughput" in parts:
        found["throughput"] = said(map(bench.throughput, bench.batches))
    return found


def said(rows: Iterator[Row]) -> list[Row]:
    """All of them, each printed as it comes."""
    found: list[Row] = []
    for row in rows:
        found.append(row)
        print(json.dumps(without_losses(row)), file=sys.stderr, flush=True)
    return found


def kept_limits(rows: Sequence[Row]) -> Row:
    """How many trials kept to their limits, and whether waves of a model and batch gave the same losses."""
    kept = [row for row in rows if row["outcome"] == "ok"]
    losses: dict[tuple[str, int], set[object]] = {}
    for row in kept:
        losses.setdefault((row["model"], row["batch_each"]), set()).add(row["losses"])
    return {
        "trials": len(rows),
        "kept": len(kept),
        "share": len(kept) / len(rows) if rows else None,
        "of_limit": sorted(round(row["of_limit"], 3) for row in kept),
        "losses_equal": all(len(different) == 1 for different in losses.values()),
        "missed": [without_losses(row) for row in rows if row["outcome"] != "ok"],
        "all": [without_losses(row) for row in rows],
    }


def without_losses(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "losses"}


def over_gang(rows: Sequence[Row]) -> list[Row]:
    """With each batch over that of gang scheduling."""
    gang = {row["model"]: row["batch"] for row in rows if row["way"] == GANG}
    return [
        row | {"over_gang": row["batch"] / gang[row["model"]] if gang[row["model"]] else None} for row in rows
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    default = Path(tempfile.gettempdir()) / "tfwave-bench-tick-tock"
    add("--out", type=Path, default=default, help="a directory; what it has is not done again")
    add("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    add("--models", nargs="+", default=list(BATCHES), choices=list(BATCHES))
    add("--ways", nargs="+", default=list(COMPARED), choices=COMPARED, help="of capacity")
    add("--limit", type=int, default=512, help="MB, of capacity and throughput")
    add("--repeats", type=int, default=5)
    add("--blocks", type=int, default=5, help="of each way, in turn, for the throughput")
    add("--steps", type=int, default=6, help="of a trial, and of a block")
    add("--quick", action="store_true", help="one small model, once: to see whether all works")
    return parser


def main() -> None:
    """Measure, and say it."""
    arguments = _parser().parse_args()
    batches: dict[str, Sequence[int]] = {model: BATCHES[model] for model in arguments.models}
    with open_work(arguments.out, arguments.steps) as work:
        pool = arguments.limit * MB
        bench = Bench(work, batches, LIMITS, arguments.ways, pool, arguments.repeats, arguments.blocks)
        if arguments.quick:
            bench = replace(bench, batches={"vgg": (4,)}, limits=2, pool=128 * MB, repeats=1, blocks=2)
        print(json.dumps(measure(bench, arguments.parts), indent=1))


if __name__ == "__main__":
    main()
