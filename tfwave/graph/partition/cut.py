"""The cut: a graph as its job runs it, in one partition for each device, without TensorFlow."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from tfwave.graph.functions.lower import lower
from tfwave.graph.insertion import in_insertion_order
from tfwave.graph.item import GraphItem
from tfwave.graph.names import task_of
from tfwave.graph.partition.constants import replicated
from tfwave.graph.partition.devices import LOCAL_JOB, DeviceSet
from tfwave.graph.partition.loops import Namer, with_control_loops
from tfwave.graph.partition.pins import as_job, is_function, pinned
from tfwave.graph.partition.place import device_set, placed_wiring
from tfwave.graph.partition.prune import pruned
from tfwave.graph.partition.split import split
from tfwave.graph.partition.wiring import Wiring
from tfwave.proto.tensorflow_pb2 import GraphDef

_GENERATED = re.compile(r"/_([0-9]{1,18})$")


def cut(
    item: GraphItem, *, devices: Sequence[str] = (), default: str = "", soft: bool | None = None
) -> tuple[GraphDef, ...]:
    """Place and partition a graph exactly as TensorFlow does with Grappler off.

    Case 1: a traced function (the item has `handles`), or a function's body (it has `_Arg` or `_Retval` nodes; an
        argument's device is where its value is).
    Case 2: a Session in one process (the client's job is ``localhost``).
    Case 3: a Session of a cluster: the master cuts between tasks, then each task between its devices.

    Args:
        item: the graph with its feeds and fetches; a fetch ``node:port`` is a tensor, ``node`` is only run.
        devices: all devices of the job; if empty those that the graph names, with the CPU:0 of each task.
        default: the client's device; see `place`.
        soft: whether TensorFlow's soft placement is on; its own default (functions: on, Sessions: off) if
            None.

    Returns:
        The partitions, sorted by device; each node has its full device.

    Raises:
        GraphError: what `place` refuses, a malformed loop, or a feed or fetch that the graph does not have.
    """
    job = as_job(item)
    ordered = replace(job, graph=in_insertion_order(job.graph))
    known = device_set(ordered.graph, devices, default)
    cut_one = _cut_function if is_function(ordered.graph) else _cut_session
    partitions = cut_one(ordered, known, soft)
    for partition in partitions.values():
        partition.versions.CopyFrom(item.graph.versions)
        partition.library.CopyFrom(item.graph.library)
    return tuple(partitions[device] for device in sorted(partitions))


def _cut_function(item: GraphItem, known: DeviceSet, soft: bool | None) -> dict[str, GraphDef]:
    wiring = _lowered(pinned(item, known))
    placed = placed_wiring(wiring, known, soft=soft is not False)
    small = replicated(placed, _next_number(placed))
    new_name = _namer("/_", 1)
    return split(with_control_loops(small, new_name), new_name)


def _cut_session(item: GraphItem, known: DeviceSet, soft: bool | None) -> dict[str, GraphDef]:
    placed = placed_wiring(_lowered(item), known, soft=soft is True)
    small = replicated(pruned(placed, item, known.client), 0)
    if known.client.job == LOCAL_JOB:
        new_name = _namer("/_", 0)
        return split(with_control_loops(small, new_name), new_name)
    new_name = _namer("_S", 0)
    tasks = split(with_control_loops(small, new_name), new_name, task_of)
    return {device: graph for task in sorted(tasks) for device, graph in _cut_task(tasks[task]).items()}


def _cut_task(graph: GraphDef) -> dict[str, GraphDef]:
    devices = {node.device for node in graph.node}
    if len(devices) == 1:
        return {devices.pop(): graph}
    return split(Wiring.of(in_insertion_order(graph)), _namer("_G", 0))


def _lowered(item: GraphItem) -> Wiring:
    return Wiring.of(lower(item).graph)


def _namer(mark: str, start: int) -> Namer:
    numbers = count(start)
    return lambda name: f"{name}{mark}{next(numbers)}"


def _next_number(wiring: Wiring) -> int:
    """The number after the last that lowering gave out: TensorFlow goes on counting."""
    found = [int(match.group(1)) for name in wiring.names if (match := _GENERATED.search(name))]
    return max(found, default=-1) + 1
