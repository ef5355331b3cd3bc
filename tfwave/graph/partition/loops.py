"""Control loops: each device that takes part in a while loop learns from the loop's condition when to go on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.flow_ops import ENTER_OPS
from tfwave.graph.names import CONTROL_PORT
from tfwave.graph.partition.frames import ROOT, Frames, colocated, find_frames
from tfwave.graph.partition.wiring import Draft, Wiring
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, NodeDef

PREFIX = "_cloop"

Namer = Callable[[str], str]
"""A new name with a given beginning."""


def is_control_loop(name: str, op: str) -> bool:
    """Is it the Merge of a control loop?"""
    return op == "Merge" and name.startswith(PREFIX)


def with_control_loops(wiring: Wiring, new_name: Namer) -> Wiring:
    """Give each device to which a loop's tensor or control edge comes a loop of its own, led by the LoopCond.

    The loop's Merge gets a control edge to each node with such an input: splitting moves it to the `_Recv`.

    Raises:
        GraphError: a malformed loop, or a loop on several devices without a condition; names it.
    """
    if ENTER_OPS.isdisjoint(wiring.ops) and "Switch" not in wiring.ops and "RefSwitch" not in wiring.ops:
        return wiring
    frames = find_frames(wiring)
    moved = colocated(wiring)
    crossings = list(_crossings(moved, frames))
    if not crossings:
        return moved
    builder = _Loops(moved, frames, new_name)
    for _, reader, frame in crossings:
        builder.require(frame, reader)
    return builder.connected(crossings)


def _crossings(wiring: Wiring, frames: Frames) -> Iterator[tuple[int, int, str]]:
    """The edges inside one loop between two devices, as (source, reader, loop): back edges last."""
    back: list[tuple[int, int, str]] = []
    for reader, fanins in enumerate(wiring.fanins):
        for source, _ in fanins:
            if wiring.devices[source] == wiring.devices[reader]:
                continue
            frame = frames.of_output(wiring, source)
            if frame == ROOT or frame != frames.of_input(wiring, reader):
                continue
            if source > reader:
                back.append((source, reader, frame))
            else:
                yield source, reader, frame
    yield from back


@dataclass(frozen=True)
class _Loop:
    enter: int
    merge: int
    switch: int


class _Loops:
    """The control loops made so far, by loop and device."""

    def __init__(self, wiring: Wiring, frames: Frames, new_name: Namer) -> None:
        self._wiring = wiring
        self._frames = frames
        self._new_name = new_name
        self._draft = Draft(wiring)
        self._loops: dict[tuple[str, str], _Loop] = {}
        ops = enumerate(wiring.ops)
        self._conditions = {frames.of_node[node]: node for node, op in ops if op == "LoopCond"}

    def require(self, frame: str, reader: int) -> None:
        """Make the control loop of a frame on the device of a reader, with those of the frames around it."""
        device = self._wiring.devices[reader]
        inner: _Loop | None = None
        while frame != ROOT:
            known = self._loops.get((frame, device))
            loop = known or self._add_loop(frame, reader, device)
            if inner is not None:
                self._feed(inner.enter, loop.merge)
            if known is not None:
                return
            inner = self._loops[frame, device] = loop
            frame = self._frames.parents[frame]
        if inner is not None:
            self._feed(inner.enter, self._add_start(reader, device))

    def connected(self, crossings: list[tuple[int, int, str]]) -> Wiring:
        """The wiring with the control edges from the loops' Merges to the readers of other devices' tensors."""
        devices = self._draft.devices
        for _, reader, frame in crossings:
            self._control(self._loops[frame, devices[reader]].merge, reader)
        for (frame, device), loop in self._loops.items():
            if devices[self._conditions[frame]] != device:
                self._control(loop.merge, loop.switch)
        return self._draft.wiring()

    def _add_loop(self, frame: str, reader: int, device: str) -> _Loop:
        condition = self._conditions.get(frame)
        if condition is None:
            raise GraphError(
                f"the loop '{frame}' runs on '{device}' and other devices, but has no LoopCond "
                f"(node '{self._wiring.names[reader]}')"
            )
        names = [PREFIX + self._new_name(self._wiring.names[reader]) for _ in range(4)]
        enter = self._add(names[0], "Enter", device)
        self._draft_node(enter).attr["frame_name"].s = frame.encode()
        self._draft_node(enter).attr["parallel_iterations"].i = self._frames.parallel_iterations[frame]
        merge = self._add(names[1], "Merge", device)
        self._draft_node(merge).attr["N"].i = 2
        switch = self._add(names[2], "Switch", device)
        following = self._add(names[3], "NextIteration", device)
        fanins = self._draft.fanins
        fanins[merge] = ((enter, 0), (following, 0))
        fanins[switch] = ((merge, 0), (condition, 0))
        fanins[following] = ((switch, 1),)
        return _Loop(enter, merge, switch)

    def _add_start(self, reader: int, device: str) -> int:
        node = empty_constant(self._new_name(self._wiring.names[reader]))
        return self._draft.add(node, (), device)

    def _add(self, name: str, op: str, device: str) -> int:
        node = NodeDef(name=name, op=op)
        node.attr["T"].type = DT_FLOAT
        return self._draft.add(node, (), device)

    def _draft_node(self, node: int) -> NodeDef:
        return self._draft.nodes[node]

    def _feed(self, enter: int, source: int) -> None:
        self._draft.fanins[enter] = ((source, 0),)

    def _control(self, merge: int, reader: int) -> None:
        self._draft.fanins[reader] = (*self._draft.fanins[reader], (merge, CONTROL_PORT))


def empty_constant(name: str) -> NodeDef:
    """A float constant without elements: what control edges between devices send."""
    node = NodeDef(name=name, op="Const")
    node.attr["dtype"].type = DT_FLOAT
    node.attr["value"].tensor.dtype = DT_FLOAT
    node.attr["value"].tensor.tensor_shape.dim.add(size=0)
    return node
