"""What a barrier between two node groups costs when nobody has to wait: two jobs, each in its own Session.

Chains of barriers, and of NoOps in their place, run in turn; each is timed alone beside a job that is in its step,
and both jobs' chains at once.

    tools/bench/barrier.py                  chains of 2000, 15 of each
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tensorflow as tf

from tfwave.graph.marks import BARRIER_OP
from tfwave.runtime.ledger import Ledger, LedgerJob, load_barrier_op
from tools.bench.interleaved import run_interleaved

JOBS = ("a", "b")
ROOM = 1 << 30


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    load_barrier_op()
    length: int = arguments.length
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
        blocks = run_interleaved(modes, arguments.repeats)
        figures = ledger.figures()
    if figures.waited:
        raise SystemExit(f"{figures.waited} barriers waited: these are no figures of uncontended ones")
    return {
        "settings": vars(arguments),
        "load": os.getloadavg(),
        "admitted": figures.admitted,
        "ns_each": {mode: _nanos(of_mode, length) for mode, of_mode in blocks.items()},
    }


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=2000, help="barriers in a chain")
    parser.add_argument("--repeats", type=int, default=15)
    print(json.dumps(measure(parser.parse_args()), indent=1))
