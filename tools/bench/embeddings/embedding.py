"""Steps of a recommendation model whose embedding tables lie on parameter servers, at a set rate of the network.

Five jobs of the same seed, trained in turn on the same batches, one after the other in interleaved blocks:

    stock       each table looked up by itself, repeated ids and all
    unique      `tfwave.embedding`, a step a call: each row once, all tables in one tensor
    staged      several steps a call, exact
    hot         the same, with rows that a call needs again kept on the worker, in 64 MiB
    stale       as staged, with rows one update old

The first block of each, with its trace, is not counted. As where a training goes on, the first call of each worker
is prepared when a block begins, and those of the next block while it runs. Afterwards losses are compared: with one
worker those of the first four must be equal bit for bit. Tables lie whole, dealt out over the servers in turn. Of
several workers the seconds of a step are those of all batches, divided by how many these are. What each should
take, and the floor of staged steps, whatever the order of transfers, is foretold by a capture in one process.

    tools/bench/embeddings/embedding.py                26 tables, 2048 samples, 64 wide, 1 Gbit/s, DLRM-like
    tools/bench/embeddings/embedding.py --model dcn --servers 2 --workers 2 --rate 3e8
"""

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo import server_task
from tfwave.demo.network import open_network
from tfwave.demo.processes import Task, Tasks
from tfwave.staging.capture import read_capture
from tfwave.staging.choice import Forecaster
from tfwave.staging.forecast import Links
from tools.bench.embeddings import embedding_chief
from tools.bench.embeddings.recommenders import MODELS
from tools.bench.interleaved import figures, run_interleaved, wire_seconds

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 600.0
STEP_SECONDS = 60.0
SINGLE_STEPS = 8
"""Of each worker in a block, where a call makes one."""
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}


def hosts_of(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Of each job's tasks. The chief deals batches out to a worker on its own host, and to others."""
    workers = [f"worker{k}" for k in range(arguments.workers)]
    return {"ps": [f"server{k}" for k in range(arguments.servers)], "worker": workers, "chief": workers[:1]}


def forecaster_of(chief: Task, path: Path, arguments: argparse.Namespace) -> Forecaster:
    """By a capture that the chief makes, in its own process."""
    chief.request({"do": "capture", "path": str(path), "batches": 2 * arguments.steps}, START_SECONDS)
    links = Links(1 / wire_seconds([1], arguments.rate), workers=arguments.workers)
    return Forecaster(read_capture(path).dealt(arguments.servers), links, os.cpu_count())


def forecasts(forecaster: Forecaster, steps: int) -> dict[str, dict[str, float]]:
    """Of each mode the seconds of a step, and of staged ones their floor."""
    staged = {
        "staged": forecaster.staged(0, 0, steps),
        "hot": forecaster.staged(0, embedding_chief.HOT_BYTES, steps),
        "stale": forecaster.staged(1, 0, steps),
    }
    return {
        "stock": {"forecast_seconds": forecaster.stock()},
        "unique": {"forecast_seconds": forecaster.unique()},
        **{
            mode: {"forecast_seconds": way.seconds, "floor_seconds": way.floor}
            for mode, way in staged.items()
        },
    }


def against_forecasts(
    modes: dict[str, dict[str, Any]], foretold: dict[str, dict[str, float]]
) -> dict[str, dict[str, Any]]:
    """What was measured of each mode, over its floor, too."""
    found = {mode: own | foretold[mode] for mode, own in modes.items()}
    for own in found.values():
        if "floor_seconds" in own:
            own["over_floor"] = own["median_seconds"] / own["floor_seconds"]
    return found


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    hosts = hosts_of(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        network = stack.enter_context(open_network(sorted({*hosts["ps"], *hosts["worker"]}), arguments.rate))
        tasks = stack.enter_context(Tasks(network, directory))
        cluster = {
            job: [f"{network.address(host)}:{network.free_ports(host, 1)[0]}" for host in own]
            for job, own in hosts.items()
        }
        places = [(job, task, host) for job in ("ps", "worker") for task, host in enumerate(hosts[job])]
        for job, task, host in places:
            server = tasks.start(f"{job}{task}", host, server_task.MODULE, ENVIRONMENT)
            server.send({"cluster": cluster, "job": job, "task": task, "enforcer": None, "control": None})
            server.receive(START_SECONDS)
        chief = tasks.start("chief", hosts["chief"][0], embedding_chief.MODULE, ENVIRONMENT)
        settings = {key: getattr(arguments, key) for key in ("model", "most_rows", "width", "batch", "steps")}
        chief.request({"do": "start", "cluster": cluster} | settings, START_SECONDS)

        def block(mode: str) -> list[float]:
            is_staged = mode in embedding_chief.STAGED
            count = arguments.workers * (arguments.calls * arguments.steps if is_staged else SINGLE_STEPS)
            asked = {"do": "run", "mode": mode, "batches": count}
            return chief.request(asked, START_SECONDS + count * STEP_SECONDS)["seconds"]

        forecaster = forecaster_of(chief, directory / "capture.json", arguments)
        modes = {mode: lambda mode=mode: block(mode) for mode in embedding_chief.MODES}
        blocks = {m: own[1:] for m, own in run_interleaved(modes, 1 + arguments.repeats).items()}
        facts: dict[str, Any] = chief.request({"do": "compare"}, START_SECONDS)
        wire = forecaster.wire_seconds / arguments.workers
        return {
            "settings": vars(arguments),
            "cores": os.cpu_count(),
            **facts,
            "wire_seconds_each_way": wire,
            "compute_seconds": forecaster.compute_seconds,
            "modes": against_forecasts(
                figures(blocks, "stock", wire), forecasts(forecaster, arguments.steps)
            ),
            "load": os.getloadavg(),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=sorted(MODELS), default="dlrm")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each host")
    parser.add_argument("--most-rows", type=int, default=100_000, help="of a table")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=16, help="of a staged call")
    parser.add_argument("--calls", type=int, default=1, help="staged ones of each worker in a block")
    parser.add_argument("--repeats", type=int, default=4)
    print(json.dumps(measure(parser.parse_args()), indent=1))
