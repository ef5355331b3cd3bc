"""What ordering gives a VGG16-like inference job on a 1 Gbit/s link, and what an idle hook costs.

One server, one worker, about 79 MB of parameters a step. Modes run interleaved, one block of each a repeat, the
order of the modes turning. "stock" is a server without the hook, on a link of its own of the same rate.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tfwave.capture.bundle import load_bundle
from tfwave.capture.plan import plan_bundle
from tfwave.demo.cluster import DemoCluster, DemoJob, demo_cluster
from tfwave.demo.model import VGG16_LIKE
from tfwave.plan.plan import Plan
from tfwave.report.conformance import conformance

ETHERNET_SHARE = 1448 / 1514
"""TCP payload in an Ethernet frame, as the link's rate counts frames."""


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
        seconds: dict[str, list[float]] = {mode: [] for mode in modes}
        blocks: dict[str, list[float]] = {mode: [] for mode in modes}
        kept = []
        for repeat in range(repeats):
            names = list(modes) if repeat % 2 == 0 else list(modes)[::-1]
            for mode in names:
                cluster = modes[mode]()
                block = [workers[0] for workers in cluster.run(steps)[0]]
                seconds[mode] += block
                blocks[mode].append(statistics.median(block))
                if mode == "hooked, ordered":
                    kept += cluster.hand_offs()
        sizes = sum(t.bytes for t in plan.transfers)
        return _report(seconds, blocks, sizes / (1e9 / 8 * ETHERNET_SHARE)) | {
            "bytes": sizes,
            "ordered_exact": conformance(kept).exact,
        }


def _start(stack: ExitStack, directory: Path, hooked: bool) -> DemoCluster:
    directory.mkdir()
    job = DemoJob(1, 1, 1e9, VGG16_LIKE, image=128, batch=16, hooked=hooked)
    return stack.enter_context(demo_cluster(job, directory))


def _switched(cluster: DemoCluster, plan: Plan, *, enabled: bool) -> DemoCluster:
    cluster.install(plan)
    cluster.order(enabled)
    return cluster


def _without_orders(plan: Plan) -> Plan:
    return Plan(plan.policy, plan.graph, plan.costs, plan.predicted, ())


def _report(
    seconds: dict[str, list[float]], blocks: dict[str, list[float]], wire: float
) -> dict[str, object]:
    return {
        "wire_seconds": wire,
        "modes": {
            mode: {
                "steps": len(times),
                "median_seconds": statistics.median(times),
                "stdev_seconds": statistics.stdev(times),
                "over_wire": statistics.median(times) / wire,
                "paired_ratio_to_stock": statistics.median(
                    mine / stock for mine, stock in zip(blocks[mode], blocks["stock"], strict=True)
                ),
                "blocks_seconds": blocks[mode],
            }
            for mode, times in seconds.items()
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.repeats, arguments.steps), indent=1))
