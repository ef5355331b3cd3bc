"""What ordering gives a VGG16-like inference job on a 1 Gbit/s link, and what an idle hook costs.

One server, one worker, about 79 MB of parameters a step. Modes run interleaved, one block of each a repeat, the
order of the modes turning. "stock" is a server without the hook, on a link of its own of the same rate.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.bundle.bundle import load_bundle
from tfwave.demo.cluster import DemoCluster, DemoJob, demo_cluster
from tfwave.demo.model import Replicas
from tfwave.demo.networks import VGG16_LIKE
from tfwave.plan.plan import Plan
from tfwave.planner.captured import plan_bundle
from tfwave.report.conformance import HandOff, conformance
from tools.bench.interleaved import figures, run_interleaved, wire_seconds

BITS_PER_SECOND = 1e9


def measure(repeats: int, steps: int) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        clusters = [_start(stack, directory / name, name == "hooked") for name in ("hooked", "stock")]
        hooked, stock = clusters
        hooked.capture(directory / "bundle", steps=5, warmup=2)
        bundle = load_bundle(directory / "bundle")
        plan = plan_bundle(bundle)
        stock.run(3)
        modes: dict[str, Callable[[], DemoCluster]] = {
            "stock": lambda: stock,
            "hooked, off": lambda: _switched(hooked, plan, enabled=False),
            "hooked, empty plan": lambda: _switched(hooked, _without_orders(plan), enabled=True),
            "hooked, ordered": lambda: _switched(hooked, plan, enabled=True),
        }
        kept: list[HandOff] = []

        def block(mode: str) -> list[float]:
            cluster = modes[mode]()
            times = [workers[0] for workers in cluster.run(steps)[0]]
            if mode == "hooked, ordered":
                kept.extend(cluster.hand_offs())
            return times

        blocks = run_interleaved({mode: lambda m=mode: block(m) for mode in modes}, repeats)
        sizes = [t.bytes for t in plan.transfers]
        wire = wire_seconds(sizes, BITS_PER_SECOND)
        return {
            "wire_seconds": wire,
            "modes": figures(blocks, "stock", wire),
            "bytes": sum(sizes),
            "ordered_exact": conformance(kept).exact,
        }


def _start(stack: ExitStack, directory: Path, hooked: bool) -> DemoCluster:
    directory.mkdir()
    job = DemoJob(
        1, 1, BITS_PER_SECOND, Replicas(VGG16_LIKE, image=128, batch=16), "hook" if hooked else None
    )
    return stack.enter_context(demo_cluster(job, directory))


def _switched(cluster: DemoCluster, plan: Plan, *, enabled: bool) -> DemoCluster:
    cluster.install(plan)
    cluster.order(enabled)
    return cluster


def _without_orders(plan: Plan) -> Plan:
    return Plan(plan.policy, plan.graph, plan.costs, plan.predicted, ())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.repeats, arguments.steps), indent=1))
