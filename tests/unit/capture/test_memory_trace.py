"""Reading from a profile what a step did to the pool."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tfwave.errors import CostError, EnforcerError
from tfwave.proto.profiler_pb2 import XLine, XPlane, XSpace
from tfwave.runtime.trace import memory
from tfwave.runtime.trace.memory import Allocation, MemoryTrace, read_memory, trace_memory
from tfwave.runtime.trace.xplane import OpRun

_STATS = ("addr", "allocation_bytes", "id", "tf_op", "bytes_allocated", "requested_bytes", "a", "b")
_EVENTS = ("MemoryAllocation", "MemoryDeallocation", "Other")
UNKNOWN = r"TensorFlow 2\.99\.0 has not the ProfilerSession"


def space(*lines: list[tuple[str, int, dict[str, int | str]]]) -> bytes:
    """Lines of events: kind, microseconds, stats; an op's name goes by reference, as TensorFlow writes it."""
    made = XSpace()
    plane: XPlane = made.planes.add(name=b"/host:CPU")
    for number, name in enumerate(_STATS, 1):
        plane.stat_metadata[number].name = name.encode()
    for number, name in enumerate(_EVENTS, 1):
        plane.event_metadata[number].name = name.encode()
    for events in lines:
        line: XLine = plane.lines.add(timestamp_ns=1000)
        for kind, micros, stats in events:
            event = line.events.add(metadata_id=_EVENTS.index(kind) + 1, offset_ps=(micros - 1) * 1_000_000)
            for name, value in stats.items():
                stat = event.stats.add(metadata_id=_STATS.index(name) + 1)
                if isinstance(value, str):
                    stat.ref_value = _STATS.index(value) + 1
                else:
                    stat.int64_value = value
    return made.SerializeToString()


def takes(
    micros: int, address: int, size: int, node: str, step: int = 3
) -> tuple[str, int, dict[str, int | str]]:
    stats = {"addr": address, "allocation_bytes": size, "id": step, "tf_op": node}
    return "MemoryAllocation", micros, stats


def frees(micros: int, address: int, size: int) -> tuple[str, int, dict[str, int | str]]:
    return "MemoryDeallocation", micros, {"addr": address, "allocation_bytes": size, "id": 0}


def test_a_buffer_is_freed_by_its_address_in_any_thread() -> None:
    found = read_memory(space([takes(10, 7, 100, "a"), ("Other", 11, {})], [frees(30, 7, 100)]))
    assert found.allocations == (Allocation(3, "a", 100, 10e-6, 30e-6),)
    assert found.others == ()


def test_what_was_asked_for_is_told_beside_what_the_pool_gave() -> None:
    kind, micros, stats = takes(10, 7, 256, "a")
    found = read_memory(space([(kind, micros, stats | {"requested_bytes": 200}), takes(11, 8, 512, "b")]))
    assert [(a.bytes, a.asked) for a in found.allocations] == [(256, 200), (512, 0)]


def test_an_address_can_come_again() -> None:
    found = read_memory(space([takes(10, 7, 100, "a"), frees(20, 7, 100), takes(30, 7, 50, "b")]))
    assert [(a.node, a.bytes, a.freed) for a in found.allocations] == [
        ("a", 100, pytest.approx(20e-6)),
        ("b", 50, None),
    ]


def test_a_place_that_is_taken_anew_was_freed_before() -> None:
    """Two threads: the free of ``a`` is noted after ``b`` has its place."""
    events = [takes(10, 7, 100, "a"), takes(30, 7, 50, "b"), frees(31, 7, 100), frees(40, 7, 50)]
    found = read_memory(space(events))
    assert [(a.node, a.freed) for a in found.allocations] == [
        ("a", pytest.approx(30e-6)),
        ("b", pytest.approx(40e-6)),
    ]
    assert found.others == ()


def test_what_was_there_before_is_another_matter() -> None:
    found = read_memory(space([frees(5, 9, 64)]))
    assert found.allocations == ()
    assert found.others == ((pytest.approx(5e-6), 64),)


def test_the_pool_tells_what_all_have_in_it() -> None:
    (taken, at, stats), freed = takes(10, 7, 100, "a"), frees(20, 7, 100)
    found = read_memory(space([(taken, at, stats | {"bytes_allocated": 900}), freed]))
    assert found.pool == ((pytest.approx(10e-6), 900), (pytest.approx(20e-6), 0))


def test_the_step_is_the_one_that_allocated_most_by_the_graph() -> None:
    trace = MemoryTrace(
        (OpRun(1, "a", "Neg", 0.0, 1.0), OpRun(2, "a", "Neg", 5.0, 1.0)),
        (Allocation(1, "a", 10, 0.0), Allocation(2, "a", 20, 5.0), Allocation(4, "x", 99, 5.0)),
        (),
    )
    found = trace.of_step({"a", "b"})
    assert [run.start_seconds for run in found.ops] == [5.0]
    assert [allocation.bytes for allocation in found.allocations] == [20]
    assert trace.of_step({"nothing"}).allocations == ()


def test_a_damaged_profile() -> None:
    with pytest.raises(CostError, match="the profile is damaged"):
        read_memory(b"\xff")


class _Session:
    """Another signature, or one that is under way."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def start(self, *given: object) -> None:
        raise self.error(*given)

    def export_to_tb(self) -> None:
        raise AssertionError("it was never started")


class _OpError(Exception):
    message = "it runs"


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (None, UNKNOWN),
        (SimpleNamespace(), UNKNOWN),
        (SimpleNamespace(ProfilerSession=lambda: None), UNKNOWN),
        (SimpleNamespace(ProfilerSession=lambda given: given), UNKNOWN),
        (SimpleNamespace(ProfilerSession=lambda: _Session(TypeError)), UNKNOWN),
        (
            SimpleNamespace(ProfilerSession=lambda: _Session(_OpError)),
            r"is being profiled already \(it runs\)",
        ),
    ],
)
def test_a_step_does_not_run_unless_it_is_traced(
    module: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensorflow = SimpleNamespace(errors=SimpleNamespace(OpError=_OpError))
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    monkeypatch.setitem(sys.modules, memory._PROFILER, module)
    monkeypatch.setattr(memory, "tensorflow_version", lambda: "2.99.0")
    ran: list[int] = []
    with pytest.raises(EnforcerError, match=why):
        trace_memory(lambda: ran.append(1))
    assert ran == []
