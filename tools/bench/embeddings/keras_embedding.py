"""`tfwave.keras.fit` of a Keras 3 model with a large table on a server, with `gather_on_server` and without.

Two models of the same seed on one job, trained in turn on the same batches: a block is a fit of its own, whose
first steps, with its trace, are not counted. Afterwards losses and weights are compared bit for bit; so that they
can be, the server adds the gradients of a repeated id in their order (TF_DETERMINISTIC_OPS), which TensorFlow else
leaves to its threads.

    tools/bench/embeddings/keras_embedding.py                102 MB, 26 ids of 1024 samples, 1 Gbit/s
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
from tfwave.demo.processes import Tasks
from tools.bench.embeddings import keras_embedding_chief
from tools.bench.interleaved import figures, run_interleaved, wire_seconds

ROOT = Path(__file__).resolve().parents[3]
HOSTS = {"ps": "server0", "worker": "worker0", "chief": "chief0"}
START_SECONDS = 600.0
STEP_SECONDS = 60.0
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_DETERMINISTIC_OPS": "1",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONPATH": str(ROOT),
}


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        network = stack.enter_context(open_network(list(HOSTS.values()), arguments.rate))
        tasks = stack.enter_context(Tasks(network, directory))
        cluster = {job: network.free_addresses([host]) for job, host in HOSTS.items()}
        for job in ("ps", "worker"):
            server = tasks.start(HOSTS[job], HOSTS[job], server_task.MODULE, ENVIRONMENT)
            server.send(server_task.request_of(cluster, (job, 0), directory, None))
            server.receive(START_SECONDS)
        chief = tasks.start("chief", HOSTS["chief"], keras_embedding_chief.MODULE, ENVIRONMENT)
        request: dict[str, Any] = {"do": "start", "cluster": cluster}
        settings = {key: getattr(arguments, key) for key in ("rows", "width", "batch", "optimizer")}
        chief.request(request | settings, START_SECONDS)
        count = arguments.measured

        def block(mode: str) -> list[float]:
            asked = {"do": "run", "mode": mode, "steps": count}
            return chief.request(asked, START_SECONDS + count * STEP_SECONDS)["seconds"]

        blocks = run_interleaved({m: lambda m=m: block(m) for m in ("stock", "gathered")}, arguments.repeats)
        equal = chief.request({"do": "compare"}, START_SECONDS)
        wire = wire_seconds([equal["row_bytes"]], arguments.rate)
        return {
            "settings": vars(arguments),
            "cores": os.cpu_count(),
            **equal,
            "modes": figures(blocks, "stock", wire),
            "load": os.getloadavg(),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each host")
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--optimizer", default="SGD", help="SGD or Adagrad")
    parser.add_argument("--measured", type=int, default=8, help="steps of a block")
    parser.add_argument("--repeats", type=int, default=4)
    print(json.dumps(measure(parser.parse_args()), indent=1))
