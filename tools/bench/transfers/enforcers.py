"""What each way of keeping an order costs: VGG16-like inference on a 1 Gbit/s link, one server, one worker.

python tools/bench/transfers/enforcers.py [--json] [--repeats 5] [--steps 6] [--batch 16] [--windows 1 2 3 4 8]

The order is that of `tac`, planned from a capture of the job. Modes run interleaved (see `interleaved`). Inversions
are of the arrivals at the worker that TensorFlow traced, in steps of their own: the share of pairs out of order.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.demo.cluster import START_SECONDS, DemoCluster, DemoJob, demo_cluster
from tfwave.demo.model import Replicas
from tfwave.demo.networks import VGG16_LIKE
from tfwave.plan.io import save_plan
from tfwave.plan.plan import Plan
from tfwave.planner.captured import plan_bundle
from tfwave.report.conformance import inversions
from tools.bench.interleaved import figures, run_interleaved, wire_seconds
from tools.bench.transfers import enforcers_task

BITS_PER_SECOND = 1e9
TRACED_STEPS = 8


@dataclass(frozen=True)
class Mode:
    """A way to run the job: with the hook's order on or off, and rewritten or not."""

    hook: bool = False
    passes: str = ""


@dataclass(frozen=True)
class Bench:
    """A running job and the plan of its order."""

    cluster: DemoCluster
    directory: Path
    plan: Plan

    def switch(self, mode: Mode) -> None:
        self.cluster.order(mode.hook)
        self.cluster.ask(START_SECONDS, do="choose", passes=mode.passes, plan=str(self.directory / "plan.pb"))

    def seconds(self, mode: Mode, steps: int) -> tuple[list[float], str]:
        """Of each step, and a digest of what came out."""
        self.switch(mode)
        times, digest = self.cluster.run(steps)
        return [workers[0] for workers in times], digest

    def inverted(self, mode: Mode) -> float:
        """The median share of pairs that arrive out of order; its first step is not counted."""
        self.switch(mode)
        out = Path(tempfile.mkdtemp(dir=self.directory)) / "bundle"
        self.cluster.capture(out, steps=TRACED_STEPS, warmup=1)
        orders = arrivals(load_bundle(out), self.plan)
        return statistics.median(inversions(ranks) / math.comb(len(ranks), 2) for ranks in orders)


def arrivals(bundle: Bundle, plan: Plan) -> list[list[int]]:
    """The planned ranks in the order of their arrival, of each traced step; also of a rewritten job."""
    rank_of = {(t.key.node, t.key.port): t.rank for t in plan.transfers}
    rank_of |= {(f"{t.key.node}/ack_hold_{t.key.port}", 0): t.rank for t in plan.transfers}
    edges = {t.edge: rank_of.get((t.key.node, t.key.port)) for t in bundle.transfers.data}
    steps = [[edges.get(record.edge) for record in step] for step in bundle.records]
    return [[rank for rank in step if rank is not None] for step in steps]


@contextmanager
def running(directory: Path, batch: int) -> Generator[Bench]:
    job = DemoJob(1, 1, BITS_PER_SECOND, Replicas(VGG16_LIKE, image=128, batch=batch))
    with demo_cluster(job, directory, enforcers_task.MODULE) as cluster:
        cluster.capture(directory / "bundle", steps=5, warmup=2)
        plan = plan_bundle(load_bundle(directory / "bundle"))
        save_plan(plan, directory / "plan.pb")
        cluster.install(plan)
        yield Bench(cluster, directory, plan)


def measure(repeats: int, steps: int, batch: int, windows: list[int]) -> dict[str, Any]:
    load = os.getloadavg()[0]
    modes = {"unordered": Mode(), "hook": Mode(hook=True)}
    modes |= {f"ack_window, W={w}": Mode(passes=f"recv_priority,ack_window{{window={w}}}") for w in windows}
    with tempfile.TemporaryDirectory(dir="/tmp") as name, running(Path(name), batch) as bench:
        inverted = {label: bench.inverted(mode) for label, mode in modes.items()}
        digests: set[str] = set()

        def block(mode: Mode) -> list[float]:
            times, digest = bench.seconds(mode, steps)
            digests.add(digest)
            return times

        blocks = run_interleaved({label: lambda m=mode: block(m) for label, mode in modes.items()}, repeats)
        sizes = [t.bytes for t in bench.plan.transfers]
        wire = wire_seconds(sizes, BITS_PER_SECOND)
        found = figures(blocks, "hook", wire)
        return {
            "network": bench.cluster.network.description,
            "load_average": [load, os.getloadavg()[0]],
            "batch": batch,
            "transfers": len(sizes),
            "bytes": sum(sizes),
            "wire_seconds": wire,
            "outputs_equal": len(digests) == 1,
            "modes": {label: found[label] | {"inverted_share": inverted[label]} for label in modes},
        }


def table(result: dict[str, Any]) -> str:
    before, after = result["load_average"]
    lines = [
        f"{result['transfers']} transfers, {result['bytes'] / 1e6:.1f} MB, batch {result['batch']}, "
        f"{result['network']}, wire {result['wire_seconds'] * 1e3:.0f} ms",
        f"load average {before:.1f} before, {after:.1f} after; "
        f"outputs {'equal' if result['outputs_equal'] else 'DIFFER'}",
        f"{'mode':18}{'steps':>6}{'median ms':>11}{'stdev ms':>10}{'x wire':>8}{'x hook':>8}{'inverted %':>12}",
    ]
    for mode, of_mode in result["modes"].items():
        lines.append(
            f"{mode:18}{of_mode['steps']:6}{of_mode['median_seconds'] * 1e3:11.0f}"
            f"{of_mode['stdev_seconds'] * 1e3:10.0f}{of_mode['over_wire']:8.3f}"
            f"{of_mode['paired_ratio_to_hook']:8.3f}{of_mode['inverted_share'] * 100:12.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="all figures, as JSON")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--windows", type=int, nargs="*", default=[1, 2, 3, 4, 8])
    arguments = parser.parse_args()
    result = measure(arguments.repeats, arguments.steps, arguments.batch, arguments.windows)
    print(json.dumps(result, indent=1) if arguments.json else table(result))
