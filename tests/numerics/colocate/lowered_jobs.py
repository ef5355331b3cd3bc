"""A background among the jobs of a pool; prints what came out as JSON.

lowered_jobs.py            beside a job, and what it computes alone
lowered_jobs.py shared     where sessions share their threads
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.numerics.colocate.colocated_jobs import BATCH, WIDTH, Trained, batches, losses, weights
from tfwave.colocate import Job, Pool, SessionStep, background_session
from tfwave.errors import EnforcerError

import tensorflow as tf  # isort: skip  (after its pool was limited)

v1 = tf.compat.v1
STEPS, BACKGROUND_STEPS = 60, 12


class Lowered:
    """Trains in a session that it is given; each step tells by which policy its ops are started."""

    def __init__(self, make: Any) -> None:
        with tf.Graph().as_default() as graph:
            self.fed = v1.placeholder(tf.float32, [BATCH, WIDTH])
            hidden = self.fed
            for number, value in enumerate(weights(5)):
                variable = v1.get_variable(f"w{number}", initializer=value, use_resource=True)
                hidden = tf.nn.relu(hidden @ variable)
            self.loss = tf.reduce_mean((hidden - self.fed) ** 2)
            self.train = v1.train.MomentumOptimizer(0.05, 0.9).minimize(self.loss)
            self.policy = tf.numpy_function(lambda _: os.sched_getscheduler(0), [self.loss], tf.int64)
            init = v1.global_variables_initializer()
        self.session = make(graph=graph)
        self.session.run(init)

    @property
    def step(self) -> SessionStep:
        return SessionStep(self.session, [self.loss, self.train, self.policy], [self.fed])


def run_seconds() -> dict[int, float]:
    """What each thread has had of the cores."""
    threads = Path("/proc/self/task").iterdir()
    return {int(each.name): int((each / "schedstat").read_text().split()[0]) / 1e9 for each in threads}


def computed() -> dict[str, float]:
    """CPU seconds of steps of the session, by the policy of the threads."""
    lowered = Lowered(background_session)
    before = run_seconds()
    for batch in batches(9, 20):
        lowered.session.run(lowered.train, {lowered.fed: batch})
    found = {"lowered": 0.0, "others": 0.0}
    for thread, seconds in run_seconds().items():
        kind = "lowered" if os.sched_getscheduler(thread) == os.SCHED_IDLE else "others"
        found[kind] += seconds - before.get(thread, 0.0)
    return found


def beside() -> dict[str, Any]:
    data = {"foreground": batches(1, STEPS), "background": batches(2, BACKGROUND_STEPS)}
    lowered, plain = Lowered(background_session), Lowered(v1.Session)
    foreground = Trained(3)
    with Pool() as pool:
        handles = [
            pool.add(Job("foreground", foreground.step, data["foreground"])),
            pool.add(
                Job("background", lowered.step, data["background"], background=True, slowdown_at_most=3)
            ),
        ]
    front, back = [handle.result() for handle in handles]
    alone = [plain.session.run([plain.loss, plain.train], {plain.fed: each}) for each in data["background"]]
    return {
        "errors": [str(result.error) for result in (front, back)],
        "steps": [front.steps, back.steps],
        "policies": sorted({int(value[2]) for value in back.values}),
        "equal": [
            losses(front.values) == Trained(3).alone(data["foreground"]),
            losses(back.values) == losses(alone),
        ],
        "left": list(pool.figures.jobs),
        "front": [front.slowdown, front.held],
        "refused": refusal(foreground.step),
        "computed": computed(),
    }


def refusal(step: Any) -> str:
    try:
        with Pool() as pool:
            pool.add(Job("functions", step, [], background=True))
    except EnforcerError as error:
        return str(error)
    return ""


def shared() -> dict[str, Any]:
    try:
        background_session(tf.Graph())
    except EnforcerError as error:
        return {"error": str(error)}
    return {}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(shared() if sys.argv[1:] == ["shared"] else beside()))
