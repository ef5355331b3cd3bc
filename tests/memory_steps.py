"""Traces of memory by hand: events as TensorFlow writes them, on one device."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tfwave.bundle.bundle import BUNDLE_VERSION, Bundle, Manifest, StepSummary
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, AttrValue, GraphDef, StepStats

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
ORIGIN = 1_000_000_000
"""Microseconds."""


@dataclass
class Step:
    """One traced step; times in microseconds since its begin."""

    stats: StepStats = field(default_factory=StepStats)
    device: str = DEVICE

    def __post_init__(self) -> None:
        self._events = self.stats.dev_stats.add(device=self.device)

    def run(
        self,
        node: str,
        at: int,
        *outputs: tuple[int, int] | tuple[int, int, int],
        lasts: int = 5,
        allocated: Sequence[int] = (),
        freed: Sequence[tuple[int, int]] = (),
        most: int | None = None,
        scratch: int = 0,
    ) -> None:
        """An op: its outputs (bytes, address, and the allocator's number); frees as (time, bytes)."""
        event = self._events.node_stats.add(node_name=node, all_start_micros=ORIGIN + at)
        event.all_start_nanos = (ORIGIN + at) * 1000
        event.all_end_rel_micros, event.all_end_rel_nanos = lasts, lasts * 1000
        event.memory_stats.temp_memory_size = scratch
        for port, (size, address, *number) in enumerate(outputs):
            told = event.output.add(slot=port).tensor_description.allocation_description
            told.requested_bytes = told.allocated_bytes = size
            told.ptr, told.allocation_id = address, number[0] if number else 0
        if allocated:
            memory = event.memory.add(allocator_name="cpu", total_bytes=sum(allocated))
            memory.peak_bytes = sum(allocated) if most is None else most
            for size in allocated:
                memory.allocation_records.add(alloc_micros=ORIGIN + at, alloc_bytes=size)
            for time, size in freed:
                memory.allocation_records.add(alloc_micros=ORIGIN + time, alloc_bytes=-size)


def graph(*nodes: tuple[str, str, Sequence[str]], device: str = DEVICE) -> GraphDef:
    """Nodes as (name, op, inputs)."""
    made = GraphDef()
    for name, op, inputs in nodes:
        made.node.add(name=name, op=op, input=inputs, device=device)
    return made


def declare(made: GraphDef, variable: str, *dims: int) -> GraphDef:
    """Give a variable its shape, of float32."""
    node = next(node for node in made.node if node.name == variable)
    node.attr["dtype"].type = DT_FLOAT
    node.attr["shared_name"].CopyFrom(AttrValue(s=variable.encode()))
    for size in dims:
        node.attr["shape"].shape.dim.add(size=size)
    return made


def bundle_of(graphs: Sequence[GraphDef], *steps: StepStats, fetches: Sequence[str] = ()) -> Bundle:
    manifest = Manifest(
        version=BUNDLE_VERSION,
        tfwave="0",
        tensorflow="2",
        target="",
        devices=[DEVICE],
        fetches=list(fetches),
        warmup_steps=0,
        steps=[StepSummary(seconds=0.1, missing_transfers=0) for _ in steps],
    )
    return Bundle(manifest, tuple(graphs), steps)


def counted(bundle: Bundle, core_seconds: float | None) -> Bundle:
    """With a step of 100 ms on two cores that worked so long."""
    summary = StepSummary(seconds=0.1, missing_transfers=0, core_seconds=core_seconds)
    known = {"steps": [summary], "cores": 2}
    return replace(bundle, manifest=bundle.manifest.model_copy(update=known))
