"""The largest batch of a training step in a limited pool: plain, made to fit, and by what TensorFlow offers.

The ways: `plain`; `both` by what `tfwave fit` plans for the same batch, captured in a large pool; `placed`
likewise with --placement, in a planned pool; `order`, `offload`, `recompute` by a plan that takes nothing else;
`halved`, the batch in two halves with one update; `grappler`, TensorFlow's own memory optimizer; `recompute_grad`,
its function of that name around each block, by hand. A trial is a process of its own. The batch is searched, to a
hundredth, with trials of a few steps; it counts if --repeats trials of --steps steps run, else a smaller one is
sought. The first steps of a plan must give the losses of plain ones. Grappler, but in its own way, and oneDNN are
off. Trials are in --out/trials.jsonl: a run goes on where it was stopped.

With --batch and --beside it is not searched: each step of so many samples is followed by one of another way and so
many, in a pool as large.

    tools/bench/memory/largest_batch.py --model resnet --model vgg --model bert --model inception --model unet \
        --model lstm --pool 512 --out largest_batch
    tools/bench/memory/largest_batch.py --model bert --way placed --batch 408 --beside plain=68 --repeats 5 \
        --steps 50 --out largest_batch
"""

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

from tfwave.bundle.bundle import load_bundle
from tfwave.demo.processes import Task
from tfwave.errors import EnforcerError
from tfwave.memory.slots import room
from tfwave.offload.batch import largest_batch
from tfwave.offload.captured import CapturedStep, captured_step
from tfwave.offload.choice import Choice, Prices
from tfwave.offload.fit import Fit, Fits, Policy
from tfwave.offload.forecast import forecast
from tfwave.offload.greedy import greedy_choice
from tfwave.offload.layout import Method
from tfwave.offload.question import Question
from tfwave.offload.section import memory_section
from tfwave.offload.step import TrainingStep
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import Memory
from tools.bench.interleaved import paired_ratio
from tools.bench.memory import grappler_task, limited_task, recompute_task
from tools.bench.memory.fitted_modes import PLACED, WAYS
from tools.bench.memory.limited import STEPS, Log, Pools, Program, largest, open_pools, outcome_of, run_steps
from tools.bench.memory.limited_models import HALVED
from tools.bench.memory.programs import fitted_program, step_program

GRID = 4
PRECISE = 0.01
"""Batches that are tried are so far apart at least, as a share of what should fit."""
MOST = 16
"""Times what should fit is tried."""
JOBS = (1, 2)
"""Plans of one means leave the room that so many jobs in a pool would need: the first that runs counts."""

_CASE = ("limit", "steps", "model", "way", "batch", "repeat")

Fitting = Callable[[CapturedStep, int], Iterator[Memory]]
"""Plans of a step for a pool of so many bytes, of which the first that runs counts."""


def _tried(step: TrainingStep, limit: int, way: str) -> Iterator[Fit]:
    for layout in Fits(step).layouts(limit):
        choice: Choice | None = Choice.all_of(layout, Method.KEEP)
        prices = Prices(layout, math.inf if way == "recompute" else 1.0)
        if way == "offload":
            kept = tuple(replace(candidate, chain=None) for candidate in layout.candidates)
            prices = Prices(replace(layout, candidates=kept))
        if way != "order":
            choice = greedy_choice(prices, limit)
        if choice is not None and choice.fits(limit) and math.isfinite(prices.total(choice)):
            yield Fit(Policy.GREEDY, forecast(choice, limit), prices, limit)


def _only(way: str) -> Fitting:
    def planned(captured: CapturedStep, limit: int) -> Iterator[Memory]:
        for jobs in JOBS:
            fit = min(_tried(captured.step, room(limit, jobs), way), key=lambda fit: fit.cost, default=None)
            if fit is not None:
                yield memory_section(fit, graph_print(captured.view), limit, limit)

    return planned


def _asked(places: bool) -> Fitting:
    def planned(captured: CapturedStep, limit: int) -> Iterator[Memory]:
        memory = Question(captured, None, limit, places=places).section
        return iter(() if memory is None else (memory,))

    return planned


FITTINGS: dict[str, Fitting] = {way: _only(way) for way in ("order", "offload", "recompute")}
FITTINGS |= {"both": _asked(places=False), PLACED: _asked(places=True)}


class Batch(NamedTuple):
    """So many samples a step, in one of the ways."""

    way: str
    size: int

    @classmethod
    def of(cls, text: str) -> Self:
        """As `plain=68`."""
        way, _, size = text.partition("=")
        if way not in WAYS or not size.isdecimal():
            raise argparse.ArgumentTypeError(f"{text!r} is no batch of one of the ways, such as plain=68")
        return cls(way, int(size))


@dataclass
class Work:
    """Trials in a pool of so many bytes, those of earlier runs included."""

    pools: Pools
    limit: int
    repeats: int
    steps: int

    def __post_init__(self) -> None:
        self._log = Log(self.pools.out / "trials.jsonl")
        self.made = {tuple(t[name] for name in _CASE): t for t in self._log.lines()}

    def row(self, model: str, way: str, start: float) -> dict[str, Any]:
        """The largest batch, one of its trials, and the median seconds of a sample, but for the first step."""
        grid = GRID * max(1, round(PRECISE * start / GRID))

        def holds(place: int, repeats: int, steps: int) -> bool:
            trials = (self.trial(model, way, grid * place, repeat, steps) for repeat in range(repeats))
            return all(trial["outcome"] == "ok" for trial in trials)

        first = max(1, round(start / grid))
        batch = grid * largest(
            range(1, MOST * first),
            first,
            lambda p: holds(p, 1, STEPS),
            lambda p: holds(p, self.repeats, self.steps),
        )
        row = {"model": model, "way": way, "batch": batch}
        if not batch:
            return row
        trial = self.trial(model, way, batch, 0, self.steps)
        return row | {"seconds_each": statistics.median(trial["seconds"][1:]) / batch, "trial": trial}

    def beside(self, model: str, way: str, batch: int, other: Batch) -> dict[str, Any]:
        """A batch and one of another way step by step: seconds of a sample of each, and the pairs' median ratio."""
        trials = [self._pairs(model, way, batch, other, repeat) for repeat in range(self.repeats)]
        row = {"model": model, "way": way, "batch": batch, "beside": other.way, "beside_batch": other.size}
        if wrong := next((trial["outcome"] for trial in trials if trial["outcome"] != "ok"), None):
            return row | {"outcome": wrong}
        pairs = [
            pair for trial in trials for pair in zip(trial["seconds"], trial["beside_seconds"], strict=True)
        ]
        ours, theirs = (
            [pair[place] / size for pair in pairs] for place, size in ((0, batch), (1, other.size))
        )
        return row | {
            "outcome": "ok",
            "over_beside": paired_ratio(ours, theirs),
            "seconds_each": statistics.median(ours),
            "beside_seconds_each": statistics.median(theirs),
            "peak": max(trial["peak"] for trial in trials),
            "trials": trials,
        }

    def _pairs(self, model: str, way: str, batch: int, other: Batch, repeat: int) -> dict[str, Any]:
        key = (self.limit, self.steps, model, f"{way} beside {other.way} {other.size}", batch, repeat)
        return self._once(key, lambda: self._run_pairs(model, way, batch, other))

    def _run_pairs(self, model: str, way: str, batch: int, other: Batch) -> dict[str, Any]:
        """All but the first."""
        ours, theirs = (
            next(self._processes(model, *of), None) for of in ((way, batch), (other.way, other.size))
        )
        if ours is None or theirs is None:
            return {"outcome": "no plan"}
        try:
            with ours as task, theirs as beside:
                pairs = [(run_steps(task, 1), run_steps(beside, 1)) for _ in range(self.steps)]
        except EnforcerError as error:
            return {"outcome": outcome_of(error)}
        losses = [made["losses"][0][0] for made, _ in pairs]
        same = all(a == b for a, b in zip(losses, self._plain_losses(model, batch), strict=False))
        seconds, beside_seconds = ([pair[place]["seconds"][0] for pair in pairs[1:]] for place in (0, 1))
        found = {"peak": pairs[-1][0]["peak"], "seconds": seconds, "beside_seconds": beside_seconds}
        return {"outcome": "ok" if same else "other losses"} | found

    def trial(self, model: str, way: str, batch: int, repeat: int, steps: int) -> dict[str, Any]:
        """What came of it, now or before."""
        key = (self.limit, steps, model, way, batch, repeat)
        return self._once(key, lambda: self._try(model, way, batch, steps))

    def _once(self, key: tuple[Any, ...], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if key not in self.made:
            self.made[key] = dict(zip(_CASE, key, strict=True)) | make()
            self._log.add(self.made[key])
        return self.made[key]

    def _try(self, model: str, way: str, batch: int, steps: int) -> dict[str, Any]:
        found: dict[str, Any] = {"outcome": "no plan"}
        for running in self._processes(model, way, batch):
            try:
                with running as task:
                    answer = run_steps(task, steps)
            except EnforcerError as error:
                found = {"outcome": outcome_of(error)}
                continue
            losses = [loss for (loss,) in answer["losses"]]
            plain = self._plain_losses(model, batch) if way in FITTINGS else []
            same = all(one == other for one, other in zip(losses, plain, strict=False))
            outcome = "ok" if same else "other losses"
            return {"outcome": outcome, "peak": answer["peak"], "seconds": answer["seconds"]}
        return found

    def _processes(self, model: str, way: str, batch: int) -> Iterator[AbstractContextManager[Task]]:
        """Each with the step."""
        if way == "recompute_grad":
            request = {"do": "compile", "model": model, "batch": batch}
            yield self.pools.asked(self.limit, recompute_task.MODULE, request)
        else:
            for program in self._programs(model, way, batch):
                yield self.pools.running(self.limit, program)

    def _programs(self, model: str, way: str, batch: int) -> Iterator[Program]:
        if way in FITTINGS:
            captured = captured_step(load_bundle(self.pools.profile(model, batch) / "bundle"))
            for memory in FITTINGS[way](captured, self.limit):
                yield fitted_program(self.pools.graph(model, batch), memory)
        elif way == "halved":
            yield step_program(self.pools.graph(HALVED + model, batch))
        else:
            module = grappler_task.MODULE if way == "grappler" else limited_task.MODULE
            yield step_program(self.pools.graph(model, batch), module)

    def _plain_losses(self, model: str, batch: int) -> list[str]:
        return json.loads((self.pools.profile(model, batch) / "steps.json").read_text())["losses"]


def main(arguments: Sequence[str]) -> None:
    """Print a line of JSON for each model and way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--way", action="append", choices=WAYS, help="all of them, if nothing says otherwise")
    parser.add_argument("--pool", type=int, default=512, metavar="MB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS, help="of a trial")
    parser.add_argument("--batch", type=int, help="with --beside: this one, in place of the largest")
    parser.add_argument("--beside", type=Batch.of, metavar="WAY=N", help="with --batch: the steps between")
    parser.add_argument("--sample", type=int, default=16, help="the batch from which the search is started")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    limit = given.pool * 1_000_000
    with open_pools(given.out) as pools:
        work = Work(pools, limit, given.repeats, given.steps)
        if given.batch and given.beside:
            for model, way in product(given.model, given.way or WAYS):
                print(json.dumps(work.beside(model, way, given.batch, given.beside)), flush=True)
            return
        for model in given.model:
            step = captured_step(load_bundle(pools.profile(model, given.sample) / "bundle")).step
            most = largest_batch(step, room(limit, 1))
            for way in given.way or WAYS:
                start = given.sample * (most.fitted if way in {"offload", "both", PLACED} else most.plain)
                print(json.dumps(work.row(model, way, start)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
