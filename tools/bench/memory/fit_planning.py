"""How long it takes to plan a step that must fit, and what its plan costs beside the integer optimum.

1. Six models, captured each in a process of its own, at shares of the way from the least that the step can be made
   to hold to its plain peak: the seconds of the choice of what is away, and of all that `tfwave fit` plans, with
   what TensorFlow's pool takes in each run that is tried; and greedy's price over that of the choice that SciPy's
   HiGHS finds in 15 s for each order, and over the bound that it proves.
2. A long step: a chain of blocks, each of which holds one large tensor until its gradient.

Seconds are those of the CPU, the least of --repeats.

    tools/bench/memory/fit_planning.py --out fit_planning                      six models: minutes
    tools/bench/memory/fit_planning.py --model resnet --out fit_planning       one of them
    tools/bench/memory/fit_planning.py --ops 20000 --out fit_planning          a long step
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

from tfwave.bundle.bundle import load_bundle
from tfwave.memory.slots import limit_for
from tfwave.offload.captured import CapturedStep, captured_step
from tfwave.offload.choice import Prices
from tfwave.offload.curve import plain_curve
from tfwave.offload.exact import exact_choice
from tfwave.offload.fit import EXACT_SECONDS, Fits
from tfwave.offload.greedy import greedy_choice
from tfwave.offload.question import Question
from tfwave.offload.step import Buffer, Op, Phase, TrainingStep
from tools.bench.cpu import cpu_seconds
from tools.bench.memory.limited import open_pools

BATCHES = {"resnet": 64, "vgg": 512, "bert": 64, "inception": 48, "unet": 240, "lstm": 64}
"""Such that activations, not weights, are most of what a step holds."""
SHARES = (0.1, 0.3, 0.6, 0.9)
BLOCK, LARGE, SMALL = 10, 1 << 20, 1 << 10
"""Ops of a block in the forward pass, and bytes of its tensors."""


def long_step(count: int) -> TrainingStep:
    """Of about so many ops, a third of them in the forward pass."""
    forward = count // 3
    ops = [_op(n, [n - 1] if n else [], Phase.FORWARD) for n in range(forward)]
    uses = [[n, n + 1] for n in range(forward)]
    for n in reversed(range(forward)):
        for _ in range(2):
            made = len(ops)
            ops.append(_op(made, [made - 1, n], Phase.BACKWARD))
            uses[made - 1].append(made)
            uses[n].append(made)
            uses.append([made])
    buffers = [
        Buffer(
            (f"op{n}:0",), LARGE if n < forward and n % BLOCK == 0 else SMALL, (n,), tuple(sorted(set(used)))
        )
        for n, used in enumerate(uses)
    ]
    return TrainingStep("/cpu", tuple(ops), tuple(buffers), LARGE)


def _op(number: int, after: Sequence[int], phase: Phase) -> Op:
    return Op(f"op{number}", 1e-4, 0, tuple(sorted(set(after))), phase)


def timed(call: Callable[[], object], repeats: int) -> float:
    """The least CPU seconds of some calls."""
    return min(cpu_seconds(call) for _ in range(repeats))


def limits(step: TrainingStep) -> Iterator[tuple[float, int]]:
    """Bytes that may be held, by the share of the way to the plain peak."""
    low, high = Fits(step).least_limit, int(plain_curve(step).max())
    return ((share, round(low + share * (high - low))) for share in SHARES)


def planned(captured: CapturedStep, repeats: int) -> Iterator[dict[str, Any]]:
    """Part 1."""
    for share, held in limits(captured.step):
        asked = Question(captured, None, limit_for(held, 2))
        yield {
            "share": share,
            "choice_seconds": timed(lambda held=held: Fits(captured.step).within(held), repeats),
            "plan_seconds": timed(lambda asked=asked: replace(asked).section, repeats),
            **beside_solver(captured.step, held),
        }


def beside_solver(step: TrainingStep, held: int) -> dict[str, float | None]:
    """Greedy's price over the solver's, and over the bound that it proves: each the least of all orders.

    None where the solver found no choice in any, or no bound in one, or nothing costs anything; infinite where
    only greedy found none.
    """
    ours = theirs = bound = math.inf
    for prices in map(Prices, Fits(step).layouts(held)):
        greedy, solved = greedy_choice(prices, held), exact_choice(prices, held, EXACT_SECONDS)
        ours = min(ours, prices.total(greedy) if greedy else math.inf)
        theirs = min(theirs, prices.total(solved.choice) if solved.choice else math.inf)
        bound = min(bound, solved.bound)
    return {
        "over_solver": ours / theirs if 0 < theirs < math.inf else None,
        "over_bound": ours / bound if bound else None,
    }


def chosen(step: TrainingStep, repeats: int) -> Iterator[dict[str, Any]]:
    """Part 2."""
    for share, held in limits(step):
        yield {"share": share, "choice_seconds": timed(lambda held=held: Fits(step).within(held), repeats)}


def main(arguments: Sequence[str]) -> None:
    """Print a line of JSON for each step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", action="append", choices=BATCHES, help="all of them, if nothing says otherwise"
    )
    parser.add_argument("--ops", type=int, help="a long step of about so many, in place of models")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.ops:
        step = long_step(given.ops)
        say("long", step, chosen(step, given.repeats))
        return
    with open_pools(given.out) as pools:
        for model in given.model or BATCHES:
            captured = captured_step(load_bundle(pools.profile(model, BATCHES[model]) / "bundle"))
            say(model, captured.step, planned(captured, given.repeats))


def say(model: str, step: TrainingStep, rows: Iterator[dict[str, Any]]) -> None:
    """Print a line."""
    print(json.dumps({"each": [{"model": model, "ops": len(step.ops), **row} for row in rows]}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
