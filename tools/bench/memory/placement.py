"""Which pool a training step needs, by how its bytes are placed: replayed, and served from a planned pool.

Each model has a process of its own, in which it is captured, planned, and run again with its buffers where the plan
says, in one thread of ops. Replayed is the step as traced, and as it would run with all offloaded that can be
(Dymem's policy). Prints JSON.

    tools/bench/memory/placement.py                    six models
    tools/bench/memory/placement.py --models bert      one of them
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

BATCHES = {"resnet": 16, "vgg": 32, "bert": 16, "inception": 16, "unet": 16, "lstm": 64}
POOL = "1GiB"
WITHOUT_LIMIT = 1 << 50
WARMUP, TRACED, TIMED, BLOCKS = 2, 3, 10, 3


def told(model: str) -> dict[str, Any]:
    """What a process of its own tells of a model."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", model], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def measured(model: str) -> dict[str, Any]:
    """In this process, which must not have imported TensorFlow."""
    from tfwave.colocate import planned_pool

    pool = planned_pool(POOL)
    import tensorflow as tf

    from tfwave.bundle.bundle import load_bundle
    from tfwave.capture.session import capture_session
    from tfwave.graph.item import GraphItem
    from tfwave.passes.text import parse_pipeline
    from tfwave.plan.plan import Plan
    from tfwave.proto.tensorflow_pb2 import GraphDef
    from tfwave.runtime.stash import load_stash_ops
    from tools.bench.memory.limited_models import RESET, build

    v1: Any = tf.compat.v1
    one_thread = v1.ConfigProto(
        inter_op_parallelism_threads=1, intra_op_parallelism_threads=1, use_per_session_threads=True
    )
    one_thread.graph_options.rewrite_options.disable_meta_optimizer = True  # a plan is of the graph that runs
    load_stash_ops()

    def ran(graph: Any) -> tuple[Any, dict[str, Any]]:
        with v1.Session(graph=graph, config=one_thread) as session, tempfile.TemporaryDirectory() as folder:
            session.run(RESET)
            with capture_session(session, out=Path(folder, "b"), steps=TRACED, warmup=WARMUP):
                for _ in range(WARMUP + TRACED):
                    session.run(["loss:0", "train"])
            bundle = load_bundle(Path(folder, "b"))
            return bundle, served(session, pool, bundle)

    graph = build(model, BATCHES[model])
    bundle, plain = ran(graph)
    captured, plan = offloaded(bundle)
    item = GraphItem(GraphDef.FromString(graph.as_graph_def().SerializeToString()))
    fitted = parse_pipeline("fit_memory", Plan(memory=plan))(item).item.graph
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(v1.GraphDef.FromString(fitted.SerializeToString()), name="")
    return {
        "model": model,
        "batch": BATCHES[model],
        "replayed": replayed(bundle, captured, plan),
        "plain": plain,
        "all offloaded": ran(graph)[1],
    }


def offloaded(bundle: Any) -> tuple[Any, Any]:
    """The captured step, and the plan by which all that can be is on the host."""
    from tfwave.offload.captured import captured_step
    from tfwave.offload.fit import Fits, Policy
    from tfwave.offload.section import memory_section
    from tfwave.plan.fingerprint import graph_print

    captured = captured_step(bundle)
    fit = Fits(captured.step).within(WITHOUT_LIMIT, Policy.DYMEM)
    assert fit is not None
    return captured, memory_section(fit, graph_print(captured.view), WITHOUT_LIMIT, 1)


def replayed(bundle: Any, captured: Any, plan: Any) -> dict[str, Any]:
    """Each way of placing, as traced and with all offloaded."""
    from tfwave.bundle.memory import captured_memory
    from tfwave.memory.pool.compared import compare
    from tfwave.memory.pool.lives import traced_lives
    from tfwave.offload.planned import planned_lives

    steps = {
        "plain": traced_lives(captured_memory(bundle).memory),
        "all offloaded": planned_lives(captured.step, plan),
    }
    return {
        name: [vars(each) | {"over_peak": round(each.over_peak, 4)} for each in compare(lives)]
        for name, lives in steps.items()
    }


def served(session: Any, pool: Any, bundle: Any) -> dict[str, Any]:
    """The step in the planned pool: bytes as planned, the pool over the live peak, and the time it takes."""
    from tfwave.offload.placed import placed_section
    from tools.bench.memory.limited_models import RESET

    section = placed_section(bundle)
    seconds: dict[str, list[float]] = {"unplanned": [], "planned": []}
    losses: dict[str, set[tuple[bytes, ...]]] = {"unplanned": set(), "planned": set()}
    figures: Any = None
    for _ in range(BLOCKS):
        for mode in seconds:
            session.run(RESET)
            if mode == "planned":
                pool.install(section)
            took, lost = run(session)
            seconds[mode] += took
            losses[mode].add(lost)
            if mode == "planned":
                figures = pool.figures()
                pool.remove()
    return {
        "served": vars(figures)
        | {"share": figures.served_share, "pool_bytes": figures.pool_bytes, "live_peak": figures.live_peak},
        "pool_over_live_peak": round(figures.pool_bytes / figures.live_peak, 4),
        "bit_equal": losses["planned"] == losses["unplanned"] and len(losses["planned"]) == 1,
        "median_ms": {mode: round(statistics.median(took) * 1e3, 2) for mode, took in seconds.items()},
    }


def run(session: Any) -> tuple[list[float], tuple[bytes, ...]]:
    """Seconds and losses of some steps."""
    seconds: list[float] = []
    losses: list[bytes] = []
    for _ in range(TIMED):
        began = time.perf_counter()
        losses.append(session.run(["loss:0", "train"])[0].tobytes())
        seconds.append(time.perf_counter() - began)
    return seconds, tuple(losses)


def main(models: Sequence[str]) -> None:
    print(json.dumps([told(model) for model in models], indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=BATCHES, default=list(BATCHES))
    parser.add_argument("--one", choices=BATCHES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.one)))
    else:
        main(arguments.models)
