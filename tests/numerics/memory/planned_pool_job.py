"""A process of its own, as it has one pool: steps whose buffers lie as planned; writes what was seen as JSON.

python -m tests.numerics.memory.planned_pool_job FOLDER
"""

import gc
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from tfwave.bundle.bundle import load_bundle
from tfwave.capture.session import capture_session
from tfwave.colocate import planned_pool
from tfwave.errors import EnforcerError
from tfwave.offload.placed import placed_section
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.memory import Memory, Place
from tfwave.plan.plan import Plan
from tfwave.runtime.planned_pool import PlannedPool

LIMIT = "192MiB"
BATCH, WIDTH, LAYERS, STEPS = 4096, 128, 6, 4


class Trained:
    """A small perceptron in a session of one thread."""

    def __init__(self, tf: Any, scope: str, threads: int = 1) -> None:
        v1 = tf.compat.v1
        self.graph = tf.Graph()
        with self.graph.as_default(), v1.name_scope(scope):
            x = tf.random.stateless_normal([BATCH, WIDTH], seed=[1, 2])
            for layer in range(LAYERS):
                first = tf.random.stateless_normal([WIDTH, WIDTH], seed=[layer, 3]) * WIDTH**-0.5
                x = tf.nn.relu(tf.matmul(x, v1.Variable(first, use_resource=True)))
            self.wide = x
            self.loss = tf.reduce_mean(x * x)
            self.train = v1.train.MomentumOptimizer(0.5, 0.9).minimize(self.loss)
            self.reset = v1.global_variables_initializer()
            self.weights = v1.trainable_variables()[0].value()
        config = v1.ConfigProto(
            inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1, use_per_session_threads=True
        )
        self.session = v1.Session(graph=self.graph, config=config)

    def run(self) -> list[str]:
        """Losses and weights of some steps from the beginning, bit for bit."""
        self.session.run(self.reset)
        losses = [self.session.run([self.loss, self.train])[0] for _ in range(STEPS)]
        return [loss.tobytes().hex() for loss in losses] + [
            self.session.run(self.weights).tobytes().hex()[:4096]
        ]


def main(folder: Path) -> None:
    pool = planned_pool(LIMIT)
    tf: Any = import_module("tensorflow")
    here, other = Trained(tf, "here"), Trained(tf, "there")
    here.session.run(here.reset)
    with capture_session(here.session, out=folder / "bundle", steps=2, warmup=1):
        for _ in range(3):
            here.session.run([here.loss, here.train])
    save_plan(Plan(memory=placed_section(load_bundle(folder / "bundle"))), folder / "plan.json")
    plan = load_plan(folder / "plan.json")
    assert plan.memory is not None
    want, want_other = here.run(), other.run()
    found: dict[str, Any] = {"traced_peak": plan.memory.peak_bytes, "region": plan.memory.region_bytes}
    pool.install(plan)
    found["planned"] = _told(pool, lambda: here.run() == want)
    pool.install(plan)
    found["other"] = _told(pool, lambda: other.run() == want_other)
    pool.install(plan)
    found["threads"] = _told(pool, lambda: _at_once(tf, want))
    pool.install(_all_in_one_place(plan.memory))
    found["colliding"] = _told(pool, lambda: here.run() == want)
    found["too large"] = _refused(pool, replace(plan.memory, region_bytes=1 << 36))
    found["held"] = _held(pool, tf, plan.memory)
    pool.remove()
    found["removed"] = _told(pool, lambda: here.run() == want)
    sys.stdout.write(json.dumps(found) + "\n")


def _told(pool: PlannedPool, is_equal: Callable[[], bool]) -> dict[str, Any]:
    equal, figures = is_equal(), pool.figures()
    more = {"share": figures.served_share, "pool": figures.pool_bytes, "peak": figures.live_peak}
    return asdict(figures) | more | {"equal": equal}


def _at_once(tf: Any, want: list[str]) -> bool:
    """Two sessions of the planned step at once, with threads of their own."""
    both = [Trained(tf, "here", threads=2) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        return all(found == want for found in pool.map(Trained.run, both))


def _all_in_one_place(memory: Memory) -> Plan:
    """A wrong plan."""
    return Plan(memory=replace(memory, places=tuple(replace(place, offset=0) for place in memory.places)))


def _held(pool: PlannedPool, tf: Any, memory: Memory) -> dict[str, Any]:
    """An eager tensor lies in its place: another plan has to wait until that is free."""
    size = 1 << 20
    eager = replace(memory, order=("Fill",), places=(Place("Fill", 0, size),), region_bytes=size)
    pool.install(eager)
    kept = tf.fill([size // 4], 1.0)
    found = {"served": pool.figures().served, "said": _refused(pool, eager)}
    pool.remove()
    found["kept"] = pool.figures().live, float(tf.reduce_sum(kept)), pool.figures().region
    del kept
    gc.collect()
    return found | {"after": (pool.figures().live, pool.figures().region), "then": _refused(pool, eager)}


def _refused(pool: PlannedPool, plan: Memory) -> str:
    try:
        pool.install(plan)
    except EnforcerError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
