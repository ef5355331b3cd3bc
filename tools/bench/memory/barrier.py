"""What barriers between node groups cost when nobody has to wait.

Alone: chains of barriers, and of NoOps in their place, run in turn, each in its own Session; each is timed beside
a job that is in its step, and two jobs' chains at once. With --step: training steps of a model, cut into as many
groups as the planner ever cuts, in turn

1. as they are, twice: how far two instances of one graph differ says what the other ratios are worth;
2. with NoOps between the groups, which only keep their order;
3. with barriers that ask the ledger, as `tfwave.colocate.run` has them.

    tools/bench/memory/barrier.py                           chains of 2000, 15 of each
    tools/bench/memory/barrier.py --step resnet bert lstm   15 blocks of 5 steps of each
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import tfwave.colocate

tfwave.colocate.limit_memory("4GiB")  # a step is measured in a pool

import tensorflow as tf  # noqa: E402

from tfwave.colocate.life import Life, Run  # noqa: E402
from tfwave.colocate.measure import TRACED_STEPS, insert_barriers, ledger_job, measure  # noqa: E402
from tfwave.colocate.planned import ReadyJob, found  # noqa: E402
from tfwave.graph.marks import BARRIER_OP  # noqa: E402
from tfwave.memory.colocation import FINENESSES  # noqa: E402
from tfwave.memory.groups import levelled  # noqa: E402
from tfwave.passes.text import build_pass  # noqa: E402
from tfwave.plan.groups import GroupedJob  # noqa: E402
from tfwave.runtime.group_barriers import Insert  # noqa: E402
from tfwave.runtime.ledger import Ledger, LedgerJob, load_barrier_op  # noqa: E402
from tfwave.runtime.live.grappler import in_grappler  # noqa: E402
from tools.bench.interleaved import Blocks, run_interleaved  # noqa: E402
from tools.bench.memory.limited_models import LOSS, MODELS, RESET, TRAIN, build  # noqa: E402

JOBS = ("a", "b")
ROOM = 1 << 40
FIRST_STEPS = TRACED_STEPS + 2
BLOCK = 5
"""Steps of a mode in a row."""
PLAIN, BARRIERS = "plain", "barriers"


def measure_chains(length: int, repeats: int) -> dict[str, object]:
    """Nanoseconds of one of a chain."""
    barriers = {name: _chain(length, BARRIER_OP, name) for name in JOBS}
    no_ops = {name: _chain(length, "NoOp", name) for name in JOBS}
    with Ledger(ROOM, ROOM) as ledger, ThreadPoolExecutor(len(JOBS)) as pool:
        for name in JOBS:
            ledger.add(LedgerJob(name, 1, (0, *[1] * (length - 1), 0), (1,) * length))
        modes = {
            "barrier": lambda: _alone(ledger, barriers["a"]),
            "no_op": lambda: _alone(ledger, no_ops["a"]),
            "barrier_both": lambda: _both(ledger, pool, barriers),
            "no_op_both": lambda: _both(ledger, pool, no_ops),
        }
        run_interleaved(modes, 2)
        blocks = run_interleaved(modes, repeats)
        admitted = _admitted(ledger)
    return {
        "admitted": admitted,
        "ns_each": {mode: _nanos(of_mode, length) for mode, of_mode in blocks.items()},
    }


def _admitted(ledger: Ledger) -> int:
    figures = ledger.figures()
    if figures.waited:
        raise SystemExit(f"{figures.waited} barriers waited: these are no figures of uncontended ones")
    return figures.admitted


def _nanos(blocks: list[list[float]], length: int) -> dict[str, float]:
    each = [1e9 * t / length for block in blocks for t in block]
    return {"median": statistics.median(each), "least": min(each), "stdev": statistics.stdev(each)}


def _chain(length: int, op: str, job: str) -> Callable[[], object]:
    """A Session's run of ops that wait for each other in a row."""
    graph = tf.compat.v1.GraphDef()
    for number in range(length):
        node = graph.node.add(name=f"n{number}", op=op)
        node.input.extend([f"^n{number - 1}"] if number else [])
        if op == BARRIER_OP:
            node.attr["job"].s = job.encode()
            node.attr["group"].i = number
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        tf.import_graph_def(graph, name="")
    return session.make_callable(session.graph.get_operation_by_name(f"n{length - 1}"))


def _alone(ledger: Ledger, run: Callable[[], object]) -> list[float]:
    with ledger.step("b"), ledger.step("a"):
        return [_timed(run)]


def _both(ledger: Ledger, pool: ThreadPoolExecutor, runs: dict[str, Callable[[], object]]) -> list[float]:
    """The mean of the two jobs, at once."""

    def step(name: str) -> float:
        with ledger.step(name):
            return _timed(runs[name])

    return [statistics.mean(pool.map(step, JOBS))]


def _timed(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


@dataclass(frozen=True)
class Measured:
    """A job that has made its first steps, in groups."""

    life: Life
    ready: ReadyJob


def measured(model: str, batch: int) -> Measured:
    """A session that trains a model, cut as finely as the planner tries."""
    session = tf.compat.v1.Session(graph=build(model, batch))
    session.run(RESET)
    step = tfwave.colocate.SessionStep(session, [f"{LOSS}:0", TRAIN])
    life = Life(tfwave.colocate.Job(model, step, repeat((), FIRST_STEPS)))
    profiled = measure(life)
    if profiled is None:
        raise SystemExit(f"the model {model} was not measured: {life.error}")
    levels = levelled(profiled.step.view, profiled.step.profile, profiled.step.costs)
    rise = sum(group.transient for group in levels.whole)
    groups = levels.cut(max(1, -(-rise // FINENESSES[-1])))
    return Measured(life, found(GroupedJob(model, groups, profiled.step.profile.resident), profiled.made))


def measure_steps(model: str, batch: int, repeats: int, ns_each: float) -> dict[str, object]:
    """Medians, and their ratios block by block."""
    job = measured(model, batch)
    with Ledger(ROOM, ROOM) as ledger:
        asking = job.life.instance()
        _, placed = insert_barriers(job.life, asking, job.ready, ())
        if not placed:
            raise SystemExit(f"the model {model} was optimized in another way the second time")
        ledger.add(ledger_job(job.ready.job, 0))

        def barred() -> None:
            with ledger.step(model):
                asking()

        runs: dict[str, Run] = {
            PLAIN: job.life.instance(),
            "plain_again": job.life.instance(),
            "no_ops": _ordered(job),
            BARRIERS: barred,
        }
        modes = {mode: lambda run=run: [_timed(run) for _ in range(BLOCK)] for mode, run in runs.items()}
        run_interleaved(modes, 2)
        before = _admitted(ledger)
        blocks = run_interleaved(modes, repeats)
        asked = (_admitted(ledger) - before) / (repeats * BLOCK)
    return _figures(blocks, asked, ns_each) | {"model": model, "batch": batch}


def _ordered(job: Measured) -> Run:
    """The step with NoOps between its groups."""
    insert = Insert(
        build_pass("counter_barrier", {"groups": [list(group.ops) for group in job.ready.job.groups]}),
        job.ready.item,
    )
    run = job.life.instance()
    with in_grappler(insert):
        run()
    if not insert.done:
        raise SystemExit(f"the model {job.ready.job.name} was optimized in another way the second time")
    return run


def _figures(blocks: Blocks, asked: float, ns_each: float) -> dict[str, object]:
    medians = {mode: [statistics.median(block) for block in of_mode] for mode, of_mode in blocks.items()}
    plain = statistics.median(medians[PLAIN])
    return {
        "barriers_a_step": asked,
        "share_by_barrier": asked * ns_each / 1e9 / plain,
        "seconds": {mode: statistics.median(of_mode) for mode, of_mode in medians.items()},
        "spread": {mode: _quartiles(of_mode) for mode, of_mode in medians.items()},
        "ratio_to_plain": {mode: _ratios(medians, mode, PLAIN) for mode in medians if mode != PLAIN},
        "ratio_to_no_ops": _ratios(medians, BARRIERS, "no_ops"),
    }


def _ratios(medians: dict[str, list[float]], mode: str, to: str) -> dict[str, object]:
    """Of the two blocks of a repeat."""
    ratios = [a / b for a, b in zip(medians[mode], medians[to], strict=True)]
    return {"median": statistics.median(ratios), "quartiles": _quartiles(ratios)}


def _quartiles(values: Sequence[float]) -> list[float]:
    first, _, third = statistics.quantiles(values, n=4)
    return [first, third]


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=2000, help="barriers in a chain")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--step", nargs="+", default=[], choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--batch", type=int, default=16)
    arguments = parser.parse_args()
    load_barrier_op()
    found: dict[str, Any] = {"settings": vars(arguments), "load": os.getloadavg()}
    found |= measure_chains(arguments.length, arguments.repeats)
    each = found["ns_each"]["barrier"]["median"]
    found["steps"] = [
        measure_steps(model, arguments.batch, arguments.repeats, each) for model in arguments.step
    ]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
