"""Training steps that overlap, against one step a call on stock servers: real servers, rate-limited links.

Two jobs with networks of their own, of the same rate, run in turn, so both see the same machine. The overlapped job
is traced and ordered with one step a call; then it is rewritten as advised, traced again, planned, and ordered in
both directions. What was forecast stands beside what came of it: `advice` of one step's capture, before the
rewrite, and `forecast` of the rewritten step's, for its plan.

    tools/bench/transfers/overlap.py                            VGG16-like, 63 MB, 1 Gbit/s
    tools/bench/transfers/overlap.py --steps 8 --steps 16       with so many steps a call, whatever is advised
    tools/bench/transfers/overlap.py --first-matrix --steps 4   101 MB with one matrix of 38 MB
    tools/bench/transfers/overlap.py --model ResNet50 --image 64 --workers 2 --servers 2 --sync
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo import server_task
from tfwave.demo.network import open_network
from tfwave.demo.networks import VGG16_LIKE
from tfwave.demo.processes import Task, Tasks
from tfwave.order.bounds import flow_shop_floor
from tfwave.plan.io import load_plan
from tfwave.runtime.control.client import ControlClient
from tools.bench.interleaved import (
    Blocks,
    against_floor,
    figures,
    forecast_against,
    run_interleaved,
    wire_seconds,
)
from tools.bench.transfers import overlap_chief

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 600.0
CALL_SECONDS = 120.0
JOBS = {"ps": "servers", "worker": "workers"}
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": str(ROOT)}


@dataclass
class Job:
    """A running job: its workers that have a session, the controls of its tasks, and the steps of a call."""

    workers: list[Task]
    controls: list[ControlClient]
    directory: Path
    steps: int = 1

    def ask(self, seconds: float, **request: object) -> list[dict[str, Any]]:
        """Ask all workers at once."""
        return self.ask_each(seconds, [request] * len(self.workers))

    def ask_each(self, seconds: float, requests: Sequence[dict[str, object]]) -> list[dict[str, Any]]:
        """Ask each worker its own, all at once."""
        for worker, request in zip(self.workers, requests, strict=True):
            worker.send(request)
        return [
            _checked(request["do"], worker.receive(seconds))
            for worker, request in zip(self.workers, requests, strict=True)
        ]

    def run(self, steps: int) -> list[float]:
        """Seconds a step, the mean of workers that run by themselves; at least one call."""
        answers = self.ask(CALL_SECONDS * steps, do="run", calls=max(1, steps // self.steps))
        return [fmean(of_step) for of_step in zip(*(a["seconds"] for a in answers), strict=True)]

    def rewrite(self, steps: int | None, block_bytes: int | None) -> dict[str, Any]:
        """Let steps overlap."""
        answers = self.ask(START_SECONDS, do="rewrite", steps=steps, block_bytes=block_bytes)
        self.steps = answers[0]["chosen"]["steps"]
        return answers[0]

    def order(self) -> dict[str, Any]:
        """Trace all workers at once, so that each sees what the others do to the links, plan and install."""
        out = [self.directory / f"steps{self.steps}-{i}" for i in range(len(self.workers))]
        for own in out:
            own.mkdir()
        answers = self.ask_each(START_SECONDS, [{"do": "plan", "out": str(own)} for own in out])
        plans = [load_plan(own / "plan.pb") for own in out]
        plan = replace(plans[0], orders=tuple(order for p in plans for order in p.orders))
        for control in self.controls:
            control.install(plan)
        return answers[0]


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        jobs = {
            name: _start(stack, directory / name, name == "overlapped", arguments)
            for name in ("stock", "overlapped")
        }
        single = _compare_orders(jobs, arguments)
        several = arguments.steps or [None] * (single["advised"]["steps"] > 1)
        return {
            "settings": vars(arguments),
            "cores": os.cpu_count(),
            "one_step_a_call": single,
            "results": [
                _compare(jobs, single["advised"]["single_seconds"], steps, arguments) for steps in several
            ],
        }


def _compare_orders(jobs: dict[str, Job], arguments: argparse.Namespace) -> dict[str, Any]:
    """One step a call, ordered, against stock: what a plan for what runs anyway gives."""
    answer = jobs["overlapped"].order()
    blocks = _blocks(jobs, "ordered", arguments)
    expected = answer["predicted"]
    return {
        **answer,
        "modes": figures(blocks, "stock", 2 * _wire_seconds(answer, arguments)),
        "forecast": forecast_against(
            blocks, "ordered", expected["unordered_seconds"], answer["ordered_seconds"]
        ),
    }


def _compare(
    jobs: dict[str, Job], captured: float, steps: int | None, arguments: argparse.Namespace
) -> dict[str, object]:
    """Overlapped against stock; what was forecast counts from the step that was `captured`, in seconds."""
    overlapped = jobs["overlapped"]
    chosen = overlapped.rewrite(steps, arguments.block_bytes)
    answer = overlapped.order()
    same = arguments.workers == 1 or arguments.sync
    calls = -(-arguments.check // overlapped.steps)
    equal = _equal(jobs, calls * overlapped.steps) if same else None
    blocks = _blocks(jobs, "overlapped", arguments)
    pull, largest = _wire_seconds(answer, arguments), wire_seconds([answer["largest"]], arguments.rate)
    seconds = answer["ordered_seconds"] / overlapped.steps
    return {
        **chosen,
        **answer,
        **against_floor(blocks, flow_shop_floor(overlapped.steps, pull, largest)),
        "forecast": forecast_against(blocks, "overlapped", captured, seconds),
        "advice": forecast_against(blocks, "overlapped", captured, chosen["chosen"]["seconds"]),
        "equal_losses_and_weights": equal,
        "load": os.getloadavg(),
    }


def _blocks(jobs: dict[str, Job], mode: str, arguments: argparse.Namespace) -> Blocks:
    running = {"stock": jobs["stock"], mode: jobs["overlapped"]}
    return run_interleaved(
        {name: lambda j=job: j.run(max(arguments.measured, j.steps)) for name, job in running.items()},
        arguments.repeats,
    )


def _wire_seconds(answer: dict[str, Any], arguments: argparse.Namespace) -> float:
    """What all pulls of a step, or all pushes, take on the busiest card: a worker's, or a server's."""
    busiest = max(answer["bytes"], arguments.workers * answer["server_bytes"])
    return wire_seconds([busiest], arguments.rate)


def _checked(what: object, answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise SystemExit(f"{what}: {answer['error']}")
    return answer


def _equal(jobs: dict[str, Job], steps: int) -> bool:
    """Whether all losses, and the weights after so many steps, are the same bits."""
    seen: list[object] = []
    for job in jobs.values():
        job.workers[0].request({"do": "reset"}, START_SECONDS)
        losses = job.ask(CALL_SECONDS * steps, do="run", calls=steps // job.steps)[0]["losses"]
        weights = job.workers[0].request({"do": "weights"}, START_SECONDS)["digest"]
        seen.append((losses, weights))
    assert len(set(seen[0][0])) > 1  # type: ignore[index]
    return seen[0] == seen[1]


def _start(stack: ExitStack, directory: Path, hooked: bool, arguments: argparse.Namespace) -> Job:
    directory.mkdir()
    hosts = {job: [f"{job}{i}" for i in range(getattr(arguments, key))] for job, key in JOBS.items()}
    network = stack.enter_context(open_network([*hosts["ps"], *hosts["worker"]], arguments.rate))
    tasks = stack.enter_context(Tasks(network, directory))
    cluster = {job: network.free_addresses(of_job) for job, of_job in hosts.items()}
    chiefs = hosts["worker"][:1] if arguments.sync else hosts["worker"]
    servers = [("ps", i, host) for i, host in enumerate(hosts["ps"])]
    servers += [("worker", i, host) for i, host in enumerate(hosts["worker"]) if host not in chiefs]
    started = [start_server(tasks, cluster, directory, job, i, host, hooked) for job, i, host in servers]
    workers = [tasks.start(host, host, overlap_chief.MODULE, ENVIRONMENT) for host in chiefs]
    controls: list[str] = []
    for i, worker in enumerate(workers):
        control = server_task.control_address(directory, "worker", i) if hooked else None
        own = list(range(arguments.workers)) if arguments.sync else [i]
        request = {"do": "start", "cluster": cluster, "task": i, "workers": own, "control": control}
        request |= {key: getattr(arguments, key) for key in overlap_chief.MODEL}
        worker.send(request)
        controls += [control] if control else []
    for task in (*workers, *started):
        controls += filter(None, [task.receive(START_SECONDS).get("control")])
    workers[0].request({"do": "reset"}, START_SECONDS)
    return Job(workers, [stack.enter_context(ControlClient(c)) for c in controls], directory)


def start_server(  # noqa: PLR0913, PLR0917
    tasks: Tasks,
    cluster: dict[str, list[str]],
    directory: Path,
    job: str,
    index: int,
    host: str,
    hooked: bool,
) -> Task:
    task = tasks.start(host, host, server_task.MODULE, ENVIRONMENT)
    task.send(server_task.request_of(cluster, (job, index), directory, "hook" if hooked else None))
    return task


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rate", type=float, default=1e9, help="bits per second of each host")
    add("--model", default=VGG16_LIKE, help="or one of tf_keras.applications")
    add("--image", type=int, default=32)
    add("--batch", type=int, default=16)
    add("--first-matrix", action="store_true", help="a dense layer before the model: 38 MB at 32 pixels")
    add("--servers", type=int, default=1)
    add("--workers", type=int, default=1)
    add("--sync", action="store_true", help="all workers' gradients in one step; else each worker by itself")
    add("--steps", type=int, action="append", help="a call, instead of what is advised; may be repeated")
    add("--block-bytes", type=int, help="instead of what is advised; 0: tensors stay whole")
    add("--check", type=int, default=24, help="steps whose losses and weights must be equal")
    add("--measured", type=int, default=8, help="steps of a block, at least one call")
    add("--repeats", type=int, default=4)
    return parser


if __name__ == "__main__":
    print(json.dumps(measure(_parser().parse_args()), indent=1))
