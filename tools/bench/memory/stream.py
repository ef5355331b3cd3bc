"""A stream of jobs: twelve trainings of a search over models and rates, all asked for at once, in one memory.

Makespan and mean completion time of four ways, by which Salus, AntMan, Muri and Orion are judged, too: one after
the other; `offload`, several at once, each made to fit into its share (`tfwave.fit_memory`); `colocate`, in a
`tfwave.colocate.Pool` as they are; `both`, in a pool whose jobs may be made to fit. Ways take turns, each in a
process of its own, whose time counts from when TensorFlow is there: also what it takes to measure and to plan.
Each training computes what it does alone, bit by bit, or no result is printed.

The memory is such that it binds: by what a traced step of each model holds, it has room for the largest training
alone, but not for as many of them as go beside each other, and is half way between.

    tools/bench/memory/stream.py --steps 8        to see that it works: minutes
    tools/bench/memory/stream.py                  to be recorded: ten minutes, and a quiet machine
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.sizes import parse_size
from tools.bench.interleaved import paired_ratio, run_interleaved
from tools.bench.memory.stream_jobs import IN_TURN, WAYS, trainings

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tools.bench.memory.stream_task"
WAY_SECONDS = 1800.0


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    held = _asked({"batch": arguments.batch})
    limit = binding_limit(held, arguments.beside) if arguments.limit is None else parse_size(arguments.limit)
    request = {"limit": limit, "batch": arguments.batch, "steps": arguments.steps, "beside": arguments.beside}
    trials = run_interleaved(
        {way: lambda w=way: _asked({"way": w, **request}) for way in arguments.ways}, arguments.repeats
    )
    return {
        "settings": vars(arguments),
        "load": os.getloadavg(),
        "held_bytes": held,
        "limit_bytes": limit,
        "trainings": len(trainings(arguments.steps)),
        "steps": sum(training.steps for training in trainings(arguments.steps)),
        "ways": against(trials),
    }


def binding_limit(held: Mapping[str, int], beside: int) -> int:
    """Half way from what the largest training holds to what as many of it hold that go beside each other."""
    return max(held.values()) * (1 + beside) // 2


def against(trials: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, object]]:
    """The figures of each way, over its trials and paired with those of one after the other.

    Raises:
        SystemExit: a training did not compute what it does alone; names both.
    """
    alone = trials[IN_TURN][0]["losses"]
    for way, of_way in trials.items():
        for trial in of_way:
            others = [
                name for name in alone | trial["losses"] if trial["losses"].get(name) != alone.get(name)
            ]
            if others:
                raise SystemExit(f"'{others[0]}' has other losses in the way '{way}' than alone")
    makespans = {way: [trial["seconds"] for trial in of_way] for way, of_way in trials.items()}
    means = {
        way: [statistics.fmean(trial["ends"].values()) for trial in of_way] for way, of_way in trials.items()
    }
    return {
        way: {
            "makespan_seconds": statistics.median(makespans[way]),
            "mean_completion_seconds": statistics.median(means[way]),
            "makespan_gain": paired_ratio(makespans[IN_TURN], makespans[way]),
            "completion_gain": paired_ratio(means[IN_TURN], means[way]),
            "peak": max(trial["peak"] for trial in of_way),
            "alone": sorted({name for trial in of_way for name in trial["alone"]}),
            "trials": [{key: value for key, value in trial.items() if key != "losses"} for trial in of_way],
        }
        for way, of_way in trials.items()
    }


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", MODULE, json.dumps(request)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=WAY_SECONDS,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(done.stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--limit", help="of the pool, as '640MiB'; by default such that it binds")
    add("--batch", type=int, default=32)
    add("--steps", type=int, default=100, help="of the longest trainings")
    add("--beside", type=int, default=2, help="trainings at once, where it is not one")
    add("--repeats", type=int, default=1, help="trials of each way")
    add("--ways", nargs="+", choices=WAYS, default=list(WAYS), help=f"'{IN_TURN}' must be one of them")
    return parser


if __name__ == "__main__":
    print(json.dumps(measure(_parser().parse_args()), indent=1))
