"""Training steps that overlap under a wrapped strategy, against one step a call of a stock one on stock servers.

Two jobs with networks of their own, of the same rate, run in turn, so both see the same machine. One server, one
worker, a chief beside them; a VGG16-like model whose kernels are matrices.

    tools/bench/transfers/strategy.py                         63 MB, 1 Gbit/s, as many steps a call as advised
    tools/bench/transfers/strategy.py --steps 8 --steps 16
    tools/bench/transfers/strategy.py --first-matrix --steps 4            101 MB with one matrix of 38 MB
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

from tfwave.demo.network import open_network
from tfwave.demo.processes import Task, Tasks
from tfwave.order.bounds import flow_shop_floor
from tools.bench.interleaved import against_floor, run_interleaved, wire_seconds
from tools.bench.transfers import strategy_chief
from tools.bench.transfers.overlap import CALL_SECONDS, ENVIRONMENT, START_SECONDS, start_server

HOSTS = {"ps": "server0", "worker": "worker0", "chief": "chief0"}


def measure(arguments: argparse.Namespace, steps: int | None) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        chiefs = {
            "stock": _start(stack, directory / "stock", None, arguments),
            "overlapped": _start(stack, directory / "overlapped", {"steps": steps}, arguments),
        }
        settled = _ask(chiefs["overlapped"], START_SECONDS, do="settle")
        count = settled["steps"]
        equal = _equal(chiefs, -(-arguments.check // count) * count)
        measured = max(arguments.measured // count, 1) * count
        modes = {
            name: lambda c=chief: _ask(c, CALL_SECONDS * measured, do="run", steps=measured)["seconds"]
            for name, chief in chiefs.items()
        }
        blocks = run_interleaved(modes, arguments.repeats)
        pull, largest = (wire_seconds([settled[key]], arguments.rate) for key in ("bytes", "largest"))
        floor = flow_shop_floor(count, pull, largest)
        return {
            **settled,
            **against_floor(blocks, floor),
            "equal_losses_and_weights": equal,
            "load": os.getloadavg(),
            "schedule": _ask(chiefs["overlapped"], CALL_SECONDS, do="figures"),
        }


def _ask(chief: Task, seconds: float, **request: object) -> dict[str, Any]:
    return chief.request(request, seconds)


def _equal(chiefs: dict[str, Task], steps: int) -> bool:
    """Whether all losses, and the weights after so many steps, are the same bits."""
    seen: list[tuple[object, object]] = []
    for chief in chiefs.values():
        _ask(chief, START_SECONDS, do="reset")
        losses = _ask(chief, CALL_SECONDS * steps, do="run", steps=steps)["losses"]
        assert len(set(losses)) > 1, "the steps move nothing"
        seen.append((losses, _ask(chief, START_SECONDS, do="weights")["digest"]))
    return seen[0] == seen[1]


def _start(
    stack: ExitStack, directory: Path, wrapped: dict[str, object] | None, arguments: argparse.Namespace
) -> Task:
    directory.mkdir()
    network = stack.enter_context(open_network(list(HOSTS.values()), arguments.rate))
    tasks = stack.enter_context(Tasks(network, directory))
    cluster = {job: network.free_addresses([host]) for job, host in HOSTS.items()}
    hooked = wrapped is not None
    servers = {
        job: start_server(tasks, cluster, directory, job, 0, HOSTS[job], hooked) for job in ("ps", "worker")
    }
    control = {job: [server.receive(START_SECONDS)["control"]] for job, server in servers.items()}
    chief = tasks.start("chief", HOSTS["chief"], strategy_chief.MODULE, ENVIRONMENT)
    request = {"do": "start", "cluster": cluster, "control": control if hooked else None, **(wrapped or {})}
    request |= {key: getattr(arguments, key) for key in ("image", "batch", "first_matrix")}
    chief.request(request, START_SECONDS)
    return chief


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rate", type=float, default=1e9, help="bits per second of each host")
    add("--image", type=int, default=32)
    add("--batch", type=int, default=16)
    add("--first-matrix", action="store_true", help="a dense layer before the model: 38 MB at 32 pixels")
    add("--steps", type=int, action="append", help="a call, instead of what is advised; may be repeated")
    add("--check", type=int, default=24, help="steps whose losses and weights must be equal")
    add("--measured", type=int, default=8, help="steps of a block, at least one call")
    add("--repeats", type=int, default=4)
    return parser


if __name__ == "__main__":
    parsed = _parser().parse_args()
    results = [measure(parsed, steps) for steps in parsed.steps or [None]]
    print(json.dumps({"settings": vars(parsed), "cores": os.cpu_count(), "results": results}, indent=1))
