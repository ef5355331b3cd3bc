"""Train under the hook for a long time: does any process grow, and is each step's order exact?

A parameter server and two workers on this machine, ordered by `tfwave.distribute.wrap`. While they
train, the resident memory of each process is noted; its slope is that of the line of least squares through the last
two thirds of the time, for what a process takes to warm up is no leak.

    tools/bench/transfers/soak.py                     30 minutes
    tools/bench/transfers/soak.py --minutes 2         a trial; so short, slopes still show what warms up
"""

import argparse
import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np
import tensorflow as tf

import tfwave.distribute
from tfwave.distribute.figures import Figures
from tfwave.runtime.launch import local_servers

LAYERS, WIDTH, BATCH = 12, 64, 16
RATE = 0.01
ROUND = 16
"""Steps that are under way together."""
SAMPLE_SECONDS = 1.0
ORDERED_SECONDS = 300.0
WARM_UP = 1 / 3
JUDGED_SECONDS = 3.0
"""After which the last steps are judged: nothing more comes of them."""
PAGE = os.sysconf("SC_PAGE_SIZE")


class Training:
    """Steps of a `ClusterCoordinator`, ordered."""

    def __init__(self) -> None:
        """Of the servers of TF_CONFIG."""
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        self._strategy = tfwave.distribute.wrap(tf.distribute.ParameterServerStrategy(resolver))
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self.schedule = tfwave.distribute.schedule_of(self._strategy)
        with self._strategy.scope():
            weights = [
                tf.Variable(tf.random.stateless_normal([WIDTH] * 2, (i, 1)) / 8) for i in range(LAYERS)
            ]

        @tf.function
        def step(batch: Any) -> Any:
            with tf.GradientTape() as tape:
                hidden = batch
                for weight in weights:
                    hidden = tf.tanh(hidden @ weight)
                loss = tf.reduce_mean((hidden - batch) ** 2)
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(RATE * tf.convert_to_tensor(gradient))
            return loss

        self._step = tf.function(lambda batch: self._strategy.run(step, args=(batch,)))
        self._batch = tf.random.stateless_normal([BATCH, WIDTH], (0, 2))

    def run(self) -> float:
        """Some steps; the loss of the last."""
        losses = [self._coordinator.schedule(self._step, args=(self._batch,)) for _ in range(ROUND)]
        self._coordinator.join()
        return float(losses[-1].fetch())

    def until_ordered(self) -> None:
        end = time.monotonic() + ORDERED_SECONDS
        while set(self.schedule.phases.values()) != {"ordered"}:
            if time.monotonic() > end:
                raise SystemExit(f"not ordered within {ORDERED_SECONDS:g} s: {self.schedule.phases}")
            self.run()


@dataclass
class Memory:
    """Resident bytes of processes, by name, over time."""

    pids: dict[str, int]
    seconds: list[float] = field(default_factory=list)
    resident: dict[str, list[int]] = field(default_factory=dict)

    def sample(self) -> None:
        self.seconds.append(time.monotonic())
        for name, pid in self.pids.items():
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            self.resident.setdefault(name, []).append(pages * PAGE)

    def slopes(self) -> dict[str, dict[str, float]]:
        """Of each process, behind its warm-up."""
        at = np.array(self.seconds) - self.seconds[0]
        late = at >= WARM_UP * at[-1]
        return {name: _line(at[late], np.array(values)[late]) for name, values in self.resident.items()}


def _line(seconds: Any, values: Any) -> dict[str, float]:
    slope = float(np.polyfit(seconds, values, 1)[0])
    return {
        "bytes_at_first": int(values[0]),
        "bytes_at_last": int(values[-1]),
        "slope_bytes_per_second": round(slope, 1),
        "slope_share_per_hour": round(slope * 3600 / float(values[0]), 4),
    }


@dataclass
class Kept:
    """How the order was kept so far; each step's own times would grow with the steps."""

    steps: int = 0
    exact_share_at_least: float = math.inf
    planned_share_at_least: float = math.inf
    released: int = 0

    def add(self, window: Figures) -> None:
        """Steps since the last, of which none may have been judged; of none at all the shares stay infinite."""
        self.steps += window.steps
        self.released += window.released
        if not math.isnan(window.exact_share):
            self.exact_share_at_least = min(self.exact_share_at_least, window.exact_share)
            self.planned_share_at_least = min(self.planned_share_at_least, window.planned_share)


def children() -> dict[str, int]:
    """The servers' processes, by task."""
    found: dict[str, int] = {}
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        told = next((each for each in environment if each.startswith(b"TF_CONFIG=")), None)
        if told:
            task = json.loads(told.partition(b"=")[2])["task"]
            found[f"{task['type']}:{task['index']}"] = int(pid)
    return found


def soak(minutes: float) -> dict[str, Any]:
    """Train for so long; what the processes held, and how the order was kept."""
    training = Training()
    training.until_ordered()
    training.schedule.figures()
    memory = Memory({"chief": os.getpid(), **children()})
    memory.sample()
    end, kept = memory.seconds[0] + 60 * minutes, Kept()
    first = last = training.run()
    while memory.seconds[-1] < end:
        last = training.run()
        if time.monotonic() - memory.seconds[-1] >= SAMPLE_SECONDS:
            memory.sample()
            kept.add(training.schedule.figures())
    time.sleep(JUDGED_SECONDS)
    kept.add(training.schedule.figures())
    return {
        "minutes": minutes,
        **asdict(kept),
        "losses": [first, last],
        "memory": memory.slopes(),
    }


def main() -> None:
    """Soak, and say what came of it; exit code 1 if a step was not in order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    minutes = parser.parse_args().minutes
    with local_servers(1, 2) as job:
        os.environ["TF_CONFIG"] = job.tf_config("chief", 0)
        found = soak(minutes)
    print(json.dumps(found, indent=1), flush=True)
    os._exit(0 if found["exact_share_at_least"] == 1 else 1)  # a coordinator's threads outlive the servers


if __name__ == "__main__":
    main()
