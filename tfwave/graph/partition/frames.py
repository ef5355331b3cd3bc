"""While loops in a wired graph: the frame of each node, and the devices of the nodes that make the loops."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.attrs import string_attr
from tfwave.graph.flow_ops import ENTER_OPS, EXIT_OPS, NEXT_OPS, SWITCH_OPS
from tfwave.graph.names import CONTROL_PORT
from tfwave.graph.partition.wiring import Wiring
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

ROOT = ""

_DEFAULT_PARALLEL_ITERATIONS = 10


@dataclass(frozen=True)
class Frames:
    """The frame (while loop) that each node runs in; `ROOT` outside of all loops."""

    of_node: tuple[str, ...]
    parents: dict[str, str]
    parallel_iterations: dict[str, int]

    def of_output(self, wiring: Wiring, node: int) -> str:
        """The frame in which a node's outputs are: an Exit hands them to the outer frame."""
        frame = self.of_node[node]
        return self.parents[frame] if wiring.ops[node] in EXIT_OPS else frame

    def of_input(self, wiring: Wiring, node: int) -> str:
        """The frame in which a node's inputs are: an Enter takes them from the outer frame."""
        frame = self.of_node[node]
        return self.parents[frame] if wiring.ops[node] in ENTER_OPS else frame


def looped(graph: GraphDef) -> frozenset[str]:
    """The names of the nodes of a partition that run in while loops.

    Raises:
        GraphError: as `find_frames`.
    """
    wiring = Wiring.of(graph)
    frames = find_frames(wiring).of_node
    return frozenset(name for name, frame in zip(wiring.names, frames, strict=True) if frame != ROOT)


def find_frames(wiring: Wiring) -> Frames:
    """Walk from the sources through all loops.

    Raises:
        GraphError: a node whose inputs are in different frames, an Enter without a frame name, an Exit
            outside of all loops; names it.
    """
    frames: list[str | None] = [None] * len(wiring)
    parents = {ROOT: ROOT}
    iterations: dict[str, int] = {}
    ready = deque(node for node, fanins in enumerate(wiring.fanins) if not fanins)
    for node in ready:
        frames[node] = ROOT
    while ready:
        node = ready.popleft()
        frame = frames[node] or ROOT
        outer = _exited(wiring, node, frame, parents)
        for reader, _ in wiring.fanouts[node]:
            inner = _entered(wiring.nodes[reader], outer, parents, iterations) or outer
            known = frames[reader]
            if known is None:
                frames[reader] = inner
                ready.append(reader)
            elif known != inner:
                raise GraphError(
                    f"node '{wiring.names[reader]}' has inputs from the loops '{known}' and '{inner}'"
                )
    return Frames(tuple([frame or ROOT for frame in frames]), parents, iterations)


def _exited(wiring: Wiring, node: int, frame: str, parents: dict[str, str]) -> str:
    if wiring.ops[node] not in EXIT_OPS:
        return frame
    if frame == ROOT:
        raise GraphError(f"node '{wiring.names[node]}' leaves a loop, but it is in none")
    return parents[frame]


def _entered(node: NodeDef, outer: str, parents: dict[str, str], iterations: dict[str, int]) -> str | None:
    """The frame that an Enter opens; None for other ops."""
    if node.op not in ENTER_OPS:
        return None
    frame = string_attr(node, "frame_name")
    if not frame:
        raise GraphError(f"node '{node.name}': {node.op} needs the attribute 'frame_name'")
    if parents.setdefault(frame, outer) != outer:
        raise GraphError(
            f"node '{node.name}' enters the loop '{frame}' from '{outer}' and from '{parents[frame]}'"
        )
    count = node.attr.get("parallel_iterations")
    iterations.setdefault(frame, count.i if count is not None else _DEFAULT_PARALLEL_ITERATIONS)
    return frame


def colocated(wiring: Wiring) -> Wiring:
    """Move the nodes that make loops and conditionals to their neighbours, as TensorFlow does.

    In the order of a depth-first walk from the sources:
    Case 1: a Switch goes to its data input.
    Case 2: an Exit goes to its input.
    Case 3: an Enter (of no reference) and a NextIteration go to their first reader.
    """
    devices = list(wiring.devices)
    for node in _depth_first(wiring):
        op = wiring.ops[node]
        if op in SWITCH_OPS or op in EXIT_OPS:
            devices[node] = devices[wiring.source(node)]
        elif op == "Enter" or op in NEXT_OPS:
            reader = next((r for r, port in wiring.fanouts[node] if port != CONTROL_PORT), node)
            devices[node] = devices[reader]
    return Wiring(wiring.nodes, wiring.names, wiring.ops, wiring.fanins, tuple(devices), wiring.table)


def _depth_first(wiring: Wiring) -> Sequence[int]:
    visited = bytearray(len(wiring))
    order: list[int] = []
    stack = [node for node, fanins in enumerate(wiring.fanins) if not fanins]
    while stack:
        node = stack.pop()
        if visited[node]:
            continue
        visited[node] = True
        order.append(node)
        stack += [reader for reader, _ in wiring.fanouts[node] if not visited[reader]]
    return order
