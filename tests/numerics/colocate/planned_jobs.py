"""Jobs in a limited pool by a plan that was made before; prints what came out as JSON.

A process of its own: the pool is there once for all that a process runs.
"""

import gc
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tests.numerics.colocate.colocated_jobs import Session, Trained, batches, losses
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.capture.call import capture_function
from tfwave.capture.session import capture_run
from tfwave.colocate import Job, Results, captured_step, run
from tfwave.errors import PlanError
from tfwave.memory.colocation import Colocation, colocate
from tfwave.memory.groups import levelled
from tfwave.memory.schedule import in_turn
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.plan import Plan

STEPS = 6
KINDS = {"function": (Trained, 1), "session": (Session, 2)}
SHARED, WIDE = "70MiB", 1 << 30
PARTS = 4


def data_of(name: str) -> list[np.ndarray]:
    return batches(KINDS[name][1], STEPS)


def fresh(**others: Any) -> dict[str, Any]:
    return {name: kind(seed) for name, (kind, seed) in KINDS.items()} | others


def trained(jobs: dict[str, Any], plan: Any) -> Results:
    return run([Job(name, job.step, data_of(name)) for name, job in jobs.items()], SHARED, plan=plan)


def told(results: Results) -> dict[str, Any]:
    groups = results.plan.groups if results.plan else None
    return {
        "losses": {name: losses(result.values) for name, result in results.items()},
        "errors": {name: str(result.error) for name, result in results.items() if result.error},
        "groups": {each.job.name: len(each.job.groups) for each in groups.jobs} if groups else {},
        "resident": {each.job.name: each.job.resident for each in groups.jobs} if groups else {},
        "admitted": results.figures.admitted if results.figures else 0,
        "released": results.figures.released if results.figures else 0,
    }


def captured(place: Path) -> Plan:
    """From bundles, as the command has it, but cut in parts whatever room there is."""
    made = fresh()
    session, fed = made["session"], data_of("session")[0]
    capture_function(made["function"].step, data_of("function")[0], out=place / "function")
    capture_run(session.session, [session.loss, session.train], {session.fed: fed}, out=place / "session")
    steps = [captured_step(name, load_bundle(place / name)) for name in KINDS]
    levels = [levelled(step.view, step.profile, step.costs) for step in steps]
    cut = [level.cut(level.whole[0].transient // PARTS) for level in levels]
    jobs = tuple(step.in_groups(groups) for step, groups in zip(steps, cut, strict=True))
    graphs = {step.name: graph_print(step.view) for step in steps}
    return Plan(groups=Colocation(jobs, in_turn(jobs), WIDE).section(graphs))


def replanned(results: Results, place: Path) -> Plan:
    """From what was traced, by way of files."""
    assert results.plan is not None
    assert results.plan.groups is not None
    for name, bundle in results.bundles.items():
        save_bundle(bundle, place / f"measured_{name}")
    steps = [captured_step(name, load_bundle(place / f"measured_{name}")) for name in KINDS]
    plan = colocate(steps, results.plan.groups.limit_bytes)
    return Plan(groups=plan.section({step.name: graph_print(step.view) for step in steps}))


def refused(names: Iterable[str], plan: Plan) -> str:
    jobs = fresh()
    try:
        run([Job(name, jobs["function"].step, data_of("function")) for name in names], plan=plan)
    except PlanError as error:
        return str(error)
    return ""


def main() -> None:
    found: dict[str, Any] = {"alone": {n: job.alone(data_of(n)) for n, job in fresh().items()}}
    gc.collect()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        measured = trained(fresh(), None)
        assert measured.plan is not None
        save_plan(measured.plan, place / "plan.json")
        found["measured"] = told(measured)
        found["replanned"] = replanned(measured, place) == measured.plan
        gc.collect()
        found["again"] = told(trained(fresh(), place / "plan.json"))
        gc.collect()
        found["captured"] = told(trained(fresh(), captured(place)))
        gc.collect()
        plan = load_plan(place / "plan.json")
        found["other"] = told(trained(fresh(function=Session(2)), plan))
        found["refused"] = [refused(["function"], plan), refused([*KINDS, "third"], plan)]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
