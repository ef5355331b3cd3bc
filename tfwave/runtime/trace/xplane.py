"""Reading what TensorFlow's profiler saw of the steps of one process."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from tfwave.errors import CostError
from tfwave.graph.names import Channel
from tfwave.proto.profiler_pb2 import XEvent, XLine, XPlane, XSpace

_HOST = b"/host:CPU"
_ENVIRONMENT = b"Task Environment"
_PROCESS = "ExecutorState::Process"
_LAUNCH = "ExecutorState::ProcessAsync::Start"
_DONE = "ExecutorState::ProcessAsync::Done"
_RUN = "FunctionRun"
_CALL = re.compile(r"EagerLocalExecute(?:Async)?: (?P<function>.+?)(?:_partitioned_\d+_\d+)?")
_OP = re.compile(r"(?P<node>[^:]+):(?P<op>[^:]+)")
_KEY = re.compile(r"(?P<source>[^;]+);[^;]*;(?P<destination>[^;]+);(?P<edge>[^;]+);[^;]*")
_STEP, _PRODUCER, _CONSUMED, _WIRE_KEY = "id", "_p", "_c", "key"
_NUMBERS = frozenset({_STEP, _PRODUCER, _CONSUMED})


@dataclass(frozen=True)
class OpRun:
    """One run of a kernel; `start_seconds` counts from the begin of the trace.

    `step` is TensorFlow's id of the step, one in all processes that run a part of it.
    """

    step: int
    node: str
    op: str
    start_seconds: float
    seconds: float


@dataclass(frozen=True)
class WireRun:
    """One run of a `_Send` or `_Recv`, by its wire name; seconds since the begin of the trace.

    A send ends when the tensor waits to be fetched. A receive starts when it asks for the tensor and ends when
    the tensor is there.
    """

    step: int
    edge: str
    channel: Channel
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Trace:
    """What one process ran while it was traced, by start; what had not ended with the trace is left out.

    `functions` has the function of each step that began in the trace, under the name that
    `tfwave.capture.function.function_name` gives it. `begin_nanos` is the host's clock, since the epoch.
    """

    begin_nanos: int
    functions: Mapping[int, str]
    ops: tuple[OpRun, ...]
    sends: tuple[WireRun, ...]
    receives: tuple[WireRun, ...]


def op_samples(trace: Trace, function: str) -> dict[str, tuple[float, ...]]:
    """The seconds of each run of each op of a function, in the order of the runs; a loop's op runs many times.

    Nodes are those of the optimized graph: what TensorFlow folded away, fused into another node, or did not run
    (a branch not taken, a NoOp, a Const) has no samples. A function that it did not inline is one op, its call.

    Raises:
        CostError: no step of the function began in the trace; names those that did.
    """
    if function not in trace.functions.values():
        seen = ", ".join(sorted(set(trace.functions.values()))) or "none"
        raise CostError(f"no step of function '{function}' was traced (seen: {seen}): trace while it runs")
    samples: dict[str, list[float]] = defaultdict(list)
    for run in trace.ops:
        if trace.functions.get(run.step) == function:
            samples[run.node].append(run.seconds)
    return {node: tuple(samples[node]) for node in sorted(samples)}


def read_trace(data: bytes) -> Trace:
    """Read a serialized XSpace of TensorFlow's host tracer, level 3 (below it, cheap ops are missing).

    Events are on one line for each thread, and nest by time:

    1. A kernel is an event ``node:Op`` directly inside an `ExecutorState::Process`, which tells the step.
    2. An asynchronous kernel is such an event too, but ends with its launch: it has an
       `ExecutorState::ProcessAsync::Start` inside, and the kernel ends at the begin of the `Done`, on whatever
       thread, that names the same producer.
    3. A `_Send` or `_Recv` is one of these with the rendezvous key.
    4. A step's function is told by the call around its `FunctionRun`. On other tasks than the one that was asked
       to run it, TensorFlow appends ``_partitioned_<hash>_<number>`` to the name.

    Raises:
        CostError: it is no XSpace.
    """
    try:
        space = XSpace.FromString(data)
    except DecodeError as err:
        raise CostError(f"the profile is damaged ({err}): trace again") from err
    spans = [span for plane in space.planes if plane.name == _HOST for span in _spans(plane)]
    ops, wires = _runs(spans)
    return Trace(
        begin_nanos=_begin_nanos(space),
        functions=_functions(spans),
        ops=tuple(sorted(ops, key=lambda run: (run.start_seconds, run.node, run.seconds))),
        sends=_wire_runs(wires, "_Send"),
        receives=_wire_runs(wires, "_Recv"),
    )


@dataclass(frozen=True, eq=False)
class _Span:
    """An event, in picoseconds since the begin of the trace; `parent` is the one that it nests in.

    `stats` has the ids that it carries, `key` is the rendezvous key, if any.
    """

    name: str
    start: int
    end: int
    stats: Mapping[str, int]
    key: str
    parent: "_Span | None"

    @property
    def inside(self) -> str:
        return self.parent.name if self.parent else ""


def _runs(spans: list[_Span]) -> tuple[list[OpRun], list[tuple[str, WireRun]]]:
    """Cases 1 to 3 of `read_trace`; wire runs by their op type."""
    launches = {span.parent: span.stats.get(_PRODUCER) for span in spans if span.name == _LAUNCH}
    done = {span.stats.get(_CONSUMED): span.start for span in spans if span.name == _DONE}
    ops: list[OpRun] = []
    wires: list[tuple[str, WireRun]] = []
    for span in spans:
        match = _OP.fullmatch(span.name)
        end = done.get(launches[span]) if span in launches else span.end
        if not match or span.parent is None or span.inside != _PROCESS or end is None:
            continue
        step, start, end = span.parent.stats.get(_STEP, 0), span.start / 1e12, end / 1e12
        if key := _KEY.fullmatch(span.key):
            channel = Channel(key["source"], key["destination"])
            wires.append((match["op"], WireRun(step, key["edge"], channel, start, end)))
        else:
            ops.append(OpRun(step, match["node"], match["op"], start, end - start))
    return ops, wires


def _wire_runs(wires: list[tuple[str, WireRun]], op: str) -> tuple[WireRun, ...]:
    found = (run for kind, run in wires if kind == op)
    return tuple(sorted(found, key=lambda run: (run.start_seconds, run.edge, run.channel)))


def _functions(spans: list[_Span]) -> dict[int, str]:
    """Case 4 of `read_trace`."""
    found: dict[int, str] = {}
    for span in spans:
        if span.name == _RUN and (match := _CALL.fullmatch(span.inside)):
            found[span.stats.get(_STEP, 0)] = match["function"]
    return dict(sorted(found.items()))


def _spans(plane: XPlane) -> Iterator[_Span]:
    names = {key: _text(metadata.name) for key, metadata in plane.event_metadata.items()}
    wanted = {key: name for key, name in names.items() if _is_wanted(name)}
    stats = {key: _text(metadata.name) for key, metadata in plane.stat_metadata.items()}
    for line in plane.lines:
        yield from _nested(line, wanted, stats)


def _is_wanted(name: str) -> bool:
    return name in {_PROCESS, _LAUNCH, _DONE, _RUN} or bool(_OP.fullmatch(name))


def _nested(line: XLine, names: Mapping[int, str], stats: Mapping[int, str]) -> Iterator[_Span]:
    """The named events of one thread, each after the one around it."""
    events = [event for event in line.events if event.metadata_id in names]
    open_spans: list[_Span] = []
    for event in sorted(events, key=lambda e: (e.offset_ps, -e.duration_ps)):
        start = line.timestamp_ns * 1000 + event.offset_ps
        while open_spans and open_spans[-1].end <= start:
            open_spans.pop()
        parent = open_spans[-1] if open_spans else None
        name, end = names[event.metadata_id], start + event.duration_ps
        numbers, key = _known_stats(event, stats)
        open_spans.append(_Span(name, start, end, numbers, key, parent))
        yield open_spans[-1]


def _known_stats(event: XEvent, names: Mapping[int, str]) -> tuple[dict[str, int], str]:
    """The ids, and the rendezvous key, that an event carries."""
    numbers: dict[str, int] = {}
    key = ""
    for stat in event.stats:
        name = names.get(stat.metadata_id, "")
        if name in _NUMBERS:
            numbers[name] = stat.uint64_value or stat.int64_value
        elif name == _WIRE_KEY:
            key = names.get(stat.ref_value, "") or _text(stat.str_value)
    return numbers, key


def _begin_nanos(space: XSpace) -> int:
    for plane in space.planes:
        for stat in plane.stats:
            name = plane.stat_metadata[stat.metadata_id].name
            if plane.name == _ENVIRONMENT and name == b"profile_start_time":
                return stat.uint64_value
    return 0


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
