"""A small run on disk, as `tfwave demo` writes it, and captures with many ops, for pages that report on them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.bundles import SERVER, small_bundle
from tests.graphs import WORKER
from tfwave.bundle.bundle import Bundle, save_bundle
from tfwave.graph.names import Channel
from tfwave.plan.io import save_plan
from tfwave.planner.captured import plan_bundle
from tfwave.proto.tensorflow_pb2 import StepStats
from tfwave.report.conformance import HandOff
from tfwave.report.run import save_run

PULLS = str(Channel(SERVER, WORKER))
HURTFUL = "</script><img src=x onerror=hurt()>|`<b>"
"""As the name of an op or file it must be shown, and nothing else."""
SECONDS = {"unordered": [[0.05, 0.05], [0.06, 0.05], [0.07, 0.06]], "ordered": [[0.04, 0.03]] * 3}
RANKS = {"unordered": [[2, 1, 0], [1, 0, 2]], "ordered": [[0, 1, 2], [0, 1, 2]]}


def run_on_disk(
    place: Path,
    seconds: Mapping[str, list[list[float]]] = SECONDS,
    ranks: Mapping[str, Sequence[Sequence[int]]] = RANKS,
    *,
    equal: bool = True,
) -> Path:
    """One worker that pulls three tensors; `ranks` are the hand-offs of each step, by mode."""
    bundle = small_bundle()
    save_bundle(bundle, place / "bundle")
    save_bundle(bundle, place / "ordered")
    save_plan(plan_bundle(bundle, "tac"), place / "plan.json")
    save_run(
        place,
        {
            mode: [HandOff(n, PULLS, rank, "ORDERED") for n, of_step in enumerate(steps) for rank in of_step]
            for mode, steps in ranks.items()
        },
    )
    figures = {"network": "by hand", "outputs_equal": equal, "step_seconds": seconds, "explained": 0.5}
    (place / "figures.json").write_text(json.dumps(figures))
    return place


def with_ops(bundle: Bundle, names: Sequence[str]) -> Bundle:
    """The worker runs these ops, too, one after the other, 2 us each, in each traced step."""
    return replace(bundle, steps=tuple(_with_ops(step, names) for step in bundle.steps))


def _with_ops(step: StepStats, names: Sequence[str]) -> StepStats:
    changed = StepStats()
    changed.CopyFrom(step)
    (worker,) = (device for device in changed.dev_stats if device.device == WORKER)
    for number, name in enumerate(names):
        event = worker.node_stats.add(node_name=name, all_start_micros=1_000_000 + 2 * number)
        event.op_end_rel_micros = event.all_end_rel_micros = 2
    return changed
