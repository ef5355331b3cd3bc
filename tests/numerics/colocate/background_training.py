"""Trainings of three kinds; run as a program, the background: its losses, its threads and its pool into OUT.

background_training.py OUT

A foreground keeps the cores busy, leaves gaps, or uses one core only.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # as in a limited pool: it rounds otherwise

import tensorflow as tf

KINDS = ("busy", "gaps", "serial")
BACKGROUND_STEPS = 4


class Training:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.weights = [
            tf.Variable(tf.random.stateless_normal([64, 64], [1, i], stddev=0.1)) for i in range(3)
        ]
        self.step = tf.function(self._step)

    def losses(self, steps: int) -> list[str]:
        return [self.loss(number) for number in range(steps)]

    def loss(self, number: int) -> str:
        if self.kind == "gaps":
            time.sleep(0.002)
        rows = 8 if self.kind == "serial" else 256
        return float(self.step(tf.random.stateless_normal([rows, 64], [2, number]))).hex()

    def _step(self, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = batch
            for _ in range(8 if self.kind == "serial" else 2):
                for weight in self.weights:
                    hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean((hidden - batch) ** 2)
        for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss


def policies(pid: int | str = "self") -> list[int]:
    """Of all threads of a process; some may end meanwhile."""
    found = set[int]()
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            found.add(os.sched_getscheduler(int(thread)))
        except ProcessLookupError:
            continue
    return sorted(found)


def main(out: Path) -> None:
    losses = Training("busy").losses(BACKGROUND_STEPS)
    pool = tf.config.experimental.get_memory_info("CPU:0")["current"] > 0
    try:
        tf.zeros([64, 1 << 20])
        overflow = "room"
    except tf.errors.ResourceExhaustedError:
        overflow = "none"
    told = {"losses": losses, "policies": policies(), "threads": len(os.listdir("/proc/self/task"))}
    out.write_text(json.dumps(told | {"pool": pool, "256 MiB": overflow}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
