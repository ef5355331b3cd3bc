"""`tfwave.keras.fit` of a ConvNeXt-like Keras 3 model, against its stock step: real servers, slow links.

Two jobs with networks of their own, of the same rate, run in turn, so both see the same machine. Keras refuses
`fit` on parameter servers, so "stock" is its `train_step`, one a call of TensorFlow's coordinator. A step can take
no less than the flow shop of its transfers, and no less than what this machine's cores work for it.

    tools/bench/transfers/keras_fit.py                      59 MB, 1 Gbit/s
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo.network import open_network
from tfwave.demo.processes import Task, Tasks
from tfwave.order.bounds import flow_shop_floor
from tools.bench.interleaved import against_floor, run_interleaved, wire_seconds
from tools.bench.transfers import keras_fit_chief
from tools.bench.transfers.overlap import start_server

ROOT = Path(__file__).resolve().parents[3]
HOSTS = {"ps": "server0", "worker": "worker0", "chief": "chief0"}
START_SECONDS = 600.0
STEP_SECONDS = 60.0
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", "PYTHONPATH": str(ROOT)}


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        jobs = {
            name: _start(stack, directory / name, name == "overlapped", arguments)
            for name in ("stock", "overlapped")
        }
        chiefs = {name: tasks[-1] for name, tasks in jobs.items()}
        settled = chiefs["overlapped"].request({"do": "settle"}, START_SECONDS)
        count: int = settled["steps"]
        measured = max(arguments.measured // count, 1) * count
        worked: dict[str, list[float]] = {name: [] for name in chiefs}

        def block(name: str) -> list[float]:
            before = _worked(jobs[name])
            answer = chiefs[name].request({"do": "run", "steps": measured}, measured * STEP_SECONDS)
            worked[name].append((_worked(jobs[name]) - before) / measured)
            return answer["seconds"]

        blocks = run_interleaved({name: lambda n=name: block(n) for name in chiefs}, arguments.repeats)
        pull, largest = (wire_seconds([settled[key]], arguments.rate) for key in ("bytes", "largest"))
        cores = {name: statistics.median(of) / (os.cpu_count() or 1) for name, of in worked.items()}
        wire = flow_shop_floor(count, pull, largest)
        return {
            "settings": vars(arguments),
            "cores": os.cpu_count(),
            **settled,
            "wire_floor_seconds": wire,
            "cores_floor_seconds": cores,
            **against_floor(blocks, max(wire, cores["overlapped"])),
            "load": os.getloadavg(),
            "schedule": chiefs["overlapped"].request({"do": "figures"}, STEP_SECONDS),
        }


def _worked(tasks: Iterable[Task]) -> float:
    """Core seconds of some processes, the kernel's for them included; not what else the machine does."""
    stats = (Path(f"/proc/{task.pid}/stat").read_text().rpartition(")")[2].split() for task in tasks)
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def _start(stack: ExitStack, directory: Path, wrapped: bool, arguments: argparse.Namespace) -> list[Task]:
    """The job's tasks, the chief last."""
    directory.mkdir()
    network = stack.enter_context(open_network(list(HOSTS.values()), arguments.rate))
    tasks = stack.enter_context(Tasks(network, directory))
    cluster = {job: network.free_addresses([host]) for job, host in HOSTS.items()}
    servers = {
        job: start_server(tasks, cluster, directory, job, 0, HOSTS[job], wrapped) for job in ("ps", "worker")
    }
    control = {job: [server.receive(START_SECONDS)["control"]] for job, server in servers.items()}
    chief = tasks.start("chief", HOSTS["chief"], keras_fit_chief.MODULE, ENVIRONMENT)
    request: dict[str, Any] = {"do": "start", "cluster": cluster, "control": control if wrapped else None}
    chief.request(request | {key: getattr(arguments, key) for key in ("image", "batch")}, START_SECONDS)
    return [*servers.values(), chief]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each host")
    parser.add_argument("--image", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--measured", type=int, default=16, help="steps of a block, at least one call")
    parser.add_argument("--repeats", type=int, default=4)
    print(json.dumps(measure(parser.parse_args()), indent=1))
