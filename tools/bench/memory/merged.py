"""Offline Waterwave: two jobs' graphs merged, with the barriers of a plan and without, in one limited pool.

    tools/bench/memory/merged.py --limit 256MiB --job resnet=48 --job bert=24

Each job is captured by itself, TensorFlow's optimizer on. Then the commands of docs/how-to/merge_jobs.md run, and
both graphs train, in turn, each trial in a process of its own: whether it ran out, the peak of the pool, and
whether its losses are those of the jobs alone, bit by bit.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.runtime.allocator import AllocatorSettings, one_region, set_up
from tfwave.sizes import in_words, parse_size
from tools.bench.memory.limited_models import LOSS, RESET, TRAIN, build

STEPS = 6
GRAPHS = {"merged": "both.pb", "with barriers": "calm.pb"}


def main() -> None:
    options = _options()
    jobs = dict(text.split("=") for text in options.job)
    with tempfile.TemporaryDirectory() as place:
        found = _measured(Path(place), jobs, options.limit, options.trials)
    if options.json:
        print(json.dumps({"limit": options.limit, "jobs": jobs, **found}, indent=1))
        return
    for name, trials in found["trials"].items():
        peaks = [trial["peak"] for trial in trials if trial["peak"]]
        ran = f"{len(peaks)} of {len(trials)} ran"
        exact = all(trial["exact"] for trial in trials if trial["peak"])
        held = f", peak {in_words(int(statistics.median(peaks)))}, bit-equal: {exact}" if peaks else ""
        print(f"{name}: {ran}{held}")
    print(f"predicted peak: {in_words(found['predicted_peak'])} of {options.limit}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", default="256MiB")
    parser.add_argument("--job", action="append", required=True, metavar="MODEL=BATCH")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measured(place: Path, jobs: dict[str, str], limit: str, trials: int) -> dict[str, Any]:
    alone = [_said(_capture, name, batch, str(place), limit) for name, batch in jobs.items()]
    _tfwave(place, "merge", *(f"{name}.pb" for name in jobs), "-o", "both.pb")
    _tfwave(place, "colocate", *jobs, "--memory", limit, "-o", "plan.json")
    _tfwave(
        place, "rewrite", "both.pb", "--plan", "plan.json", "--passes", "counter_barrier", "-o", "calm.pb"
    )
    losses = [list(step) for step in zip(*(job["losses"] for job in alone), strict=True)]
    made: dict[str, list[Any]] = {name: [] for name in GRAPHS}
    for _ in range(trials):
        for name, file in GRAPHS.items():
            said = _said(_train, str(place / file), limit, *jobs)
            made[name].append({"peak": said["peak"], "exact": said["losses"] == losses})
    return {
        "predicted_peak": int(json.loads((place / "plan.json").read_text())["groups"]["peak_bytes"]),
        "trials": made,
    }


def _tfwave(place: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "tfwave", *arguments], cwd=place, env=_env(), check=True, capture_output=True
    )


def _said(child: Any, *arguments: str) -> Any:
    """What a function prints in a process of its own."""
    code = (
        f"from tools.bench.memory.merged import {child.__name__} as child; import sys; child(*sys.argv[1:])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=_env(), check=True, capture_output=True, text=True
    )
    return json.loads(ran.stdout)


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}


def _capture(model: str, batch: str, place: str, limit: str) -> None:
    v1 = _tensorflow(limit).compat.v1
    from tfwave.capture.session import capture_run

    graph = build(model, int(batch))
    Path(place, f"{model}.pb").write_bytes(graph.as_graph_def().SerializeToString())
    with v1.Session(graph=graph) as session:
        session.run(RESET)
        losses = [float(session.run([f"{LOSS}:0", TRAIN])[0]).hex() for _ in range(STEPS)]
        capture_run(session, [f"{LOSS}:0", TRAIN], out=Path(place, model))
    print(json.dumps({"losses": losses}))


def _train(file: str, limit: str, *jobs: str) -> None:
    tf = _tensorflow(limit)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(Path(file).read_bytes()), name="")
    with tf.compat.v1.Session(graph=graph) as session:
        for job in jobs:
            session.run(f"{job}/{RESET}")
        tf.config.experimental.reset_memory_stats("CPU:0")
        step = [[f"{job}/{LOSS}:0" for job in jobs], [f"{job}/{TRAIN}" for job in jobs]]
        try:
            losses = [[float(loss).hex() for loss in session.run(step)[0]] for _ in range(STEPS)]
        except tf.errors.ResourceExhaustedError:
            print(json.dumps({"losses": None, "peak": 0}))
            return
    print(json.dumps({"losses": losses, "peak": tf.config.experimental.get_memory_info("CPU:0")["peak"]}))


def _tensorflow(limit: str) -> Any:
    set_up(AllocatorSettings(parse_size(limit)))
    import tensorflow as tf

    one_region()
    return tf


if __name__ == "__main__":
    main()
