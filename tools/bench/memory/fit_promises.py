"""Does `tfwave fit` keep what it promises? Its verdicts on cases, against what ran in a real pool of that size.

A case is a model, a batch and a limit, drawn by a seed: 10 of each model. One that is said to fit must run there,
with the losses of the plain step; one that is said not to must run out, with all away that can be, in the order
that holds least. Each of its steps is followed by a plain one in a large pool: seconds are the median of the pairs'
ratio, and tell only on a quiet machine. Grappler and oneDNN are off. Cases are in --out/cases.jsonl: a run goes on
where it was stopped.

    tools/bench/memory/fit_promises.py --out fit_promises                          60 cases
    tools/bench/memory/fit_promises.py --out fit_promises --model bert --cases 2   two of them
    tools/bench/memory/fit_promises.py --out fit_promises --placement              in planned pools
"""

import argparse
import json
import os
import random
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

from tfwave.bundle.bundle import load_bundle
from tfwave.errors import EnforcerError
from tfwave.offload.captured import CapturedStep, captured_step
from tfwave.offload.choice import Choice, Prices
from tfwave.offload.fit import Fit, Policy
from tfwave.offload.forecast import forecast
from tfwave.offload.layout import Layout, Method
from tfwave.offload.orders import lean_order
from tfwave.offload.placing import with_places
from tfwave.offload.question import Question
from tfwave.offload.section import memory_section
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import Memory
from tools.bench.memory import fitted_task
from tools.bench.memory.fitted_modes import MODELS
from tools.bench.memory.limited import LARGE_POOL, Log, Pools, Program, open_pools, outcome_of, run_steps
from tools.bench.memory.programs import fitted_program, step_program

BATCHES = (8, 48)
TIMES = {"lstm": 16}
"""The batches of a model are so many times as large: pools have whole MiB, and its step holds few of them."""
SHARES = (0.3, 1.1)
"""Of what the step holds as it is: some limits are too small for any plan, and some leave all as it is."""
CASES, STEPS = 10, 18


def drawn(model: str, count: int) -> Iterator[tuple[int, float]]:
    """Batches, and limits as a share of the plain peak: the same each time."""
    rng = random.Random(model)
    for _ in range(count):
        batch = 4 * rng.randint(BATCHES[0] // 4, BATCHES[1] // 4) * TIMES.get(model, 1)
        yield batch, round(rng.uniform(*SHARES), 2)


def promises(cases: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How many verdicts were right; and of the cases that ran, how far the promised slowdown was off, in points."""
    known = list(cases)
    off = [abs(case["promised"] - case["measured"]) * 100 for case in known if "measured" in case]
    return {
        "cases": len(known),
        "said_to_fit": sum(case["fits"] for case in known),
        "right": sum(case["right"] for case in known) / len(known) if known else None,
        "wrong": [[case["model"], case["batch"], case["share"]] for case in known if not case["right"]],
        "points_off": statistics.median(off) if off else None,
    }


def measured(pools: Pools, model: str, batch: int, share: float, placement: bool) -> dict[str, Any]:
    """The verdict of one case, and what came of it."""
    profile = pools.profile(model, batch)
    captured = captured_step(load_bundle(profile / "bundle"))
    limit = round(share * captured.found.peak)
    question = Question(captured, None, limit, places=placement)
    case = {"model": model, "batch": batch, "share": share, "limit": limit, "fits": question.fit is not None}
    memory = question.section or _least(captured, placement)
    graph = pools.graph(model, batch)
    try:
        pairs = _ran(
            pools,
            (limit, fitted_program(graph, memory)),
            (LARGE_POOL, step_program(graph, fitted_task.MODULE)),
        )
    except EnforcerError as error:
        return case | {"outcome": outcome_of(error), "right": not case["fits"]}
    outcome = "ok" if all(made["losses"] == plain["losses"] for made, plain in pairs) else "other losses"
    case |= {
        "outcome": outcome,
        "peak": pairs[-1][0]["peak"],
        "right": bool(case["fits"]) and outcome == "ok",
    }
    if not case["right"]:
        return case
    slower = statistics.median(made["seconds"][0] / plain["seconds"][0] for made, plain in pairs[2:]) - 1
    return case | {"promised": memory.seconds / memory.plain_seconds - 1, "measured": slower}


def _ran(pools: Pools, *programs: tuple[int, Program]) -> list[list[dict[str, Any]]]:
    """A step of each, again and again."""
    with ExitStack() as running:
        tasks = [running.enter_context(pools.running(limit, program)) for limit, program in programs]
        return [[run_steps(task, 1) for task in tasks] for _ in range(STEPS)]


def _least(captured: CapturedStep, placement: bool) -> Memory:
    """All away."""
    choice = Choice.all_of(Layout.of(captured.step, lean_order(captured.step), 0), Method.OFFLOAD)
    fit = Fit(Policy.GREEDY, forecast(choice, choice.peak, 0), Prices(choice.layout), choice.peak)
    memory = memory_section(fit, graph_print(captured.view), LARGE_POOL, choice.peak)
    return with_places(captured.step, memory) if placement else memory


def main(arguments: Sequence[str]) -> None:
    """Print JSON of all cases, and a line for each as it comes to standard error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", action="append", choices=MODELS, help="all of them, if nothing says otherwise"
    )
    parser.add_argument("--cases", type=int, default=CASES, help="of each model")
    parser.add_argument("--placement", action="store_true", help="with places, in a planned pool")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    log = Log(given.out / "cases.jsonl")
    known = {(case["model"], case["batch"], case["share"]): case for case in log.lines()}
    wanted = [(model, *case) for model in given.model or MODELS for case in drawn(model, given.cases)]
    with open_pools(given.out) as pools:
        for key in wanted:
            if key not in known:
                known[key] = measured(pools, *key, given.placement)
                log.add(known[key])
                print(json.dumps(known[key]), file=sys.stderr, flush=True)
    print(json.dumps(promises(known[key] for key in wanted) | {"each": [known[key] for key in wanted]}))


if __name__ == "__main__":
    main(sys.argv[1:])
