"""A process of its own, as the pool is there once for all that it runs: steps that are made to fit, and plain ones.

python -m tests.numerics.memory.fitted_job BUNDLES

The optimizer is off or on, as TFWAVE_TEST_OPTIMIZER says, for sessions and functions alike.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfwave.runtime.allocator import AllocatorSettings, one_region, set_up

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
set_up(AllocatorSettings(256 << 20))

import tensorflow as tf  # noqa: E402

from tests.full import few_or  # noqa: E402
from tests.numerics.memory.fitted_models import MODELS, RATE, Loss, Variables, bert, large, sliced  # noqa: E402
from tfwave.bundle.bundle import Bundle  # noqa: E402
from tfwave.capture.call import capture_function  # noqa: E402
from tfwave.capture.session import capture_run  # noqa: E402
from tfwave.graph.item import GraphItem  # noqa: E402
from tfwave.offload.captured import captured_step  # noqa: E402
from tfwave.offload.choice import Choice, Prices  # noqa: E402
from tfwave.offload.fit import Fit, Policy  # noqa: E402
from tfwave.offload.forecast import forecast  # noqa: E402
from tfwave.offload.layout import Layout, Method  # noqa: E402
from tfwave.offload.orders import lean_order  # noqa: E402
from tfwave.offload.section import memory_section  # noqa: E402
from tfwave.passes.base import Transform  # noqa: E402
from tfwave.passes.text import parse_pipeline  # noqa: E402
from tfwave.plan.fingerprint import graph_print  # noqa: E402
from tfwave.plan.plan import Plan  # noqa: E402
from tfwave.proto.tensorflow_pb2 import GraphDef  # noqa: E402
from tfwave.runtime.live.grappler import in_grappler  # noqa: E402
from tfwave.runtime.live.install import install  # noqa: E402
from tfwave.runtime.live.instances import FunctionInstance  # noqa: E402
from tfwave.runtime.stash import load_stash_ops, stash_figures  # noqa: E402

v1 = tf.compat.v1
STEPS = few_or(8, 50)
OPTIMIZER = os.environ["TFWAVE_TEST_OPTIMIZER"] == "on"


def all_away(bundle: Bundle) -> Plan:
    """All tensors that can be away are, every other that can by running ops again; in the lean order."""
    captured = captured_step(bundle)
    layout = Layout.of(captured.step, lean_order(captured.step), 0)
    methods = Choice.all_of(layout, Method.OFFLOAD).methods
    methods[[n for n, c in enumerate(layout.candidates) if c.chain and n % 2]] = Method.RECOMPUTE
    choice = Choice.of(layout, methods)
    fit = Fit(Policy.GREEDY, forecast(choice, choice.peak), Prices(layout), choice.peak)
    section = memory_section(fit, graph_print(captured.view), choice.peak, choice.peak)
    return Plan(memory=section)


def config(threads: int = 2) -> Any:
    made = v1.ConfigProto(
        inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1, use_per_session_threads=True
    )
    made.graph_options.rewrite_options.disable_meta_optimizer = not OPTIMIZER
    return made


def peak_of_last() -> int:
    return tf.config.experimental.get_memory_info("CPU:0")["peak"]


class InSession:
    """A model's step in graphs of a session."""

    def __init__(self, model: Callable[[Variables], Loss], out: Path, traced: int = 3) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            v1.set_random_seed(1)
            var = Variables()
            loss = tf.identity(model(var)(), name="loss")
            v1.train.MomentumOptimizer(RATE, 0.9).minimize(loss, name="train")
            tf.group(v1.global_variables_initializer(), name="init")
            self.values = [variable.value().name for variable in v1.global_variables()]
        out.parent.mkdir(exist_ok=True)
        out.with_suffix(".pb").write_bytes(self.graph.as_graph_def().SerializeToString())
        with v1.Session(graph=self.graph, config=config()) as session:
            session.run("init")
            self.bundle = capture_run(session, ["loss:0", "train"], out=out, steps=traced)

    def plain(self) -> dict[str, Any]:
        return self._ran(self.graph)

    def rewritten(self, passes: Transform) -> dict[str, Any]:
        if OPTIMIZER:
            with in_grappler(passes):
                return self._ran(self.graph)
        item = GraphItem(GraphDef.FromString(self.graph.as_graph_def().SerializeToString()))
        graph_def = v1.GraphDef.FromString(passes(item).item.graph.SerializeToString())
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
        return self._ran(graph)

    def _ran(self, graph: Any) -> dict[str, Any]:
        with v1.Session(graph=graph, config=config()) as session:
            session.run("init")
            losses, peaks = [], []
            for _ in range(STEPS):
                tf.config.experimental.reset_memory_stats("CPU:0")
                losses.append(session.run(["loss:0", "train"])[0])
                peaks.append(peak_of_last())
            values = session.run(self.values)
        return told(losses, values, peaks)


class InFunction:
    """A model's step as a `tf.function`."""

    def __init__(self, model: Callable[[Variables], Loss], out: Path) -> None:
        tf.random.set_seed(1)
        self.var = Variables()
        loss_of = model(self.var)

        @tf.function
        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of()
            gradients = tape.gradient(loss, self.var.trained)
            for variable, gradient in zip(self.var.trained, gradients, strict=True):
                variable.assign_sub(RATE * tf.convert_to_tensor(gradient))
            return loss

        self.step = step
        self.variables = [*self.var.trained, *self.var.moved]
        self.first = [variable.numpy() for variable in self.variables]
        self.bundle = capture_function(step, out=out, steps=3)

    def plain(self) -> dict[str, Any]:
        return self._ran(FunctionInstance(self.step))

    def rewritten(self, passes: Transform) -> dict[str, Any]:
        if OPTIMIZER:
            with in_grappler(passes):
                return self._ran(FunctionInstance(self.step))
        with install(self.step, passes):
            return self._ran(self.step)

    def _ran(self, step: Any) -> dict[str, Any]:
        for variable, first in zip(self.variables, self.first, strict=True):
            variable.assign(first)
        losses, peaks = [], []
        for _ in range(STEPS):
            tf.config.experimental.reset_memory_stats("CPU:0")
            losses.append(step().numpy())
            peaks.append(peak_of_last())
        return told(losses, [variable.numpy() for variable in self.variables], peaks)


def told(losses: Sequence[Any], values: Sequence[Any], peaks: Sequence[int]) -> dict[str, Any]:
    return {
        "losses": [float(loss).hex() for loss in losses],
        "values": [value.tobytes().hex() for value in values],
        "peak": sorted(peaks[2:])[len(peaks) // 2],
    }


def compared(job: InSession | InFunction) -> dict[str, Any]:
    plan = all_away(job.bundle)
    assert plan.memory is not None
    plain, fitted = job.plain(), job.rewritten(parse_pipeline("fit_memory", plan))
    undone = job.plain()
    return {
        "losses": fitted["losses"] == plain["losses"],
        "values": fitted["values"] == plain["values"],
        "different": len(set(plain["losses"])),
        "undone": undone["losses"] == plain["losses"],
        "away": [len(plan.memory.away(method)) for method in ("offload", "recompute")],
        "promised": plan.memory.peak_bytes,
        "peaks": [plain["peak"], fitted["peak"]],
        "stashed": stash_figures().out.bytes,
        "left": stash_figures().tensors,
    }


def slices(bundle: Bundle) -> dict[str, list[int]]:
    """Of each product that slices lie in: how many ops use it besides; and those that could be away."""
    step = captured_step(bundle).step
    layout = Layout.of(step, lean_order(step), 0)
    products = {f"MatMul{name}:0" for name in ("", "_1", "_2")}
    made = [number for number, buffer in enumerate(step.buffers) if buffer.names[0] in products]
    readers = [
        len({*step.buffers[n].uses} - {step.buffers[n].writers[0], *step.buffers[n].slices}) for n in made
    ]
    return {"readers": readers, "away": [n for n in made if n in layout.number_of]}


def main(bundles: Path) -> None:
    """For each model, and for one of them as a function: what became of it."""
    one_region()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not OPTIMIZER})
    load_stash_ops()
    found: dict[str, Any] = {
        name: compared(InSession(model, bundles / name)) for name, model in MODELS.items()
    }
    found["function"] = compared(InFunction(bert, bundles / "function"))
    ways = InSession(sliced, bundles / "slices"), InFunction(sliced, bundles / "slices_of_function")
    found["slices"] = [slices(job.bundle) for job in ways]
    if not OPTIMIZER:
        InSession(large, bundles / "large")
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
