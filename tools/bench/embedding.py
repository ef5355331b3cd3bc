"""Steps of a DLRM-like model whose embedding tables lie on a parameter server, at a set rate of the network.

Four jobs of the same seed, trained in turn on the same batches, one after the other in interleaved blocks:

    stock       each table looked up by itself, repeated ids and all
    unique      `tfwave.embedding`, a step a call: each row once, all tables in one tensor
    staged      several steps a call, exact
    stale       the same, with rows one update old

The first block of each, with its trace, is not counted. Afterwards losses are compared: those of the first three
must be equal bit for bit.

    tools/bench/embedding.py                26 tables, 2048 samples, 64 wide, 1 Gbit/s
"""

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tfwave.demo import server_task
from tfwave.demo.network import open_network
from tfwave.demo.processes import Tasks
from tools.bench import embedding_chief
from tools.bench.interleaved import figures, run_interleaved, wire_seconds

ROOT = Path(__file__).resolve().parents[2]
HOSTS = {"ps": "server0", "worker": "worker0", "chief": "worker0"}
"""The chief deals batches out to a worker on its own host."""
START_SECONDS = 600.0
STEP_SECONDS = 60.0
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        network = stack.enter_context(open_network(sorted(set(HOSTS.values())), arguments.rate))
        tasks = stack.enter_context(Tasks(network, directory))
        cluster = {
            job: [f"{network.address(host)}:{network.free_ports(host, 1)[0]}"] for job, host in HOSTS.items()
        }
        for job in ("ps", "worker"):
            server = tasks.start(job, HOSTS[job], server_task.MODULE, ENVIRONMENT)
            server.send({"cluster": cluster, "job": job, "task": 0, "enforcer": None, "control": None})
            server.receive(START_SECONDS)
        chief = tasks.start("chief", HOSTS["chief"], embedding_chief.MODULE, ENVIRONMENT)
        settings = {key: getattr(arguments, key) for key in ("most_rows", "width", "batch", "steps")}
        chief.request({"do": "start", "cluster": cluster} | settings, START_SECONDS)
        count = arguments.calls * arguments.steps

        def block(mode: str) -> list[float]:
            asked = {"do": "run", "mode": mode, "batches": count}
            return chief.request(asked, START_SECONDS + count * STEP_SECONDS)["seconds"]

        modes = {mode: lambda mode=mode: block(mode) for mode in embedding_chief.MODES}
        blocks = {m: own[1:] for m, own in run_interleaved(modes, 1 + arguments.repeats).items()}
        facts: dict[str, Any] = chief.request({"do": "compare"}, START_SECONDS)
        wire = wire_seconds([facts["row_bytes"]], arguments.rate)
        return {
            "settings": vars(arguments),
            "cores": os.cpu_count(),
            **facts,
            "wire_seconds_each_way": wire,
            "modes": figures(blocks, "stock", wire),
            "load": os.getloadavg(),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each host")
    parser.add_argument("--most-rows", type=int, default=100_000, help="of a table")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=8, help="of a staged call")
    parser.add_argument("--calls", type=int, default=2, help="staged calls of a block")
    parser.add_argument("--repeats", type=int, default=4)
    print(json.dumps(measure(parser.parse_args()), indent=1))
