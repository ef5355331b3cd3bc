"""Capturing steps of a live `tf.compat.v1.Session`, local or on a cluster."""

import importlib
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfwave.bundle.bundle import Bundle, check_place, expected_arrivals, save_bundle, traced_arrivals
from tfwave.capture.timed import (
    DEFAULT_STEPS,
    DEFAULT_WARMUP,
    StepTime,
    TracedStep,
    bundle_of,
    check_counts,
    timed,
    untraced_core_seconds,
)
from tfwave.errors import BundleError, GraphError
from tfwave.graph.marks import STEP_MARKER_OP
from tfwave.graph.names import Channel
from tfwave.graph.step import step_of
from tfwave.proto.tensorflow_pb2 import GraphDef, StepStats

EXTRA_STEPS = 8
"""So many more steps are traced at most, for transfers whose events TensorFlow lost in all before."""


def capture_run(  # noqa: PLR0913
    session: Any,
    fetches: Any,
    feed_dict: Any = None,
    *,
    out: str | Path,
    steps: int = DEFAULT_STEPS,
    warmup: int = DEFAULT_WARMUP,
) -> Bundle:
    """Run a step `warmup` + `steps` times, trace the last `steps`, and write a bundle to `out`.

    TensorFlow loses events now and then: until each transfer was seen once, up to 8 more steps are traced.

    Raises:
        BundleError: `out` cannot be written, a count is out of range, or it is no plain session, such as a
            MonitoredSession: then nothing was run.
    """
    check_place(out)
    with _tracing(session, steps, warmup) as tracer:
        while not tracer.is_done:
            session.run(fetches, feed_dict)
    bundle = tracer.bundle()
    save_bundle(bundle, out)
    return bundle


@contextmanager
def capture_session(
    session: Any, *, out: str | Path, steps: int = DEFAULT_STEPS, warmup: int = DEFAULT_WARMUP
) -> Generator["Tracer"]:
    """Trace the calls of `session.run` inside the block; at its end write a bundle to `out`.

    The first `warmup` calls run untraced, the next `steps` traced, the rest untraced; but until each transfer was
    seen once, up to 8 more are traced, as TensorFlow loses events now and then. Calls with other fetches than the
    first one's, with `options` of their own, or beside one of another thread, pass untouched. `session.run` is
    restored at the end, also after an exception (then nothing is written). Blocks may lie in blocks.

    Raises:
        BundleError: as `capture_run`, before the block runs; or no step was traced in it.
    """
    check_place(out)
    with _tracing(session, steps, warmup) as tracer:
        yield tracer
    save_bundle(tracer.bundle(), out)


class Tracer:
    """Stands in for `session.run` while a capture is under way."""

    def __init__(self, session: Any, steps: int, warmup: int) -> None:
        """Trace `steps` calls after `warmup` others."""
        self._graph = session.graph
        self._target = _text(session.sess_str)
        self._devices = sorted(device.name for device in session.list_devices())
        self._run = session.run
        self._steps = steps
        self._warmup = warmup
        self._left_to_warm_up = warmup
        self._fetches: tuple[str, ...] | None = None
        self._graphs: tuple[GraphDef, ...] = ()
        self._unseen: frozenset[tuple[str, Channel]] = frozenset()
        self._traced: list[TracedStep] = []
        self._untraced: list[StepTime] = []
        self._under_way = threading.Lock()

    @property
    def is_done(self) -> bool:
        """Whether no further step is traced."""
        extra = len(self._traced) - self._steps
        return extra >= 0 and (extra >= EXTRA_STEPS or not self._unseen)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Run a step, traced if it is its turn; TensorFlow traces one at a time."""
        if not self._under_way.acquire(blocking=False):
            return self._run(fetches, feed_dict, options, run_metadata)
        try:
            return self._run_in_turn(fetches, feed_dict, options, run_metadata)
        finally:
            self._under_way.release()

    def _run_in_turn(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        names = _names(fetches)
        if self._fetches is None:
            self._fetches = names
        if names != self._fetches or options is not None or self.is_done:
            return self._run(fetches, feed_dict, options, run_metadata)
        if self._left_to_warm_up:
            self._left_to_warm_up -= 1
            result, taken = timed(lambda: self._run(fetches, feed_dict, None, run_metadata))
            self._untraced.append(taken)
            return result
        return self._traced_run(fetches, feed_dict)

    def bundle(self) -> Bundle:
        """What was traced.

        Raises:
            BundleError: nothing was.
        """
        if not self._traced:
            raise BundleError(
                f"no step was traced: run the session more than {self._warmup} times, each time with the fetches "
                f"of the first, [{', '.join(self._fetches or ())}], and without options"
            )
        bundle = bundle_of(
            self._graphs,
            self._traced,
            target=self._target,
            devices=self._devices,
            fetches=self._fetches or (),
            warmup=self._warmup,
        )
        worked = untraced_core_seconds(self._untraced)
        manifest = bundle.manifest.model_copy(update={"untraced_core_seconds": worked})
        return replace(bundle, manifest=manifest, own=self._own_step())

    def _own_step(self) -> GraphDef | None:
        """The step in the session's graph; None where a fetch is no tensor or node of it."""
        graph = GraphDef.FromString(self._graph.as_graph_def().SerializeToString())
        try:
            return step_of(graph, self._fetches or ())
        except GraphError:
            return None

    def _traced_run(self, fetches: Any, feed_dict: Any) -> Any:
        v1 = _tensorflow().compat.v1
        options = v1.RunOptions(
            trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=not self._graphs
        )
        metadata = v1.RunMetadata()
        result, taken = timed(lambda: self._run(fetches, feed_dict, options, metadata))
        if not self._graphs:
            self._graphs = tuple(_own_graph(graph) for graph in metadata.partition_graphs)
            self._unseen = expected_arrivals(self._graphs)
        stats = StepStats.FromString(metadata.step_stats.SerializeToString())
        self._unseen -= traced_arrivals(stats)
        self._traced.append(TracedStep(taken, stats))
        return result


@contextmanager
def _tracing(session: Any, steps: int, warmup: int) -> Generator[Tracer]:
    check_counts(steps, warmup)
    if not hasattr(session, "list_devices"):
        raise BundleError(
            f"{session!r} does not tell its devices: give a tf.compat.v1.Session; that of a MonitoredSession is "
            "what its hooks get in after_create_session"
        )
    tracer = Tracer(session, steps, warmup)
    before = session.__dict__.get("run")
    session.run = tracer.run
    try:
        yield tracer
    finally:
        del session.run
        if before is not None:
            session.run = before


def _own_graph(graph: Any) -> GraphDef:
    """A partition graph in our own message type, without the nodes that the send hook adds."""
    own = GraphDef.FromString(graph.SerializeToString())
    kept = [node for node in own.node if node.op != STEP_MARKER_OP]
    if len(kept) < len(own.node):
        copy = GraphDef(node=kept)
        del own.node[:]
        own.node.extend(copy.node)
    return own


def _names(fetches: Any) -> tuple[str, ...]:
    flat: Sequence[Any] = _tensorflow().nest.flatten(fetches, expand_composites=True)
    return tuple(str(getattr(fetch, "name", fetch)) for fetch in flat)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _tensorflow() -> Any:
    return importlib.import_module("tensorflow")
