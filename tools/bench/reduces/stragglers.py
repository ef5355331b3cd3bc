"""Time to a loss with workers of which some are slow: partial reduces against MultiWorkerMirroredStrategy.

    tools/bench/reduces/stragglers.py --model conv --workers 8 --delays groups --seed 1

All train the same tf_keras model, each worker on examples of its own; a step begins with a sleep of 20 ms and a
delay: none, U(0, 50) ms ("some"), or in half of the workers U(50, 100) ms ("groups"). The mode "stock" is
TensorFlow's strategy, "all" and "rna" are `tfwave.keras.PartialReduce` with all and with two probes, and "apart" is
what never waiting allows: no worker hears of another. All are forked from a process that has imported TensorFlow.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.runtime.ports import reserved_ports

TASK = "tools.bench.reduces.stragglers_task"
ENVIRONMENT = {
    "PYTHONPATH": sys.path[0],
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTRAOP_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
"""Of all workers."""
MODES = ("stock", "all", "rna", "apart")
BASE = 0.02
TARGETS = {"conv": 0.7, "lstm": 1.1}
"""Losses."""
LONGEST_SECONDS = 300
"""Of starting, and of telling what loss there was."""
DELAYS = {
    "none": lambda workers: [(0.0, 0.0)] * workers,
    "some": lambda workers: [(0.0, 0.05)] * workers,
    "groups": lambda workers: [(0.0, 0.05) if i < workers // 2 else (0.05, 0.1) for i in range(workers)],
}
"""Seconds from and to, of each worker."""


def main() -> None:
    """Print what came of each mode, as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=TARGETS, default="conv")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--delays", choices=DELAYS, default="some")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0, help="of training")
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    fork = multiprocessing.get_context("forkserver")
    fork.set_forkserver_preload([TASK])
    modes = {mode: summary(run(mode, given, fork), given) for mode in MODES}
    print(json.dumps({"modes": modes, "gains": gains(modes), "given": vars(given)}))


def run(mode: str, given: argparse.Namespace, fork: ForkServerContext) -> list[dict[str, Any]]:
    """What each worker told."""
    task = {
        "mode": mode,
        "model": given.model,
        "seed": given.seed,
        "seconds": given.seconds,
        "base": BASE,
        "delays": DELAYS[given.delays](given.workers),
    }
    end = time.monotonic() + LONGEST_SECONDS + given.seconds
    workers: list[ForkServerProcess] = []
    told: list[Connection] = []
    with reserved_ports(given.workers) as ports:
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        try:
            for rank in range(given.workers):
                reader, writer = fork.Pipe(duplex=False)
                with closing(writer):
                    workers.append(fork.Process(target=work, args=(task, cluster, rank, writer)))
                    workers[-1].start()
                told.append(reader)
            return [heard(reader, end) for reader in told]
        finally:
            kill(workers)


def work(task: dict[str, Any], cluster: dict[str, list[str]], rank: int, told: Connection) -> None:
    """Be one of them, silently."""
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    import_module(TASK).train(task, rank, told.send)


def heard(reader: Connection, end: float) -> dict[str, Any]:
    """What a worker tells until then."""
    if not reader.poll(max(0.0, end - time.monotonic())):
        raise TimeoutError("a worker tells nothing")
    return reader.recv()


def kill(workers: Sequence[ForkServerProcess]) -> None:
    """All at once, however far they are."""
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()


def summary(told: list[dict[str, Any]], given: argparse.Namespace) -> dict[str, float | None]:
    """Seconds to the target loss (None: never), steps of all workers a second, and what came last."""
    curve = told[0]["curve"]
    target = TARGETS[given.model]
    return {
        "seconds_to_target": next((passed for passed, loss, _ in curve if loss <= target), None),
        "steps_per_second": sum(one["steps"] for one in told) / given.seconds,
        "last_loss": curve[-1][1],
        "last_accuracy": curve[-1][2],
    }


def gains(modes: dict[str, dict[str, float | None]]) -> dict[str, float | None]:
    """How many times sooner partial reduces are there, and their share of the steps that never waiting allows."""
    rna, apart = modes["rna"]["steps_per_second"], modes["apart"]["steps_per_second"]
    assert rna
    assert apart
    found: dict[str, float | None] = {"share_of_steps_apart": rna / apart}
    for other in ("stock", "all"):
        theirs, ours = modes[other]["seconds_to_target"], modes["rna"]["seconds_to_target"]
        found[f"sooner_than_{other}"] = theirs / ours if theirs and ours else None
    return found


if __name__ == "__main__":
    main()
