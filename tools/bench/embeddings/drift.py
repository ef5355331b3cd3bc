"""Whether memory stays as it is while ids drift: a dynamic table on a server, trained for as long as asked.

Ids come by a power law, whose order shifts with each batch: new ones come all the time, and old ones never again.
Behind some calls the table is cut to half of its rows. Each process says what memory it has, every few seconds.

    tools/bench/embeddings/drift.py --minutes 30
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo import server_task
from tfwave.demo.network import open_network
from tfwave.demo.processes import Tasks
from tools.bench.embeddings import drift_chief
from tools.bench.resident import resident

ROOT = Path(__file__).resolve().parents[3]
JOBS = ("ps", "worker", "chief")
START_SECONDS = 300.0
TURN_SECONDS = 5.0
SIXTHS = 6
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}


def measure(given: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        network = stack.enter_context(open_network(JOBS, given.rate))
        tasks = stack.enter_context(Tasks(network, directory))
        cluster = {job: [f"{network.address(job)}:{network.free_ports(job, 1)[0]}"] for job in JOBS}
        for job in JOBS[:2]:
            server = tasks.start(job, job, server_task.MODULE, ENVIRONMENT)
            server.send({"cluster": cluster, "job": job, "task": 0, "enforcer": None, "control": None})
            server.receive(START_SECONDS)
        chief = tasks.start("chief", "chief", drift_chief.MODULE, ENVIRONMENT)
        settings = {key: getattr(given, key) for key in ("rows", "width", "batch", "steps")}
        chief.request({"do": "start", "cluster": cluster} | settings, START_SECONDS)
        samples: dict[str, list[int]] = {task.name: [] for task in tasks.started}
        facts: dict[str, Any] = {}
        end = time.monotonic() + 60 * given.minutes
        while time.monotonic() < end:
            facts = chief.request({"do": "train", "seconds": TURN_SECONDS}, START_SECONDS)
            for task in tasks.started:
                samples[task.name].append(resident("VmRSS", task.pid))
        return {"given": vars(given), **facts, "tasks": {name: summary(own) for name, own in samples.items()}}


def summary(samples: Sequence[int]) -> dict[str, Any]:
    """The median of each sixth of the time; the first one has what is touched at first."""
    cuts = [len(samples) * k // SIXTHS for k in range(SIXTHS + 1)]
    sixths = [statistics.median(samples[begin:end]) for begin, end in pairwise(cuts) if end > begin]
    return {"sixths_bytes": sixths, "last_over_second": sixths[-1] / sixths[min(1, len(sixths) - 1)]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8192, help="ids of a step")
    parser.add_argument("--steps", type=int, default=8, help="of a call")
    parser.add_argument("--rate", type=float, default=1e10, help="bits per second of each host")
    print(json.dumps(measure(parser.parse_args()), indent=1))
