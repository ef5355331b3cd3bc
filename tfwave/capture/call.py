"""Capturing steps of a `tf.function` of this process."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tfwave.bundle.bundle import Bundle, check_place, save_bundle
from tfwave.capture.memory.told import told_bundle
from tfwave.capture.timed import DEFAULT_STEPS, DEFAULT_WARMUP, StepTime, check_counts, timed
from tfwave.errors import BundleError
from tfwave.graph.flow_ops import CALL_OPS
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.live.instances import FunctionInstance
from tfwave.runtime.live.retrace import is_function, run_eagerly
from tfwave.runtime.pool import any_pool_limit
from tfwave.runtime.trace.memory import MemoryTrace, trace_memory


def capture_function(
    step: Any, *batch: Any, out: str | Path, steps: int = DEFAULT_STEPS, warmup: int = DEFAULT_WARMUP
) -> Bundle:
    """Call a `tf.function` `warmup` + `steps` times with a batch, trace the last `steps`, write a bundle to `out`.

    Of a Keras model, capture ``tf.function(model.train_step)``; its batch is one argument, ``(x, y)``. Each call
    trains. The bundle tells of the CPU's pool, which `tfwave.colocate.limit_memory` or `planned_pool` sets up.

    Raises:
        BundleError: `out` cannot be written, a count is out of range (the first call of `warmup` shows the graph),
            or the step is no `tf.function`, or does not run as one graph on one CPU.
        EnforcerError: the CPU's pool has no limit, or the process is being profiled.
    """
    check_place(out)
    bundle = traced_function(step, *batch, steps=steps, warmup=warmup)
    save_bundle(bundle, out)
    return bundle


def traced_function(step: Any, *batch: Any, steps: int, warmup: int) -> Bundle:
    """The same, in memory only.

    Raises:
        BundleError, EnforcerError: as `capture_function`, but for `out`.
    """
    check_counts(steps, warmup, least_warmup=1)
    if not is_function(step):
        raise BundleError(f"the step is {step!r}: give a tf.function, such as tf.function(model.train_step)")
    any_pool_limit()
    _check_traced(step.get_concrete_function(*batch))
    instance = FunctionInstance(step)
    run = partial(instance, *batch)
    graph = _on_one_cpu(instance.first(*batch)[1])
    for _ in range(warmup - 1):
        run()
    given = instance.given(*batch)
    return told_bundle([graph], graph, [_traced(run) for _ in range(steps)], given, warmup)


def _traced(run: Any) -> tuple[StepTime, MemoryTrace]:
    (_, taken), trace = trace_memory(lambda: timed(run, time.process_time))
    return taken, trace


def _check_traced(concrete: Any) -> None:
    """Refuse what does not run as a graph of ops."""
    if run_eagerly() or concrete.function_def.attr["_XlaMustCompile"].b:
        raise BundleError(
            "TensorFlow runs the step without a graph of ops: do without jit_compile=True, and without "
            "tf.config.run_functions_eagerly(True)"
        )


def _on_one_cpu(graphs: Sequence[GraphDef]) -> GraphDef:
    """The graph of the step."""
    devices = sorted({node.device for graph in graphs for node in graph.node})
    if len(devices) != 1 or "/device:CPU:" not in devices[0]:
        raise BundleError(
            f"the step runs on {', '.join(devices)}: place all of it on one CPU, with tf.device('CPU:0')"
        )
    (graph,) = graphs
    for node in graph.node:
        if node.op in CALL_OPS:
            raise BundleError(
                f"node '{node.name}' calls a function that TensorFlow does not inline, and which is traced apart: "
                "do without jit_compile=True and _noinline in the functions that the step calls"
            )
    return graph
