"""The largest batches, and the throughput, of two training jobs that share a limited pool.

Modes are compared with running in turn ("sequential", both jobs' variables in the pool), in shares of the largest
batch that a job has alone. Each trial is a process of its own; a share counts if no trial of it fails. What was
done is kept in --out, where a run that was stopped goes on.

    tools/bench/memory/colocation.py                                      512 MB and 1 GB
    tools/bench/memory/colocation.py --limit 512 --pairs resnet+bert --parts capacity
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.errors import EnforcerError
from tools.bench.interleaved import run_interleaved
from tools.bench.memory.colocation_lines import Row, fit_line, line, throughput_line
from tools.bench.memory.colocation_modes import BESIDE, MODES, SEQUENTIAL, SPLIT, Planned
from tools.bench.memory.colocation_trials import Case, Trial, Work, open_work, tried
from tools.bench.memory.limited import SMALLER, largest, run_steps

PAIRS = (
    "resnet+resnet",
    "inception+inception",
    "nasnet+nasnet",
    "bert+bert",
    "resnet+bert",
    "inception+nasnet",
)
IDLE_PAIR = "lstm+lstm"
"""Of a model that leaves a core idle: only its throughput counts."""
FIRST_BATCH = 32
"""Of the profile from which a first guess is made, which the profile of the guess makes better."""
GUESSES = 2
BOTTOM, TOP = 0.3, 1.1
"""Shares that are tried."""
SOLO_GRID = 0.01
PRECISE = (SEQUENTIAL, "colocation")
COARSE = 2
"""Steps of the other modes' shares."""
FIT_LIMIT = 0.6
"""Of the limit: what no mode was tried at."""
FIT_CASES = 60
"""Pairs of models in turn, with evenly spaced shares of what fits by the model."""
FIT_SHARES = (0.5, 1.5)
NEAR = 0.1
"""A case is near its limit if the peak in turn, by the model, is no further from it than this share of it."""
TUNED = ("resnet", "bert")
"""The models on which the planner's margins were chosen, in pools of other sizes than the part fit has."""
WARMUP_STEPS = 2
"""Of a process whose throughput is measured."""


@dataclass(frozen=True)
class Scale:
    """Cases by a whole number: shares of the largest batch of each model."""

    models: tuple[str, ...]
    tops: tuple[int, ...]
    limit: int
    grid: float

    def case(self, place: int) -> Case:
        batches = tuple([max(1, round(top * self.share(place))) for top in self.tops])
        return Case(self.models, batches, self.limit)

    def share(self, place: int) -> float:
        return place * self.grid

    @property
    def places(self) -> range:
        return range(round(BOTTOM / self.grid), round(TOP / self.grid) + 1)


@dataclass(frozen=True)
class Bench:
    """The parts of the measurement."""

    work: Work
    repeats: int
    grid: float

    def solo(self, model: str, limit: int) -> int:
        """The largest batch of a model alone."""
        scale = Scale((model,), (self._modelled_solo(model, limit),), limit, SOLO_GRID)
        return scale.case(self.most(scale, SEQUENTIAL)).batches[0]

    def _modelled_solo(self, model: str, limit: int) -> int:
        """The same by the model."""
        guess = FIRST_BATCH
        for _ in range(GUESSES):
            guess = self._fitting(model, guess, limit)
        return guess

    def _fitting(self, model: str, batch: int, limit: int) -> int:
        """The batch whose peak is the limit, if each example takes what it takes in this one."""
        step = self.work.profile(model, batch).step
        each = (step.profile.peak - step.profile.resident) / batch
        return int((limit - step.resident) / each)

    def scale(self, pair: str, limit: int) -> Scale:
        models = tuple(pair.split("+"))
        return Scale(models, tuple([self.solo(model, limit) for model in models]), limit, self.grid)

    def most(self, scale: Scale, mode: str) -> int:
        """The place of the largest share of a mode."""

        def holds(place: int, repeats: int) -> bool:
            trials = tried(self.work, scale.case(place), mode, repeats)
            return bool(trials) and trials[-1].ok

        start = self._expected(scale, mode)
        if mode != SEQUENTIAL:
            start = min(start, self._predicted(scale, mode))
        return largest(scale.places, start, lambda p: holds(p, 1), lambda p: holds(p, self.repeats))

    def capacities(self, pair: str, limit: int, modes: Iterable[str]) -> Iterator[Row]:
        """The largest batches of each mode."""
        scale = self.scale(pair, limit)
        ceiling = scale.share(self.most(scale, SEQUENTIAL))
        for mode in modes:
            yield _about(pair, scale) | self._capacity(scale, mode, ceiling)

    def _capacity(self, fine: Scale, mode: str, ceiling: float) -> Row:
        """What a mode reaches; one to compare with is searched for in larger steps."""
        scale = fine if mode in PRECISE else replace(fine, grid=COARSE * self.grid)
        place = self.most(scale, mode)
        if place < scale.places.start:
            return {"mode": mode, "share": None, "predicted_share": scale.share(self._predicted(scale, mode))}
        trials = tried(self.work, scale.case(place), mode, self.repeats)
        above = tried(self.work, scale.case(place + 1), mode, self.repeats)
        return {
            "mode": mode,
            "batches": trials[0].case.batches,
            "share": scale.share(place),
            "of_ceiling": scale.share(place) / ceiling,
            "predicted_share": scale.share(self._predicted(scale, mode)),
            **summary(trials),
            "above": [[trial.variant, trial.outcome] for trial in above] or "refused",
        }

    def throughputs(self, pair: str, limit: int, steps: int) -> Iterator[Row]:
        """Seconds of steps in turn over those as planned, of each two steps in a row; None if the pool ran out.

        At the largest common share; if the plan runs in turn there, also at the largest at which it does not.
        """
        scale = self.scale(pair, limit)
        place = min(self.most(scale, mode) for mode in PRECISE)
        largest = self._last(scale, place, lambda p: bool(self.work.plans(scale.case(p), "colocation")))
        beside = self._last(scale, place, lambda p: self._is_beside(scale.case(p)))
        for place in sorted({largest, beside} - {scale.places.start - 1}, reverse=True):
            yield _about(pair, scale) | self._down_from(scale, place, steps)

    def _down_from(self, scale: Scale, top: int, steps: int) -> Row:
        """At this place, or at a smaller one if most runs that are longer than a trial fail."""
        error = ""
        for place in range(top, max(top - SMALLER, scale.places.start - 1), -1):
            try:
                return self._interleaved(scale, place, steps)
            except EnforcerError as failure:
                error = str(failure)
        return {"share": scale.share(top), "throughput": None, "variant": "", "error": error}

    def _is_beside(self, case: Case) -> bool:
        return any(planned.variant == BESIDE for planned in self.work.plans(case, "colocation"))

    def _interleaved(self, scale: Scale, place: int, steps: int) -> Row:
        """Of several pairs of processes: how much a step waits for room differs from one pool to the next.

        Longer than a trial, a pair may run out: as many times as there are pairs it is made anew.
        """
        case = scale.case(place)
        modes = {mode: self.work.plans(case, mode)[0] for mode in PRECISE}
        found: list[dict[str, list[float]]] = []
        ran_out = 0
        while len(found) < self.repeats:
            try:
                found.append(self._paired(case, modes, steps))
            except EnforcerError:
                ran_out += 1
                if ran_out > self.repeats:
                    raise
        ratios = [[a / b for a, b in zip(one[SEQUENTIAL], one["colocation"], strict=True)] for one in found]
        return {
            "share": scale.share(place),
            "batches": case.batches,
            "variant": modes["colocation"].variant,
            "same_program": modes["colocation"].same_as == SEQUENTIAL,
            "throughput": statistics.median(ratio for own in ratios for ratio in own),
            "steps": steps,
            "ran_out": ran_out,
            "throughput_of_processes": [statistics.median(own) for own in ratios],
            "seconds": {mode: statistics.median(t for one in found for t in one[mode]) for mode in modes},
        }

    def _paired(self, case: Case, modes: Mapping[str, Planned], steps: int) -> dict[str, list[float]]:
        """Seconds of each step of a new process for each mode, one step of each in turn."""
        with ExitStack() as stack:
            tasks = {
                mode: stack.enter_context(self.work.running(case, planned)) for mode, planned in modes.items()
            }
            runs = {mode: lambda t=task: run_steps(t, 1)["seconds"] for mode, task in tasks.items()}
            run_interleaved(runs, WARMUP_STEPS)
            found = run_interleaved(runs, steps)
        return {mode: [seconds for (seconds,) in blocks] for mode, blocks in found.items()}

    def fit(self, models: Iterable[str], limit: int) -> Iterator[Row]:
        """Of all pairs of models around another limit: does what fits by the plan fit, and what not not?"""
        pool = int(limit * FIT_LIMIT) >> 20 << 20
        tops = {model: self._modelled_solo(model, pool) for model in models}
        pairs = list(combinations_with_replacement(tops, 2))
        first, last = FIT_SHARES
        for number in range(FIT_CASES):
            pair = pairs[number % len(pairs)]
            share = first + (last - first) * number / (FIT_CASES - 1)
            yield self._fitted(
                Case(pair, tuple([max(1, round(tops[model] * share)) for model in pair]), pool)
            )

    def _fitted(self, case: Case) -> Row:
        """Trials of the plan, or where there is none, in turn: what fails once does not fit."""
        (in_turn,) = self.work.plans(case, SEQUENTIAL)
        fits = bool(self.work.plans(case, "colocation"))
        trials = tried(self.work, case, "colocation" if fits else SEQUENTIAL, self.repeats)
        return {
            "pair": "+".join(case.models),
            "batches": case.batches,
            "limit": case.limit,
            "in_turn_of_limit": in_turn.peak_bytes / case.limit,
            "predicted_fit": fits,
            "agrees": fits == trials[-1].ok,
            "first_agrees": fits == trials[0].ok,
            **summary(trials),
        }

    def _expected(self, scale: Scale, mode: str) -> int:
        """No mode is expected to do better than running in turn, nor that to do better than one job alone."""
        if mode == SEQUENTIAL:
            return round(1 / scale.grid)
        return int(self.most(replace(scale, grid=self.grid), SEQUENTIAL) * self.grid / scale.grid)

    def _predicted(self, scale: Scale, mode: str) -> int:
        """The largest place at which a mode fits by the model."""

        def fits(place: int) -> bool:
            return any(planned.fits for planned in self.work.plans(scale.case(place), mode))

        return max(scale.places.start, self._last(scale, scale.places[-1], fits))

    @staticmethod
    def _last(scale: Scale, top: int, holds: Callable[[int], bool]) -> int:
        """The largest place up to `top` of which something holds, as far as halving finds it; one less than all."""
        low, high = scale.places.start - 1, top + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low


def _about(pair: str, scale: Scale) -> Row:
    return {"pair": pair, "limit": scale.limit, "solo": scale.tops}


def summary(trials: Sequence[Trial]) -> Row:
    """Of the trials of one way."""
    seconds = [second for trial in trials for second in trial.seconds[1:]]
    return {
        "variant": trials[0].variant,
        "outcome": trials[-1].outcome,
        "successes": sum(trial.ok for trial in trials),
        "repeats": len(trials),
        "predicted_peak": trials[0].predicted_peak,
        "peak": max(trial.peak for trial in trials),
        "seconds": statistics.median(seconds) if seconds else None,
        "slowest_seconds": max(seconds, default=None),
        "losses_equal": all(trial.losses_equal for trial in trials if trial.ok),
    }


def measure(bench: Bench, arguments: argparse.Namespace) -> Row:
    capacities: list[Row] = []
    throughputs: list[Row] = []
    fits: list[Row] = []
    limits = [limit << 20 for limit in arguments.limit]
    busy = [pair for pair in arguments.pairs if pair != IDLE_PAIR]
    for limit in limits:
        if "capacity" in arguments.parts:
            for pair in busy:
                capacities += reported(line, bench.capacities(pair, limit, arguments.modes))
        if "throughput" in arguments.parts:
            for pair in arguments.pairs:
                throughputs += reported(throughput_line, bench.throughputs(pair, limit, arguments.steps))
        if "fit" in arguments.parts:
            fits += reported(fit_line, bench.fit(dict.fromkeys("+".join(busy).split("+")), limit))
    return {
        "load_average": os.getloadavg(),
        "of_ceiling": {f"{limit >> 20} MB": means(capacities, limit) for limit in limits},
        "capacity": capacities,
        "throughput": throughputs,
        "fit": {
            **agreement(fits),
            "near": agreement([case for case in fits if abs(case["in_turn_of_limit"] - 1) <= NEAR]),
            "untuned": agreement([case for case in fits if not {*TUNED} & {*case["pair"].split("+")}]),
            "misses": [case for case in fits if not case["agrees"]],
            "all": fits,
        },
    }


def reported(words: Callable[[Row], str], rows: Iterable[Row]) -> Iterator[Row]:
    """Each as soon as it is found, with a line about it."""
    for row in rows:
        print(words(row), file=sys.stderr, flush=True)
        yield row


def agreement(fits: Sequence[Row]) -> Row:
    """Of predicted fits with the pool: in all trials of a case, and in its first."""
    return {
        "cases": len(fits),
        "predicted_fits": sum(case["predicted_fit"] for case in fits),
        "agreement": statistics.mean(case["agrees"] for case in fits) if fits else None,
        "first_agreement": statistics.mean(case["first_agrees"] for case in fits) if fits else None,
    }


def means(capacities: Sequence[Row], limit: int) -> Row:
    """Mean and least of each mode's shares of the ceiling; what reaches none counts as 0."""
    found: dict[str, list[float]] = {}
    for one in capacities:
        if one["limit"] == limit:
            found.setdefault(one["mode"], []).append(one["of_ceiling"] if one["share"] else 0.0)
    return {
        mode: {"mean": statistics.mean(shares), "least": min(shares), "pairs": len(shares)}
        for mode, shares in found.items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    default = Path(tempfile.gettempdir()) / "tfwave-bench-colocation"
    add("--out", type=Path, default=default, help="a directory; what it has is not done again")
    add("--limit", type=int, nargs="+", default=[512, 1024], help="MB")
    add("--pairs", nargs="+", default=[*PAIRS, IDLE_PAIR], metavar="MODEL+MODEL")
    add("--modes", nargs="+", default=[m for m in MODES if not m.startswith(SPLIT)], choices=list(MODES))
    add("--parts", nargs="+", default=["capacity", "throughput", "fit"])
    add("--repeats", type=int, default=5, help="of each trial; for the throughput, pairs of processes")
    add("--steps", type=int, default=12, help="of each process for the throughput, interleaved")
    add("--grid", type=float, default=0.025, help="steps of the shares")
    return parser


def main() -> None:
    """Measure, and say it."""
    arguments = _parser().parse_args()
    with open_work(arguments.out) as work:
        bench = Bench(work, arguments.repeats, arguments.grid)
        print(json.dumps(measure(bench, arguments), indent=1))


if __name__ == "__main__":
    main()
