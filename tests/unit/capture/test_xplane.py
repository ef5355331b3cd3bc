"""Reading traces that were made by hand: each case of `read_trace`, and what must be left out."""

from typing import Any

import pytest

from tfwave.errors import CostError
from tfwave.graph.names import Channel
from tfwave.proto.profiler_pb2 import XEvent, XLine, XPlane, XSpace
from tfwave.runtime.trace.xplane import OpRun, WireRun, op_samples, read_trace

CALL = "EagerLocalExecute: __inference_step_9"
PROCESS = "ExecutorState::Process"
START = "ExecutorState::ProcessAsync::Start"
DONE = "ExecutorState::ProcessAsync::Done"
KEY = "/job:ps/replica:0/task:0/device:CPU:0;00ab;/job:worker/replica:0/task:1/device:CPU:0;edge_7_w/read;0:0"
CHANNEL = Channel("/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0")
STEP = -5596129620269746567


class Space:
    """Builds a trace; times in microseconds."""

    def __init__(self) -> None:
        self.proto = XSpace()
        environment = self.proto.planes.add(name=b"Task Environment")
        environment.stat_metadata[1].name = b"profile_start_time"
        environment.stats.add(metadata_id=1, uint64_value=1700000000_000000001)
        self.plane: XPlane = self.proto.planes.add(name=b"/host:CPU")
        self._events: dict[bytes, int] = {}
        self._stats: dict[bytes, int] = {}

    def thread(self, timestamp_ns: int = 0) -> XLine:
        return self.plane.lines.add(timestamp_ns=timestamp_ns)

    def event(self, line: XLine, name: str | bytes, start: float, end: float, **stats: int | str) -> XEvent:
        event = line.events.add(
            metadata_id=self._id(name, self._events, self.plane.event_metadata),
            offset_ps=round(start * 1e6),
            duration_ps=round((end - start) * 1e6),
        )
        for key, value in stats.items():
            stat = event.stats.add(metadata_id=self._id(key, self._stats, self.plane.stat_metadata))
            if isinstance(value, str):
                stat.ref_value = self._id(value, self._stats, self.plane.stat_metadata)
            elif value < 0:
                stat.int64_value = value
            else:
                stat.uint64_value = value
        return event

    def call(self, line: XLine, name: str, start: float, end: float, step: int) -> None:
        self.event(line, name, start, end)
        self.event(line, "FunctionRun", start + 0.1, start + 0.2, id=step)

    def serialized(self) -> bytes:
        return self.proto.SerializeToString()

    @staticmethod
    def _id(name: str | bytes, ids: dict[bytes, int], metadata: Any) -> int:
        raw = name.encode() if isinstance(name, str) else name
        if raw not in ids:
            ids[raw] = len(ids) + 1
            metadata[ids[raw]].name = raw
        return ids[raw]


def test_kernels_of_one_thread() -> None:
    space = Space()
    line = space.thread(timestamp_ns=2000)
    space.event(line, PROCESS, 10, 50, id=STEP)
    space.event(line, "b/mul:Mul", 30, 45)
    space.event(line, "a:MatMul", 11, 29)
    trace = read_trace(space.serialized())
    assert trace.begin_nanos == 1700000000_000000001
    assert [(run.step, run.node, run.op) for run in trace.ops] == [
        (STEP, "a", "MatMul"),
        (STEP, "b/mul", "Mul"),
    ]
    assert [run.start_seconds for run in trace.ops] == pytest.approx([13e-6, 32e-6], rel=1e-12)
    assert [run.seconds for run in trace.ops] == pytest.approx([18e-6, 15e-6], rel=1e-9)


def test_the_nearest_process_tells_the_step() -> None:
    """TensorFlow runs a step inside another one's `Process` when it inlines work on the same thread."""
    space = Space()
    line = space.thread()
    space.event(line, PROCESS, 0, 100, id=1)
    space.event(line, "call:PartitionedCall", 1, 60)
    space.event(line, PROCESS, 2, 50, id=2)
    space.event(line, "inner:Mul", 3, 40)
    space.event(line, "outer:Mul", 60, 90)
    found = {run.node: run.step for run in read_trace(space.serialized()).ops}
    assert found == {"call": 1, "inner": 2, "outer": 1}


def test_of_two_that_start_at_once_the_longer_is_outside() -> None:
    space = Space()
    line = space.thread()
    space.event(line, "a:MatMul", 10, 20)
    space.event(line, PROCESS, 10, 50, id=STEP)
    assert [run.node for run in read_trace(space.serialized()).ops] == ["a"]


def test_what_is_not_directly_inside_a_process_is_no_kernel() -> None:
    space = Space()
    line = space.thread()
    space.event(line, "EagerService:Enqueue", 0, 5)
    space.event(line, "MatMul:MatMul", 6, 8)  # run eagerly
    space.event(line, PROCESS, 10, 50, id=1)
    space.event(line, "a:MatMul", 11, 29)
    space.event(line, "user:Annotation", 12, 14)
    space.event(line, "Iterator::Map", 30, 35)
    space.event(line, "ThreadpoolListener::Record", 36, 36)
    other = space.proto.planes.add(name=b"/device:GPU:0")
    other.CopyFrom(space.plane)
    other.name = b"/device:GPU:0"
    assert [run.node for run in read_trace(space.serialized()).ops] == ["a"]


def test_an_asynchronous_kernel_ends_on_another_thread() -> None:
    space = Space()
    line, other = space.thread(), space.thread(timestamp_ns=1000)
    for start, producer in ((10, 7), (20, 8), (30, 9)):  # in a loop: one node, many runs
        space.event(line, PROCESS, start, start + 5, id=1)
        space.event(line, "f:EagerPyFunc", start + 1, start + 4)
        space.event(line, START, start + 1.5, start + 3, _p=producer)
    space.event(other, DONE, 90, 95, _c=7)
    space.event(other, DONE, 70, 75, _c=8)  # overtakes; the third had not ended when the trace did
    runs = read_trace(space.serialized()).ops
    assert [run.seconds for run in runs] == pytest.approx([80e-6, 50e-6], rel=1e-9)


def test_transfers() -> None:
    space = Space()
    line, other = space.thread(), space.thread()
    space.event(line, PROCESS, 10, 50, id=STEP)
    space.event(line, "w/read/_2:_Recv", 11, 14, key=KEY)
    space.event(line, START, 12, 13, _p=7)
    space.event(line, "w/read/_1:_Send", 20, 22, key=KEY)
    space.event(other, DONE, 40, 41, _c=7)
    trace = read_trace(space.serialized())
    assert trace.ops == ()
    assert trace.receives == (WireRun(STEP, "edge_7_w/read", CHANNEL, 11e-6, 40e-6),)
    assert trace.sends == (WireRun(STEP, "edge_7_w/read", CHANNEL, 20e-6, 22e-6),)


def test_two_functions_are_told_apart_on_every_task() -> None:
    space = Space()
    calls, line = space.thread(), space.thread()
    space.call(calls, CALL, 0, 100, 1)
    space.call(calls, "EagerLocalExecuteAsync: __inference_step_77_partitioned_1151978_1", 200, 201, 2)
    for start, step, seconds in ((10, 1, 4), (210, 2, 7), (300, 3, 1)):  # step 3 began before the trace
        space.event(line, PROCESS, start, start + 20, id=step)
        space.event(line, "a:MatMul", start + 1, start + 1 + seconds)
        space.event(line, "a:MatMul", start + 10, start + 10 + seconds)
    trace = read_trace(space.serialized())
    assert trace.functions == {1: "__inference_step_9", 2: "__inference_step_77"}
    assert op_samples(trace, "__inference_step_9")["a"] == pytest.approx((4e-6, 4e-6), rel=1e-9)
    assert op_samples(trace, "__inference_step_77")["a"] == pytest.approx((7e-6, 7e-6), rel=1e-9)
    with pytest.raises(CostError, match=r"'step'.*seen: __inference_step_77, __inference_step_9"):
        op_samples(trace, "step")


def test_an_empty_trace() -> None:
    trace = read_trace(b"")
    assert (trace.ops, trace.sends, trace.receives, trace.functions) == ((), (), (), {})
    with pytest.raises(CostError, match="seen: none"):
        op_samples(trace, "f")


def test_names_that_are_not_text() -> None:
    space = Space()
    line = space.thread()
    space.event(line, PROCESS, 0, 9, id=1)
    space.event(line, b"a\xff:MatMul", 1, 2)
    assert read_trace(space.serialized()).ops == (OpRun(1, "a�", "MatMul", 1e-6, 1e-6),)


def test_damaged_bytes() -> None:
    with pytest.raises(CostError, match="damaged"):
        read_trace(b"\x0a\xff")
