"""What a step does to the memory, if its ops run in another order than the one in which they were profiled."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfwave.graph.names import parse_input
from tfwave.graph.reach import reached
from tfwave.graph.view import GraphView
from tfwave.memory.profile import OpMemory

Runs = Sequence[tuple[int, OpMemory]]
"""The runs of ops as they were profiled, each with its node."""


@dataclass(frozen=True)
class Buffer:
    """What one output holds: the last runs of all that may read it, in their order, and the first to free it."""

    readers: tuple[int, ...]
    freed_from: int


@dataclass(frozen=True)
class Replay:
    """A profiled step that can be run in other orders.

    The profile does not say which tensors a run freed: some that it was the last to read, and each of them stays
    until all that had read it before have run. All bytes that the run gave stay as long as any such tensor may,
    never too short, at times too long. An op that allocates nothing may hand on any buffer that it reads.
    """

    runs: Runs
    buffers: tuple[Buffer, ...]

    @classmethod
    def of(cls, view: GraphView, runs: Runs) -> "Replay":
        """Find the readers of each buffer."""
        allocating = {node for node, op in runs if op.takes}
        last = {node: run for run, (node, _) in enumerate(runs)}
        buffers: list[Buffer] = []
        for direct in _read_outputs(view, allocating):
            readers = sorted(last[node] for node in _readers(view, direct, allocating) if node in last)
            freed_from = max((last[node] for node in direct if node in last), default=0)
            buffers.append(Buffer(tuple(readers), freed_from))
        return cls(runs, tuple(buffers))

    def at(self, places: Mapping[int, int]) -> dict[int, list[OpMemory]]:
        """What is done at each place, if nodes run by their places, and those of one place as profiled."""
        place_of = [places[node] for node, _ in self.runs]
        later = self._freed_later(place_of)
        done: dict[int, list[OpMemory]] = defaultdict(list)
        for run, (_, op) in enumerate(self.runs):
            done[place_of[run]].append(replace(op, gives=0) if run in later else op)
        for run, place in sorted(later.items()):
            done[place].append(replace(self.runs[run][1], takes=0, scratch=0, beside=0))
        return dict(done)

    def _freed_later(self, place_of: Sequence[int]) -> dict[int, int]:
        """The runs whose bytes stay longer than until their end, each with the place at whose end they go."""
        later: dict[int, int] = {}
        for buffer in self.buffers:
            latest = -1
            for run in buffer.readers:
                latest = max(latest, place_of[run])
                if run >= buffer.freed_from and latest > place_of[run]:
                    later[run] = max(later.get(run, -1), latest)
        return later


def _read_outputs(view: GraphView, allocating: Collection[int]) -> Iterable[list[int]]:
    """The nodes that read it, of each output of the nodes that allocate."""
    readers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for node, definition in enumerate(view.nodes):
        for fanin, text in zip(view.fanins[node][: view.data_fanins[node]], definition.input, strict=False):
            if fanin in allocating:
                readers[fanin, parse_input(text)[1]].append(node)
    return readers.values()


def _readers(view: GraphView, direct: Iterable[int], allocating: Collection[int]) -> frozenset[int]:
    """All that may read a buffer, from those that read the tensor for which it was allocated."""
    return reached(lambda node: () if node in allocating else _data_fanouts(view, node), direct)


def _data_fanouts(view: GraphView, node: int) -> Iterable[int]:
    return (
        reader for reader in view.fanouts[node] if node in view.fanins[reader][: view.data_fanins[reader]]
    )
