"""A step in two waves, made to fit before that or after it, and as it is; prints what came out.

A peak is the least of several steps': what comes on top, as a copy is done late or an op could not continue in
a buffer of another, is chance where other processes share the cores. One thread runs the ops, so that it is
not chance, too, how far the waves overlap.
A process of its own, as the pool is there once for all that it runs. The optimizer is off.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["TFWAVE_TEST_OPTIMIZER"] = "off"

from tests.numerics.memory.fitted_job import InSession, all_away, config, peak_of_last

STEPS, TRACED, TIMES, SHARE = 10, 8, 16, 0.8

import tensorflow as tf  # noqa: E402

from grappler_passes.tick_tock import TickTock  # noqa: E402
from tests.numerics.memory.fitted_models import BATCH, bert  # noqa: E402
from tests.rewrites import in_order  # noqa: E402
from tfwave.capture.session import capture_run  # noqa: E402
from tfwave.graph.item import GraphItem  # noqa: E402
from tfwave.graph.names import parse_input  # noqa: E402
from tfwave.graph.own_ops import own_ops  # noqa: E402
from tfwave.offload.captured import captured_step  # noqa: E402
from tfwave.offload.question import Question  # noqa: E402
from tfwave.passes.registry import find_pass  # noqa: E402
from tfwave.plan.plan import Plan  # noqa: E402
from tfwave.proto.tensorflow_pb2 import GraphDef, OpDef  # noqa: E402
from tfwave.rewrite.waves.names import wave_name  # noqa: E402
from tfwave.runtime.allocator import one_region  # noqa: E402
from tfwave.runtime.stash import load_stash_ops, stash_figures  # noqa: E402

v1 = tf.compat.v1


def session_of(item: GraphItem) -> Any:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(v1.GraphDef.FromString(item.graph.SerializeToString()), name="")
    session = v1.Session(graph=graph, config=config(threads=1))
    session.run("init")
    return session


def trained(item: GraphItem, values: list[str]) -> dict[str, Any]:
    """Losses, and the variables of all waves."""
    losses: list[str] = []
    peaks: list[int] = []
    there = {node.name for node in item.graph.node}
    kept = [
        name for value in values for name in (value, wave_name(value, 1)) if parse_input(name).node in there
    ]
    with session_of(item) as session:
        for _ in range(STEPS):
            tf.config.experimental.reset_memory_stats("CPU:0")
            losses += [float(v).hex() for v in session.run(list(item.fetches)) if v is not None]
            peaks.append(peak_of_last())
        ends = [value.tobytes().hex() for value in session.run(kept)]
    return {"losses": losses, "values": ends, "peak": min(peaks[1:])}


def planned(item: GraphItem, out: Path) -> tuple[Plan, int]:
    """For so much of what it holds as it is that a tenth stays free, and that much."""
    with session_of(item) as session:
        captured = captured_step(capture_run(session, list(item.fetches), out=out, steps=TRACED, warmup=1))
    limit = round(SHARE * captured.found.peak)
    return Question(captured, None, limit).plan(), limit


def known_ops() -> bool:
    """Are the ops of the library what tfwave takes them for?"""
    registry: Any = __import__("tensorflow.python.framework.op_def_registry", fromlist=["get"])
    return all(_trimmed(registry.get(op.name)) == op for op in own_ops())


def _trimmed(registered: Any) -> OpDef:
    op = OpDef.FromString(registered.SerializeToString())
    op.ClearField("summary")
    op.ClearField("description")
    return op


def main(out: Path) -> None:
    one_region()
    load_stash_ops()
    job = InSession(lambda variables: bert(variables, TIMES * BATCH), out / "step", TRACED)
    graph = GraphDef.FromString(job.graph.as_graph_def().SerializeToString())
    item = GraphItem(graph, fetches=("loss:0", "train"))
    make: Any = find_pass("fit_memory")
    waves, plan = TickTock(2), all_away(job.bundle)
    alone = waves(item).item
    later, limit = planned(alone, out / "waves")
    assert plan.memory is not None
    before, after = waves(make(plan)(item).item).item, make(later)(alone).item
    strip: Any = find_pass("strip")
    json.dump(
        {
            "known": known_ops(),
            "undone": all(in_order(strip()(each).item.graph) == in_order(graph) for each in (before, after)),
            "alone": trained(alone, job.values),
            "before": trained(before, job.values),
            "after": trained(after, job.values),
            "promised": 2 * plan.memory.peak_bytes,
            "limit": limit,
            "moved": stash_figures().back.bytes,
            "left": [stash_figures().tensors, stash_figures().held_bytes],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
