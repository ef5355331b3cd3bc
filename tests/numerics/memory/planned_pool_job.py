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
from tfwave.fitting.function import fit_memory
from tfwave.keras import FitMemoryCallback
from tfwave.offload.captured import captured_step
from tfwave.offload.placed import placed_section
from tfwave.offload.question import Question
from tfwave.passes.text import parse_pipeline
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.memory import METHODS, Memory, Place
from tfwave.plan.plan import Plan
from tfwave.runtime.live.install import install
from tfwave.runtime.planned_pool import PlannedPool
from tfwave.runtime.stash import load_stash_ops

LIMIT = "192MiB"
DEVICES = 2
SHARE = 0.7
"""Of what a step holds as it is: so much it may hold, fitted."""
BATCH, WIDTH, LAYERS, STEPS = 4096, 128, 6, 4
WIDE = 768


class Trained:
    """A small perceptron in a session, by default of one thread."""

    def __init__(self, tf: Any, scope: str, threads: int = 1, *, optimizer: bool = True) -> None:
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
        if not optimizer:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            config.graph_options.optimizer_options.opt_level = -1
        self.session = v1.Session(graph=self.graph, config=config)

    def run(self) -> list[str]:
        """Losses and weights of some steps from the beginning, bit for bit."""
        self.session.run(self.reset)
        return self.train_on()

    def train_on(self) -> list[str]:
        """The same from where it is."""
        losses = [self.session.run([self.loss, self.train])[0] for _ in range(STEPS)]
        return [loss.tobytes().hex() for loss in losses] + [
            self.session.run(self.weights).tobytes().hex()[:4096]
        ]


def configured() -> None:
    """What can be set only before TensorFlow starts."""
    config: Any = import_module("tensorflow").config
    (cpu,) = config.list_physical_devices("CPU")
    config.set_logical_device_configuration(cpu, [config.LogicalDeviceConfiguration()] * DEVICES)


def main(folder: Path) -> None:
    pool = planned_pool(LIMIT, configure=configured)
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
    found["devices"] = len(tf.config.list_logical_devices("CPU")) / DEVICES
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
    pool.remove()
    found["fitted"] = _fitted(pool, tf, folder)
    found["live"] = _live(pool, tf)
    found["momentum"] = _momentum(pool, tf)
    found["keras"] = _keras(pool, tf)
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


def _fitted(pool: PlannedPool, tf: Any, folder: Path) -> dict[str, Any]:
    """A step that is made to fit, and lies as planned; TensorFlow's optimizer is off, and ops run side by side."""
    made, again = (Trained(tf, "fitted", threads=2, optimizer=False) for _ in range(2))
    want = made.run()
    with capture_session(made.session, out=folder / "plain", steps=2, warmup=1):
        for _ in range(3):
            made.session.run([made.loss, made.train])
    captured = captured_step(load_bundle(folder / "plain"))
    limit = round(SHARE * captured.found.peak)
    plan = Question(captured, None, limit, places=True).plan()
    load_stash_ops()
    with install(again.session, parse_pipeline("fit_memory", plan)):
        again.session.run(again.reset)
        pool.install(plan)
        found = _told(pool, lambda: again.train_on() == want)
    pool.remove()
    assert plan.memory is not None
    away = {method: len(plan.memory.away(method)) for method in METHODS}
    promised = plan.memory.peak_bytes
    return found | {"limit": limit, "promised": promised, "resident": captured.step.resident, "away": away}


def _live(pool: PlannedPool, tf: Any) -> dict[str, Any]:
    """A `tf.function` that is made to fit: the process's pool is a planned one, so it lies as planned."""
    rows = [tf.random.stateless_normal([BATCH - count, WIDTH], seed=[1, 2]) for count in (0, 0, 512, 0)]
    before = _in_use(tf)["current"]
    plain = _function(tf)
    tf.config.experimental.reset_memory_stats("CPU:0")
    want = [plain(batch).numpy().tobytes() for batch in rows]
    limit = before + round(SHARE * (_in_use(tf)["peak"] - before))
    fitted = fit_memory(_function(tf), limit)
    found = _told(pool, lambda: [fitted(batch).numpy().tobytes() for batch in rows] == want)
    other = fit_memory(_function(tf), limit)
    for step in (other, fitted, other):
        step(rows[0])
    found["in turn"] = pool.figures().served_share
    other.release()
    found["released"] = pool.figures().region
    with ThreadPoolExecutor(2) as threads:
        both = [fit_memory(_function(tf)) for _ in range(2)]
        losses = threads.map(lambda step: [step(batch).numpy().tobytes() for batch in rows], both)
        found["at once"] = [*losses] == [want, want]
    both[0].release()
    both[1].release()
    plans = [plan.memory for plan in fitted.plans.values() if plan.memory is not None]
    promised = max(plan.peak_bytes for plan in plans)
    return found | {"limit": limit, "promised": promised, "away": [len(plan.tensors) for plan in plans]}


def _in_use(tf: Any) -> Any:
    return tf.config.experimental.get_memory_info("CPU:0")


def _function(tf: Any) -> Any:
    """A training step of a small perceptron."""
    weights = [
        tf.Variable(tf.random.stateless_normal([WIDTH, WIDTH], seed=[layer, 3]) * WIDTH**-0.5)
        for layer in range(LAYERS)
    ]

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            for each in weights:
                x = tf.nn.gelu(x @ each)
            loss = tf.reduce_mean(x * x)
        for each, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            each.assign_sub(0.5 * gradient)
        return loss

    return step


def _momentum(pool: PlannedPool, tf: Any) -> dict[str, Any]:
    """A function of batches of two sizes in turn, whose steps assign to a slot what they made."""
    rows = [tf.random.stateless_normal([count, WIDE], seed=[1, 2]) for count in (WIDE, WIDE // 2, WIDE)]
    plain, fitted = _with_slot(tf), fit_memory(_with_slot(tf))
    want = [plain(batch).numpy().tobytes() for batch in rows]
    losses, held = [], []
    for batch in rows:
        losses.append(fitted(batch).numpy().tobytes())
        held.append(pool.figures().live)
    conflicts = pool.figures().conflicts
    fitted.release()
    return {
        "equal": losses == want,
        "held": held,
        "conflicts": conflicts,
        "released": pool.figures().region,
    }


def _with_slot(tf: Any) -> Any:
    """A training step of one layer with momentum."""
    weight = tf.Variable(tf.random.stateless_normal([WIDE, WIDE], seed=[1, 3]) * WIDE**-0.5)
    slot = tf.Variable(tf.zeros([WIDE, WIDE]))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.gelu(x @ weight)))
        moved = 0.9 * slot + tape.gradient(loss, weight)
        slot.assign(moved)
        weight.assign_sub(0.1 * moved)
        return loss

    return step


def _keras(pool: PlannedPool, tf: Any) -> dict[str, Any]:
    """A model that is trained and validated, fitted and plain; the regions that are there meanwhile."""
    keras: Any = import_module("keras")
    x = tf.random.stateless_normal([2 * BATCH, WIDTH], seed=[1, 2]).numpy()
    regions: dict[str, list[int]] = {"train": [], "test": []}

    def note(when: str) -> Callable[..., None]:
        return lambda *_, **__: regions[when].append(pool.figures().region)

    def trained(*callbacks: Any) -> list[Any]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Dense(WIDTH, "gelu") for _ in range(LAYERS)])
        model.compile("sgd", "mse", jit_compile=False)
        ran = model.fit(x, x, BATCH, 2, 0, callbacks, validation_data=(x[:BATCH], x[:BATCH]), shuffle=False)
        return [ran.history, [weight.tobytes().hex() for weight in model.get_weights()]]

    want = trained()
    noting = keras.callbacks.LambdaCallback(on_train_batch_end=note("train"))
    noting.on_test_begin = note("test")
    fitted = FitMemoryCallback()
    equal = trained(fitted, noting) == want
    return {"equal": equal, "regions": regions, "after": pool.figures().region, "plans": len(fitted.plans)}


def _held(pool: PlannedPool, tf: Any, memory: Memory) -> dict[str, Any]:
    """An eager tensor lies in its place: another plan has to wait until that is free."""
    size = 1 << 20
    eager = replace(memory, order=("Fill",), places=(Place("Fill", 0, size),), region_bytes=size)
    pool.install(eager)
    kept = tf.fill([size // 4], 1.0)
    found: dict[str, Any] = {"served": pool.figures().served, "said": _refused(pool, eager)}
    found["stays"] = pool.installed is eager
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
