"""What wrapping a strategy costs where order cannot gain, and what it gains on a slow link.

Two jobs with networks of their own, of the same rate: stock servers with a stock strategy, tfwave's servers with a
wrapped one. Blocks of steps run in turn, so both see the same machine. One server, one worker, one step at a time.

    tools/bench/transfers/wrapped.py                                  VGG16-like inference, 79 MB a step, 1 Gbit/s
    tools/bench/transfers/wrapped.py --rate 40e9 --image 64 --train   where the link is no bottleneck
    tools/bench/transfers/wrapped.py --rate 40e9 --image 64 --batch 4 --model MobileNetV2   small tensors
"""

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo import server_task
from tfwave.demo.network import open_network
from tfwave.demo.networks import VGG16_LIKE
from tfwave.demo.processes import Task, Tasks
from tools.bench.interleaved import figures, run_interleaved
from tools.bench.transfers import wrapped_chief

ROOT = Path(__file__).resolve().parents[3]
HOSTS = {"ps": "server0", "worker": "worker0", "chief": "chief0"}
START_SECONDS = 300.0
STEP_SECONDS = 60.0
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": str(ROOT)}


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        chiefs = {
            name: _start(stack, directory / name, name == "wrapped", arguments)
            for name in ("stock", "wrapped")
        }
        losses: dict[str, dict[int, str]] = {name: {} for name in chiefs}

        def block(name: str) -> list[float]:
            answer = chiefs[name].request(
                {"do": "run", "steps": arguments.steps}, arguments.steps * STEP_SECONDS
            )
            losses[name].update(enumerate(answer["losses"], answer["first"]))
            return answer["seconds"]

        blocks = run_interleaved({name: lambda n=name: block(n) for name in chiefs}, arguments.repeats)
        found = chiefs["wrapped"].request({"do": "figures"}, STEP_SECONDS)
        return {
            "settings": vars(arguments),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "modes": figures(blocks, "stock", 1.0),
            "schedule": found,
            "losses_equal": _equal(losses["stock"], losses["wrapped"]),
        }


def _equal(stock: dict[int, str], wrapped: dict[int, str]) -> bool:
    """By the numbers of the steps: the wrapped job makes a few more until it is ordered."""
    both = stock.keys() & wrapped.keys()
    assert both
    return all(stock[number] == wrapped[number] for number in both)


def _start(stack: ExitStack, directory: Path, wrapped: bool, arguments: argparse.Namespace) -> Task:
    directory.mkdir()
    network = stack.enter_context(open_network(list(HOSTS.values()), arguments.rate))
    tasks = stack.enter_context(Tasks(network, directory))
    cluster = {job: network.free_addresses([host]) for job, host in HOSTS.items()}
    enforcers = {"ps": arguments.enforcer, "worker": "hook"} if wrapped else {"ps": None, "worker": None}
    servers = {job: _server(tasks, cluster, job, enforcers[job], directory) for job in ("ps", "worker")}
    control = {job: [server.receive(START_SECONDS)["control"]] for job, server in servers.items()}
    chief = tasks.start("chief", HOSTS["chief"], wrapped_chief.MODULE, ENVIRONMENT)
    keys = ("enforcer", "model", "image", "batch", "train")
    chief.request(
        {
            "do": "start",
            "cluster": cluster,
            "control": control if wrapped else None,
            **{key: getattr(arguments, key) for key in keys},
        },
        START_SECONDS,
    )
    return chief


def _server(
    tasks: Tasks, cluster: dict[str, list[str]], job: str, enforcer: str | None, directory: Path
) -> Task:
    task = tasks.start(job, HOSTS[job], server_task.MODULE, ENVIRONMENT)
    task.send(server_task.request_of(cluster, (job, 0), directory, enforcer))
    return task


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each host")
    parser.add_argument("--enforcer", choices=("hook", "proxy"), default="hook")
    parser.add_argument("--model", default=VGG16_LIKE, help="or one of tf_keras.applications")
    parser.add_argument("--image", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    print(json.dumps(measure(parser.parse_args()), indent=1))
