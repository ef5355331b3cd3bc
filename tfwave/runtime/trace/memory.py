"""What a step of this process did to the CPU's pool, op by op.

TensorFlow's profiler tells each allocation of a BFC pool, and for which op and step it was. Of ops it leaves out
the cheap ones, as far as they allocate nothing.
"""

import importlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from tfwave.errors import CostError, EnforcerError
from tfwave.proto.profiler_pb2 import XEvent, XPlane, XSpace
from tfwave.runtime.native import tensorflow_version
from tfwave.runtime.trace.xplane import OpRun, read_trace

_ALLOCATION, _DEALLOCATION = b"MemoryAllocation", b"MemoryDeallocation"
_ADDRESS, _BYTES, _ASKED = b"addr", b"allocation_bytes", b"requested_bytes"
_POOL, _STEP, _OP = b"bytes_allocated", b"id", b"tf_op"
_NUMBERS = (_ADDRESS, _BYTES, _ASKED, _POOL, _STEP)
_HOST = b"/host:CPU"
_OPTIONS = {"host_tracer_level": 3, "device_tracer_level": 0, "python_tracer_level": 0}
_PROFILER = "tensorflow.python.profiler.internal._pywrap_profiler"
_SETTLE_SECONDS = 0.05
"""A thread's last ops are in a trace only once the thread is done with them, which is after the step."""


@dataclass(frozen=True)
class Allocation:
    """A buffer; times in seconds since the begin of the trace.

    `freed` is None if it outlived the trace. `asked` are those of its bytes that were asked for; 0: not known.
    """

    step: int
    node: str
    bytes: int
    at: float
    freed: float | None = None
    asked: int = 0


@dataclass(frozen=True)
class MemoryTrace:
    """What was run and allocated while the process was traced, by time.

    `others` has the bytes of each buffer from before that was freed in it, with the time; `pool` those that all had
    in the pool, after each allocation and each free.
    """

    ops: tuple[OpRun, ...]
    allocations: tuple[Allocation, ...]
    others: tuple[tuple[float, int], ...]
    pool: tuple[tuple[float, int], ...] = ()

    def of_step(self, nodes: Container[str]) -> "MemoryTrace":
        """What the step did that allocated the most by these nodes."""
        held: Counter[int] = Counter()
        for allocation in self.allocations:
            if allocation.node in nodes:
                held[allocation.step] += allocation.bytes
        if not held:
            return replace(self, ops=(), allocations=())
        most = max(held.values())
        step = min(step for step, size in held.items() if size == most)
        return replace(
            self,
            ops=tuple(run for run in self.ops if run.step == step),
            allocations=tuple(a for a in self.allocations if a.step == step),
        )


def trace_memory(run: Callable[[], Any]) -> tuple[Any, MemoryTrace]:
    """Run something in this thread and trace the process meanwhile; what it returns, and the trace.

    Raises:
        EnforcerError: the process is being profiled already, TensorFlow's profiler is not the one known here, or
            there is no room for what it writes.
        EnvironmentUnsupported: there is no TensorFlow, or tfwave does not support it.
    """
    session = _session()
    with tempfile.TemporaryDirectory(prefix="tfwave-trace-") as folder:
        _start(session, folder)
        try:
            value = run()
            time.sleep(_SETTLE_SECONDS)
        finally:
            _export(session, folder)
        (written,) = Path(folder).rglob("*.xplane.pb")
        return value, read_memory(written.read_bytes())


def _session() -> Any:
    """TensorFlow's own session: `tf.profiler.experimental.start` ignores the level of detail in 2.20 and 2.21."""
    version = tensorflow_version()
    try:
        session = importlib.import_module(_PROFILER).ProfilerSession()
    except (ImportError, AttributeError, TypeError) as err:
        raise _unknown(version) from err
    if not (hasattr(session, "start") and hasattr(session, "export_to_tb")):
        raise _unknown(version)
    return session


def _start(session: Any, folder: str) -> None:
    errors: Any = importlib.import_module("tensorflow").errors
    try:
        session.start(folder, _OPTIONS)
    except errors.OpError as err:
        raise EnforcerError(
            f"this process is being profiled already ({err.message}): profile it later"
        ) from err
    except TypeError as err:
        raise _unknown(tensorflow_version()) from err


def _export(session: Any, folder: str) -> None:
    """End the trace. What TensorFlow raises where it cannot write reads as if the pool had no room."""
    errors: Any = importlib.import_module("tensorflow").errors
    try:
        session.export_to_tb()
    except errors.OpError as err:
        raise EnforcerError(
            f"a trace of this process cannot be written to {folder} ({err.message}): make room there, or set TMPDIR"
        ) from err


def _unknown(version: str) -> EnforcerError:
    return EnforcerError(
        f"TensorFlow {version} has not the ProfilerSession of its builds on PyPI, which tells what a step "
        "allocates: install one of those"
    )


def read_memory(data: bytes) -> MemoryTrace:
    """Read a serialized XSpace of TensorFlow's host tracer, level 2 or more.

    Raises:
        CostError: it is no XSpace.
    """
    try:
        space = XSpace.FromString(data)
    except DecodeError as err:
        raise CostError(f"the profile is damaged ({err}): trace again") from err
    events = sorted(
        (event for plane in space.planes if plane.name == _HOST for event in _pool_events(plane)),
        key=lambda event: (event.at, event.takes, event.address),
    )
    made, others = _paired(events)
    pool = tuple((event.at, event.pool) for event in events)
    return MemoryTrace(read_trace(data).ops, tuple(made), tuple(others), pool)


def _paired(events: Iterable["_PoolEvent"]) -> tuple[list[Allocation], list[tuple[float, int]]]:
    """Buffers with when they were freed, and what was freed of those from before.

    Threads note the time after the pool has done it: a place that is taken while it is held was freed before, and
    tells that next.
    """
    made: list[Allocation] = []
    others: list[tuple[float, int]] = []
    held: dict[int, int] = {}
    late: Counter[int] = Counter()
    for event in events:
        if event.takes:
            if event.address in held:
                late[event.address] += 1
                _free(made, held[event.address], event.at)
            held[event.address] = len(made)
            made.append(Allocation(event.step, event.node, event.bytes, event.at, asked=event.asked))
        elif late[event.address]:
            late[event.address] -= 1
        elif event.address in held:
            _free(made, held.pop(event.address), event.at)
        else:
            others.append((event.at, event.bytes))
    return made, others


def _free(made: list[Allocation], place: int, at: float) -> None:
    made[place] = replace(made[place], freed=at)


@dataclass(frozen=True)
class _PoolEvent:
    at: float
    takes: bool
    address: int
    bytes: int
    asked: int
    pool: int
    step: int
    node: str


def _pool_events(plane: XPlane) -> Iterator[_PoolEvent]:
    kinds = {key: metadata.name for key, metadata in plane.event_metadata.items()}
    stats = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
    for line in plane.lines:
        for event in line.events:
            kind = kinds.get(event.metadata_id, b"")
            if kind in {_ALLOCATION, _DEALLOCATION}:
                at = (line.timestamp_ns * 1000 + event.offset_ps) / 1e12
                yield _pool_event(event, stats, at, takes=kind == _ALLOCATION)


def _pool_event(event: XEvent, stats: Mapping[int, bytes], at: float, *, takes: bool) -> _PoolEvent:
    numbers: Counter[bytes] = Counter()
    node = b""
    for stat in event.stats:
        name = stats.get(stat.metadata_id, b"")
        if name == _OP:
            node = stats.get(stat.ref_value, b"") or stat.str_value
        elif name in _NUMBERS:
            numbers[name] = stat.uint64_value or stat.int64_value
    told = (numbers[_ADDRESS], numbers[_BYTES], numbers[_ASKED], numbers[_POOL], numbers[_STEP])
    return _PoolEvent(at, takes, *told, node.decode(errors="replace"))
