"""The demo from start to end: measure, capture, plan, install, measure again, judge."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.demo.cluster import DemoCluster, DemoJob, demo_cluster
from tfwave.errors import TfwaveError
from tfwave.files import write_whole
from tfwave.plan.io import save_plan
from tfwave.plan.plan import Plan
from tfwave.planner.captured import plan_bundle
from tfwave.report.chrome import chrome_trace
from tfwave.report.conformance import Conformance, HandOff, conformance
from tfwave.report.figures import StepFigures, step_figures
from tfwave.report.iterations import explained, traced_iterations
from tfwave.report.page.fill import write_page
from tfwave.report.page.given import read_given
from tfwave.report.run import MODES, save_run
from tfwave.runtime.native import ensure_built

CAPTURED_STEPS = 5
WARMUP_STEPS = 2
PAGE = "report.html"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Blocks:
    """How much to measure: `repeats` times a block of `steps` unordered and one of `steps` ordered."""

    repeats: int
    steps: int


@dataclass(frozen=True)
class DemoResult:
    """What a demo found, by mode; `network` says how the link was limited."""

    network: str
    plan: Plan
    figures: dict[str, StepFigures]
    explained: float
    """R2 of step time against E, over the traced steps of both modes."""
    conformance: dict[str, Conformance]
    outputs_equal: bool
    """Whether every block gave the same outputs, bit for bit."""
    live_steps: int


def run_demo(job: DemoJob, blocks: Blocks, policy: str, out: Path, say: Say) -> DemoResult:
    """Run a job with and without a planned order, in turn, and write all that was seen to `out`.

    Raises:
        TfwaveError: a part of it fails; names it.
    """
    ensure_built(lambda done, total, what: say(f"building the send hook: {what} ({done}/{total})"))
    _prepare(out)
    say("starting the cluster and building the model")
    with demo_cluster(job, out / "logs") as cluster:
        say(f"capturing {CAPTURED_STEPS} steps")
        cluster.capture(out / "bundle", steps=CAPTURED_STEPS, warmup=WARMUP_STEPS)
        bundle = load_bundle(out / "bundle")
        say(f"planning with {policy}")
        plan = plan_bundle(bundle, policy)
        save_plan(plan, out / "plan.json")
        cluster.install(plan)
        measured = _measure(cluster, blocks, say)
        say(f"tracing {CAPTURED_STEPS} ordered steps")
        cluster.order(True)
        cluster.capture(out / "ordered", steps=CAPTURED_STEPS, warmup=WARMUP_STEPS)
        live = cluster.live_steps()
        network = cluster.network.description
    traced = {"unordered": bundle, "ordered": load_bundle(out / "ordered")}
    result = _judge(plan, measured, traced, network, live)
    _save(out, result, measured, traced)
    return result


@dataclass(frozen=True)
class _Measured:
    steps: dict[str, list[list[float]]]
    hand_offs: dict[str, list[HandOff]]
    digests: set[str]


def _prepare(out: Path) -> None:
    try:
        (out / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TfwaveError(f"cannot write '{out}': {error.strerror}") from error


def _measure(cluster: DemoCluster, blocks: Blocks, say: Say) -> _Measured:
    measured = _Measured({mode: [] for mode in MODES}, {mode: [] for mode in MODES}, set())
    for repeat in range(blocks.repeats):
        for mode in MODES:
            say(f"measuring {mode}, block {repeat + 1} of {blocks.repeats}")
            cluster.order(mode == "ordered")
            steps, digest = cluster.run(blocks.steps)
            measured.steps[mode] += steps
            measured.hand_offs[mode] += cluster.hand_offs()
            measured.digests.add(digest)
    return measured


def _judge(
    plan: Plan, measured: _Measured, traced: Mapping[str, Bundle], network: str, live: int
) -> DemoResult:
    own = {mode: traced_iterations(bundle) for mode, bundle in traced.items()}
    return DemoResult(
        network=network,
        plan=plan,
        figures={mode: step_figures(steps, own[mode]) for mode, steps in measured.steps.items()},
        explained=explained([iteration for of_mode in own.values() for iteration in of_mode]),
        conformance={mode: conformance(of_mode) for mode, of_mode in measured.hand_offs.items()},
        outputs_equal=len(measured.digests) == 1,
        live_steps=live,
    )


def _save(out: Path, result: DemoResult, measured: _Measured, traced: Mapping[str, Bundle]) -> None:
    save_run(out, measured.hand_offs)
    _write_json(out / "figures.json", result_dict(result) | {"step_seconds": measured.steps})
    trace = chrome_trace({mode: bundle.steps[-1] for mode, bundle in traced.items()})
    write_whole(out / "trace.json", trace.encode())
    write_page(read_given([out]), out / PAGE)


def result_dict(result: DemoResult) -> dict[str, Any]:
    """A result for JSON."""
    return {
        "network": result.network,
        "policy": result.plan.policy,
        "predicted": asdict(result.plan.predicted),
        "figures": {mode: asdict(f) for mode, f in result.figures.items()},
        "explained": result.explained,
        "conformance": {mode: asdict(c) | {"exact": c.exact} for mode, c in result.conformance.items()},
        "outputs_equal": result.outputs_equal,
        "live_steps": result.live_steps,
    }


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=1) + "\n").encode())
