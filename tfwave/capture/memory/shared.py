"""The outputs for which an op allocates nothing: they lie in the buffer of an input.

The trace of a function's step tells what each op allocates, not what it gives out in the buffer that it was given,
and nothing of ops that are cheap and allocate nothing, such as a `Reshape`. The graph tells that they gave
something: what others read of them.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tfwave.bundle.memory.held import STATE_OPS
from tfwave.graph.names import CONTROL_PORT, TensorName, parse_input
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeExecStats
from tfwave.rewrite.fitted.views import SLICE_OPS, VIEW_OPS

_FOREVER = 1 << 62


def with_shared(
    events: Sequence[NodeExecStats], graph: GraphDef, freed: Mapping[int, int]
) -> list[NodeExecStats]:
    """The events of a step with the outputs that lie in buffers of inputs, and those of cheap ops that have some.

    `freed` has the nanosecond at which each numbered buffer was freed, as far as it was.

    1. An output that something reads, and for which nothing was allocated, is shared.
    2. A view lies where its first input does, and slices for which nothing was allocated where that does which they
       are of, whoever else reads it. Any other op goes on in the first of its largest inputs that nothing else
       reads any more, and that is freed only later: in a smaller one there is no room for what it makes.
    3. A cheap op runs when all that it waits for is done, also through ops of which nothing is told.

    What runs more than once, as in a loop, is left as it is.
    """
    return _Sharing(events, graph, freed).events()


class _Sharing:
    def __init__(self, events: Sequence[NodeExecStats], graph: GraphDef, freed: Mapping[int, int]) -> None:
        self._events, self._view, self._freed = list(events), GraphView.of(graph), freed
        runs = Counter(event.node_name for event in events)
        self._event = {event.node_name: event for event in events if runs[event.node_name] == 1}
        self._looped = runs.keys() - self._event.keys()
        self._done: dict[int, int] = {}
        self._number: dict[TensorName, int] = {}
        self._bytes: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        self._tensors: dict[int, list[TensorName]] = defaultdict(list)
        self._readers: dict[TensorName, set[str]] = defaultdict(set)
        for node in self._view.nodes:
            for text in node.input:
                self._readers[parse_input(text)].add(node.name)
        for event in self._event.values():
            for output in event.output:
                told = output.tensor_description.allocation_description
                self._bytes[told.allocation_id] = told.allocated_bytes
                self._asked[told.allocation_id] = told.requested_bytes or told.allocated_bytes
                self._lies(TensorName(event.node_name, output.slot), told.allocation_id)

    def events(self) -> list[NodeExecStats]:
        read: dict[str, set[int]] = defaultdict(set)
        for tensor in self._readers:
            read[tensor.node].add(tensor.port)
        for number in self._view.topological_order:
            name, op = self._view.names[number], self._view.ops[number]
            begin = self._begin(number)
            if op not in STATE_OPS and name not in self._looped and begin is not None:
                ports = sorted(port for port in read[name] if port != CONTROL_PORT)
                self._share(number, [p for p in ports if TensorName(name, p) not in self._number], begin)
            self._note_end(number, begin)
        return self._events

    def _share(self, number: int, ports: Sequence[int], begin: int) -> None:
        name = self._view.names[number]
        inputs = [parse_input(text) for text in self._view.nodes[number].input]
        for port in ports:
            shared = self._shared(number, inputs, begin)
            if shared is not None:
                self._lies(TensorName(name, port), shared)
                self._tell(name, port, shared, begin)

    def _begin(self, number: int) -> int | None:
        """Case 3, in nanoseconds; None if nothing is known to come before it."""
        event = self._event.get(self._view.names[number])
        if event is not None:
            return event.all_start_nanos
        fanins = self._view.forward_fanins(number)
        return max((self._done[fanin] for fanin in fanins if fanin in self._done), default=None)

    def _note_end(self, number: int, begin: int | None) -> None:
        event = self._event.get(self._view.names[number])
        done = begin if event is None else event.all_start_nanos + event.all_end_rel_nanos + 1
        if done is not None:
            self._done[number] = done

    def _shared(self, number: int, inputs: Sequence[TensorName], begin: int) -> int | None:
        """Case 2."""
        viewed = self._viewed(number)
        if viewed is not None:
            return self._number.get(inputs[viewed])
        buffers = [self._number[source] for source in inputs if source in self._number]
        largest = max((self._asked[buffer] for buffer in buffers), default=0)
        name = self._view.names[number]
        return next((b for b in buffers if self._asked[b] == largest and self._is_left(b, name, begin)), None)

    def _viewed(self, number: int) -> int | None:
        """The position of the input of which an op gives a view, or slices."""
        op, event = self._view.ops[number], self._event.get(self._view.names[number])
        if op in VIEW_OPS:
            return 0
        return None if event is not None and event.memory else SLICE_OPS.get(op)

    def _is_left(self, buffer: int, reader: str, begin: int) -> bool:
        if self._freed.get(buffer, _FOREVER) < begin:
            return False
        others = {name for tensor in self._tensors[buffer] for name in self._readers[tensor]} - {reader}
        return all(self._event[name].all_start_nanos <= begin for name in others if name in self._event)

    def _lies(self, tensor: TensorName, buffer: int) -> None:
        self._number[tensor] = buffer
        self._tensors[buffer].append(tensor)

    def _tell(self, name: str, port: int, buffer: int, begin: int) -> None:
        if name not in self._event:
            made = NodeExecStats(node_name=name, all_start_micros=begin // 1000, all_start_nanos=begin)
            self._events.append(made)
            self._event[name] = made
        told = self._event[name].output.add(slot=port).tensor_description.allocation_description
        told.allocated_bytes, told.allocation_id = self._bytes[buffer], buffer
