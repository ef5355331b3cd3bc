"""The runs of ops on one device, with what each did to memory, as TensorFlow traced them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.step_stats import TRANSFER_EVENT, first_micros
from tfwave.graph.marks import STEP_MARKER_OP
from tfwave.proto.tensorflow_pb2 import NodeExecStats, NodeOutput, StepStats

_NO_OPS = frozenset({TRANSFER_EVENT, "_SOURCE", "_SINK"})
_MARKER = f"{STEP_MARKER_OP}_G"
"""How the names of the nodes begin that the send hook adds, behind what a bundle holds of the graph."""

Place = tuple[int, int]
"""Where a buffer lies: its address, and the number that its allocator gave it.

Two buffers that are held at one time differ in it. A freed one's can come again: TensorFlow's BFC pools count all
buffers, but other allocators' are counted from 1 in each run.
"""


@dataclass(frozen=True)
class Output:
    """A tensor that a run gives out: its port, the bytes of its buffer, and where that lies, if that is known.

    `asked` are those of the bytes that were asked for; 0 where that is not known.
    """

    port: int
    bytes: int
    place: Place | None
    asked: int = 0


@dataclass(frozen=True)
class Run:
    """One execution of an op; times in nanoseconds, of the task's clock.

    Attributes:
        allocated: how many buffers of each size it asked for, scratch included.
        freed: when each of these was freed, by size, in order; those that outlived the step are not listed.
        most: bytes of its own buffers that were allocated at once.
        pool: bytes that all had in the allocator when it was done; 0 where the allocator does not count.
    """

    node: str
    begin: int
    end: int
    outputs: tuple[Output, ...]
    allocated: Mapping[int, int] = field(default_factory=dict[int, int])
    freed: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    most: int = 0
    pool: int = 0


def device_runs(bundle: Bundle, step: int, device: str) -> list[Run]:
    """What ran on a device in a traced step, in the order of begin; what arrived there counts as a run, too.

    Runs that began at one instant are ordered by name.
    """
    runs = [_run(event) for event in op_events(bundle.steps[step], device)]
    return sorted([*runs, *_arrivals(bundle, step, device)], key=lambda r: (r.begin, r.end, r.node))


def op_events(stats: StepStats, device: str) -> Iterator[NodeExecStats]:
    """The events of a device that are runs of the step's ops."""
    for of_device in stats.dev_stats:
        if of_device.device == device:
            yield from (event for event in of_device.node_stats if _is_op(event.node_name))


def _is_op(name: str) -> bool:
    return name not in _NO_OPS and not name.startswith(_MARKER)


def _arrivals(bundle: Bundle, step: int, device: str) -> Iterator[Run]:
    """The tensors that came from other tasks, as outputs of their `_Recv`; these nodes leave no event."""
    origin = first_micros(bundle.steps[step])
    for record in bundle.records[step]:
        transfer = bundle.transfer_of(record)
        if transfer is not None and record.channel.destination == device and record.bytes:
            arrived = (origin + round(record.end_seconds * 1e6)) * 1000
            node = bundle.view.names[transfer.recv]
            yield Run(node, arrived, arrived, (Output(0, record.bytes, None),))


def _run(event: NodeExecStats) -> Run:
    begin = event.all_start_nanos or event.all_start_micros * 1000
    lasts = event.all_end_rel_nanos or event.all_end_rel_micros * 1000
    records = [record for memory in event.memory for record in memory.allocation_records]
    freed: dict[int, list[int]] = {}
    for record in sorted(records, key=lambda r: r.alloc_micros):
        if record.alloc_bytes < 0:
            freed.setdefault(-record.alloc_bytes, []).append(record.alloc_micros * 1000)
    return Run(
        event.node_name,
        begin,
        begin + lasts,
        tuple(output for port in event.output if (output := _output(port)).bytes > 0),
        Counter(r.alloc_bytes for r in records if r.alloc_bytes > 0),
        {size: tuple(times) for size, times in freed.items()},
        sum(m.peak_bytes for m in event.memory) if event.memory else event.memory_stats.temp_memory_size,
        max((m.allocator_bytes_in_use for m in event.memory), default=0),
    )


def _output(output: NodeOutput) -> Output:
    told = output.tensor_description.allocation_description
    size = told.allocated_bytes or told.requested_bytes
    return Output(output.slot, size, (told.ptr, told.allocation_id), told.requested_bytes)
