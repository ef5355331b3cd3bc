"""Does the simulator foretell what each policy's order takes? Inference on a rate-limited link, one worker.

One job is captured once; each policy's plan is simulated, then installed and measured, all of them interleaved.

    tools/bench/transfers/policies.py                                        VGG16-like, 128 pixels, 1 Gbit/s
    tools/bench/transfers/policies.py --model ResNet50 --image 64 --servers 2
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.bundle.bundle import load_bundle
from tfwave.demo.cluster import DemoCluster, DemoJob, demo_cluster
from tfwave.demo.model import Replicas
from tfwave.demo.networks import VGG16_LIKE
from tfwave.plan.plan import Plan
from tfwave.planner.captured import plan_bundle
from tools.bench.interleaved import Blocks, run_interleaved

UNORDERED = "unordered"
POLICIES = {
    "tac": ("tac", 0),
    "tic": ("tic", 0),
    "reverse": ("reverse", 0),
    "random 0": ("random", 0),
    "random 1": ("random", 1),
}
APART = 0.02
"""Of two policies whose medians are further apart the slower one must be foretold."""


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    replicas = Replicas(arguments.model, arguments.image, arguments.batch)
    job = DemoJob(arguments.servers, 1, arguments.rate, replicas)
    with tempfile.TemporaryDirectory(dir="/tmp") as name, demo_cluster(job, Path(name)) as cluster:
        bundle = Path(name, "bundle")
        cluster.capture(bundle, steps=5, warmup=2)
        captured = load_bundle(bundle)
        plans = {
            label: plan_bundle(captured, policy, seed=seed) for label, (policy, seed) in POLICIES.items()
        }
        forecast = {UNORDERED: plans["tac"].predicted.unordered_seconds}
        forecast |= {label: plan.predicted.ordered_seconds for label, plan in plans.items()}
        blocks = run_interleaved(
            {
                label: lambda p=plan: _block(cluster, p, arguments.measured)
                for label, plan in {UNORDERED: None, **plans}.items()
            },
            arguments.repeats,
        )
    return {"settings": vars(arguments), "load": os.getloadavg(), **against(forecast, blocks)}


def against(forecast: dict[str, float], blocks: Blocks) -> dict[str, object]:
    """Forecast and measured seconds by mode, and the pairs of modes whose ranks were foretold."""
    medians = {
        mode: statistics.median(t for block in of_mode for t in block) for mode, of_mode in blocks.items()
    }
    pairs = [
        (one, other)
        for one, other in itertools.combinations(medians, 2)
        if abs(medians[one] / medians[other] - 1) > APART
    ]
    wrong = [
        f"{one} and {other}"
        for one, other in pairs
        if (medians[one] < medians[other]) != (forecast[one] < forecast[other])
    ]
    return {
        "modes": {
            mode: {
                "forecast_seconds": forecast[mode],
                "median_seconds": seconds,
                "stdev_seconds": statistics.stdev(t for block in blocks[mode] for t in block),
                "error": forecast[mode] / seconds - 1,
            }
            for mode, seconds in medians.items()
        },
        "pairs_apart": len(pairs),
        "pairs_foretold_wrongly": wrong,
    }


def _block(cluster: DemoCluster, plan: Plan | None, steps: int) -> list[float]:
    if plan is not None:
        cluster.install(plan)
    cluster.order(plan is not None)
    return [workers[0] for workers in cluster.run(steps)[0]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rate", type=float, default=1e9, help="bits per second of each host")
    add("--model", default=VGG16_LIKE, help="or one of tf_keras.applications")
    add("--image", type=int, default=128)
    add("--batch", type=int, default=16)
    add("--servers", type=int, default=1)
    add("--measured", type=int, default=6, help="steps of a block")
    add("--repeats", type=int, default=4)
    return parser


if __name__ == "__main__":
    print(json.dumps(measure(_parser().parse_args()), indent=1))
