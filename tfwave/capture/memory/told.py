"""The trace of a step of this process, told as TensorFlow tells that of a session's step."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tfwave.bundle.bundle import Bundle
from tfwave.capture.memory.shared import with_shared
from tfwave.capture.memory.traced import Begun, Buffer, begun_ops, most_at_once, settled, traced_buffers
from tfwave.capture.timed import StepTime, TracedStep, bundle_of
from tfwave.errors import BundleError
from tfwave.proto.tensorflow_pb2 import AllocationRecord, GraphDef, NodeExecStats, StepStats
from tfwave.runtime.trace.memory import Allocation, MemoryTrace


def told_bundle(
    graphs: Sequence[GraphDef],
    graph: GraphDef,
    traced: Sequence[tuple[StepTime, MemoryTrace]],
    given: Sequence[int],
    warmup: int,
) -> Bundle:
    """The bundle of steps of this process, after `warmup` others; the traces are told of one of their graphs.

    `given` has the bytes of the graph's arguments, by their place.

    Raises:
        BundleError: as `step_stats`.
    """
    held = {node.name: given[node.attr["index"].i] for node in graph.node if node.op == "_Arg"}
    return bundle_of(
        graphs,
        [TracedStep(time, step_stats(trace, graph, held)) for time, trace in traced],
        target="",
        devices=sorted({node.device for each in graphs for node in each.node}),
        fetches=[node.input[0] for each in graphs for node in each.node if node.op == "_Retval"],
        warmup=warmup,
    )


def step_stats(trace: MemoryTrace, graph: GraphDef, given: Mapping[str, int]) -> StepStats:
    """What the nodes of a graph, all on one device, did in their step; `given` has the bytes of its arguments.

    1. What an op allocated that is held beyond its end, and when the next one begins, is an output. The trace does
       not tell ports: they are numbered as they were allocated. Which ops give out the buffer of an input is told
       by the graph (`with_shared`).
    2. What outlives the step is an output, unless it takes the place of something as large (`traced_memory`).
    3. Arguments are there when the first op begins. TensorFlow 2.19 traces that they run, too: that says nothing.
    4. So is what was freed in the step without something as large in its place, as a variable's old value is if the
       pool gave the new one a larger or smaller piece: it counts as allocated by the first op.

    Raises:
        BundleError: no op of the graph was traced.
    """
    nodes = {node.name for node in graph.node} - given.keys()
    of_step = settled(trace.of_step(nodes))
    begun = begun_ops(of_step, nodes)
    if not begun:
        raise BundleError("the step computes nothing that a trace tells of: capture one that trains")
    made: dict[int, list[Buffer]] = defaultdict(list)
    for buffer in (*traced_buffers(of_step, begun), *_found(of_step, begun)):
        made[buffer.born].append(buffer)
    first = begun[0].at
    events = [_event(Begun(first, name, first), [(given[name], 0)]) for name in sorted(given) if given[name]]
    events += [_allocating(run, made[place], trace.pool) for place, run in enumerate(begun)]
    for number, output in enumerate((output for event in events for output in event.output), 1):
        output.tensor_description.allocation_description.allocation_id = number
    freed = [None for name in given if given[name]]
    freed += [b.made.freed for place in range(len(begun)) for b in made[place] if b.dies != b.born]
    told = {number: round(at * 1e9) for number, at in enumerate(freed, 1) if at is not None}
    stats = StepStats()
    stats.dev_stats.add(device=graph.node[0].device, node_stats=with_shared(events, graph, told))
    return stats


def _found(trace: MemoryTrace, begun: Sequence[Begun]) -> Iterator[Buffer]:
    """Case 4."""
    for at, size in trace.others:
        dies = bisect_right(begun, at, key=lambda run: run.at) - 1
        yield Buffer(Allocation(0, begun[0].node, size, begun[0].at, at), 0, max(0, dies))


def _allocating(run: Begun, buffers: Sequence[Buffer], pool: Sequence[tuple[float, int]]) -> NodeExecStats:
    outputs = [(b.made.bytes, b.made.asked) for b in buffers if b.dies != b.born]
    event = _event(run, outputs)
    if buffers:
        scratch = most_at_once([buffer.made for buffer in buffers if buffer.dies == buffer.born])
        event.memory.add(
            peak_bytes=sum(size for size, _ in outputs) + scratch,
            allocator_bytes_in_use=_level(pool, run.until),
            allocation_records=[record for buffer in buffers for record in _records(buffer.made)],
        )
    return event


def _event(run: Begun, outputs: Sequence[tuple[int, int]]) -> NodeExecStats:
    """With the bytes of each output, and those that were asked for."""
    begin, end = round(run.at * 1e9), round(run.until * 1e9)
    event = NodeExecStats(
        node_name=run.node,
        all_start_micros=begin // 1000,
        all_start_nanos=begin,
        op_end_rel_nanos=end - begin,
        all_end_rel_nanos=end - begin,
    )
    for slot, (size, asked) in enumerate(outputs):
        described = event.output.add(slot=slot).tensor_description.allocation_description
        described.allocated_bytes, described.requested_bytes = size, asked
    return event


def _records(made: Allocation) -> list[AllocationRecord]:
    taken = AllocationRecord(alloc_micros=int(made.at * 1e6), alloc_bytes=made.bytes)
    if made.freed is None:
        return [taken]
    return [taken, AllocationRecord(alloc_micros=int(made.freed * 1e6), alloc_bytes=-made.bytes)]


def _level(pool: Sequence[tuple[float, int]], at: float) -> int:
    """What all had in the pool by then."""
    place = bisect_right(pool, at, key=lambda told: told[0])
    return pool[place - 1][1] if place else 0
