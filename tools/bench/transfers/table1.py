"""A model of TicTac's Table 1, planned and measured as section 6 does: unordered, by TIC and by TAC, in turn.

The paper's cluster of CPUs has 32 cores a host and 1 Gbit/s; here all workers share this machine's cores, so the
batch is the paper's by that share of 32, for each worker. Throughput is the mean, straggler and E the most of a
step, medians beside them. E is of steps that are traced, in blocks of their own, each by its own times; R2 is of
the line that tells their times from E, and of the one that tells these over their own L, which leaves out what took
longer itself. The first two steps of a block are not counted.

    tools/bench/transfers/table1.py AlexNetV2                                inference, two workers, one server
    tools/bench/transfers/table1.py VGG16 --train
    tools/bench/transfers/table1.py InceptionV2 --workers 1 --traced 25      for R2, where order matters
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.demo.cluster import DemoCluster, DemoJob, demo_cluster
from tfwave.demo.model import Replicas
from tfwave.plan.plan import Plan
from tfwave.planner.captured import plan_bundle
from tfwave.report.conformance import HandOff, conformance
from tfwave.report.figures import step_figures
from tfwave.report.iterations import Iteration, explained, explained_normalized, traced_iterations
from tools.bench.interleaved import run_interleaved, wire_seconds

CLASSES = 1000
PAPER_CORES = 32
WARMUP_STEPS = 2
"""Of each block."""
UNORDERED = "unordered"
POLICIES = ("tic", "tac")


@dataclass(frozen=True)
class Row:
    """What Table 1 says, and the side of the images."""

    parameters: int
    mebibytes: float
    batch: int
    image: int = 224


TABLE = {
    "AlexNetV2": Row(16, 191.89, 512),
    "InceptionV1": Row(116, 25.24, 128),
    "InceptionV2": Row(141, 42.64, 128),
    "InceptionV3": Row(196, 103.54, 32, 299),
    "ResNet50": Row(108, 97.39, 32),
    "ResNet101": Row(210, 169.74, 64),
    "ResNet50V2": Row(125, 97.45, 32),
    "ResNet101V2": Row(244, 169.86, 32),
    "VGG16": Row(32, 527.79, 32),
    "VGG19": Row(38, 548.05, 32),
}


@dataclass
class Run:
    """A job under measurement: its plans by mode, and what was seen."""

    cluster: DemoCluster
    plans: Mapping[str, Plan | None]
    directory: Path
    hand_offs: dict[str, list[HandOff]]
    digests: set[str]

    def steps(self, mode: str, count: int) -> list[list[float]]:
        """Seconds of each worker in each step."""
        self._switch(mode)
        steps, digest = self.cluster.run(WARMUP_STEPS + count)
        self.hand_offs[mode] += self.cluster.hand_offs()
        self.digests.add(digest)
        return steps[WARMUP_STEPS:]

    def traced(self, mode: str, count: int) -> tuple[Iteration, ...]:
        """Steps by their own times."""
        self._switch(mode)
        out = Path(tempfile.mkdtemp(dir=self.directory)) / "bundle"
        self.cluster.capture(out, steps=count, warmup=WARMUP_STEPS)
        return traced_iterations(load_bundle(out))

    def _switch(self, mode: str) -> None:
        plan = self.plans[mode]
        if plan is not None:
            self.cluster.install(plan)
        self.cluster.order(plan is not None)


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    row = TABLE[arguments.model]
    batch = arguments.batch or max(
        1, round(row.batch * (os.cpu_count() or 1) / PAPER_CORES / arguments.workers)
    )
    replicas = Replicas(arguments.model, arguments.image or row.image, batch, CLASSES, arguments.train)
    job = DemoJob(arguments.servers, arguments.workers, arguments.rate, replicas)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        cluster = stack.enter_context(demo_cluster(job, directory))
        cluster.capture(directory / "bundle", steps=5, warmup=WARMUP_STEPS)
        bundle = load_bundle(directory / "bundle")
        planned = {policy: plan_bundle(bundle, policy) for policy in POLICIES}
        modes: dict[str, Plan | None] = {UNORDERED: None, **planned}
        run = Run(cluster, modes, directory, {mode: [] for mode in modes}, set())
        blocks = run_interleaved(
            {mode: lambda m=mode: run.steps(m, arguments.steps) for mode in modes}, arguments.repeats
        )
        traces = run_interleaved(
            {mode: lambda m=mode: run.traced(m, arguments.traced) for mode in modes}, arguments.repeats
        )
        return {
            "settings": vars(arguments) | {"batch": batch, "image": replicas.image},
            "load": os.getloadavg(),
            "network": cluster.network.description,
            "table_1": asdict(row),
            **about(bundle, planned, arguments.rate),
            **against(blocks, traces, run, batch * arguments.workers),
            "outputs_equal": None if arguments.train else len(run.digests) == 1,
        }


def about(bundle: Bundle, planned: Mapping[str, Plan], rate: float) -> dict[str, object]:
    """What was planned, and what it should give."""
    plan = planned["tac"]
    sizes = [t.bytes for order in plan.orders for t in order.transfers]
    return {
        "ops": len(bundle.view),
        "transfers": len(sizes),
        "bytes": sum(sizes),
        "wire_seconds": wire_seconds(sizes, rate),
        "predicted": {policy: asdict(plan.predicted) for policy, plan in planned.items()},
    }


def against(
    blocks: Mapping[str, Sequence[Any]], traces: Mapping[str, Sequence[Any]], run: Run, images: int
) -> dict[str, object]:
    """The figures by mode; `images` are those of a step."""
    steps = {mode: [step for block in of_mode for step in block] for mode, of_mode in blocks.items()}
    own = {mode: [i for block in of_mode for i in block] for mode, of_mode in traces.items()}
    every = [iteration for of_mode in own.values() for iteration in of_mode]
    means = {mode: statistics.fmean(max(step) for step in of_mode) for mode, of_mode in steps.items()}
    return {
        "explained": explained(every),
        "explained_normalized": explained_normalized(every),
        "modes": {
            mode: {
                "mean_seconds": means[mode],
                "images_per_second": images / means[mode],
                "gain": means[UNORDERED] / means[mode] - 1,
                **asdict(step_figures(steps[mode], own[mode])),
                "exact": conformance(run.hand_offs[mode]).exact,
                "step_seconds": steps[mode],
                "iterations": [
                    (i.seconds, i.bounds.upper_seconds, i.bounds.lower_seconds, i.efficiency)
                    for i in own[mode]
                ],
            }
            for mode in steps
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("model", choices=list(TABLE), metavar="MODEL", help=f"of {', '.join(TABLE)}")
    add("--train", action="store_true", help="replicas in step, SGD; else inference")
    add("--rate", type=float, default=1e9, help="bits per second of each host")
    add("--servers", type=int, default=1)
    add("--workers", type=int, default=2)
    add("--batch", type=int, help="of each worker, instead of the paper's by the share of its cores")
    add("--image", type=int, help="pixels a side, instead of what the model is made for")
    add("--steps", type=int, default=5, help="of a block, besides the first two")
    add("--traced", type=int, default=5, help="traced steps of a block, besides the first two")
    add("--repeats", type=int, default=2, help="blocks of each mode")
    return parser


if __name__ == "__main__":
    print(json.dumps(measure(_parser().parse_args()), indent=1))
