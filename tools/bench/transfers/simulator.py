"""Events per CPU second of the simulator's kernel, and how far it is from a SimPy model.

python tools/bench/transfers/simulator.py [--json] [--runs 3] [--events 1000000] [--jobs 200]
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from fractions import Fraction
from math import inf
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.property.simulator_oracle import Model, random_kernel_job
from tfwave.plan.discipline import Discipline
from tfwave.sim.engine import Job, Lane, Pool, run
from tools.bench.cpu import cpu_seconds

WORKERS, SERVERS = 4, 2
LATENCY_TICKS = 100
CASES = {
    "a link for each channel": inf,
    "channels share cards": 1e9,
}


def main(arguments: Sequence[str]) -> None:
    """Print the tables, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=200)
    options = parser.parse_args(arguments)
    speeds = [measure(name, options.events, bandwidth, options.runs) for name, bandwidth in CASES.items()]
    deviation = deviate(options.jobs)
    if options.json:
        print(json.dumps({"speed": speeds, "simpy": deviation}, indent=2))
        return
    print(f"{WORKERS} workers, {SERVERS} servers".ljust(28) + "    events   seconds  events/s")
    for row in speeds:
        print(f"{row['case']:<28}{row['events']:>10}{row['seconds']:>10.2f}{row['events_per_second']:>10.0f}")
    print(
        f"against SimPy: {deviation['tasks']} tasks of {deviation['jobs']} random jobs, "
        f"at most {deviation['largest_percent']:.2g} % of the makespan off"
    )


def measure(name: str, events: int, bandwidth: float, runs: int) -> dict[str, str | int | float]:
    """Best CPU seconds of some runs of one job."""
    job = training_job(events, bandwidth)
    count = count_events(job)
    seconds = min(cpu_seconds(lambda: run(job)) for _ in range(runs))
    return {"case": name, "events": count, "seconds": seconds, "events_per_second": count / seconds}


def training_job(events: int, bandwidth: float) -> Job:
    """Ops on workers and servers of two threads each, one task in twenty a transfer between them."""
    rng = random.Random(1)
    hosts = WORKERS + SERVERS
    pairs = [(a, b) for a in range(hosts) for b in range(hosts) if (a < WORKERS) != (b < WORKERS)]
    count = events * 20 // 21
    transfers = [rng.random() < 0.05 for _ in range(count)]
    units = [hosts + rng.randrange(len(pairs)) if is_one else rng.randrange(hosts) for is_one in transfers]
    successors: list[list[int]] = [[] for _ in range(count)]
    pending = [0] * count
    for task in range(hosts, count):
        for before in {rng.randrange(max(0, task - 200), task) for _ in range(2)}:
            successors[before].append(task)
            pending[task] += 1
    return Job(
        units,
        [rng.randint(1, 10**6) for _ in units],
        successors,
        pending,
        pools=[Pool(2)] * hosts,
        lanes=[Lane(Discipline.PRIORITY, LATENCY_TICKS, (a, hosts + b)) for a, b in pairs],
        pooled=[task for task, is_one in enumerate(transfers) if not is_one],
        carried=[task for task, is_one in enumerate(transfers) if is_one],
        bandwidths=[bandwidth] * 2 * hosts,
    )


def count_events(job: Job) -> int:
    """Each task ends once, and a transfer also arrives; events that were overtaken are not counted."""
    return len(job.units) + len(job.carried)


def deviate(jobs: int) -> dict[str, int | float]:
    """The largest deviation of any task's begin or end from SimPy's, in percent of the makespan."""
    largest, tasks = Fraction(0), 0
    for i in range(jobs):
        job = random_kernel_job(random.Random(f"bench {i}"), shared=i % 2 == 0)
        model, outcome = Model(job, job.carried).run(), run(job)
        off = [abs(outcome.end[t] - end) for t, end in model.end.items()]
        off += [abs(outcome.begin[t] - begin) for t, begin in model.begin.items()]
        tasks += len(model.end)
        largest = max(largest, Fraction(max(off, default=0)) / (model.finish or 1))
    return {"jobs": jobs, "tasks": tasks, "largest_percent": float(largest * 100)}


if __name__ == "__main__":
    main(sys.argv[1:])
