"""Proxies: in a function, the edges from one node to many of another task go through one node there."""

from collections.abc import Iterable, Iterator
from itertools import count

from tfwave.graph.names import CONTROL_PORT, task_of
from tfwave.graph.partition.signatures import as_type
from tfwave.graph.partition.wiring import Draft, Fanin, Wiring
from tfwave.proto.tensorflow_pb2 import NodeDef

_LEAST_CONTROL_EDGES = 8
_LEAST_DATA_EDGES = 2


def with_proxies(wiring: Wiring, first_number: int) -> Wiring:
    """Bundle the edges of a function between tasks as TensorFlow does; in this sequence:

    Case 1: at least 8 control edges from a node to one other task go through a NoOp there.
    Case 2: at least 8 control edges to a node from one other task go through a NoOp there.
    Case 3: at least 2 tensors from a node to several nodes of one other task go through an Identity there,
        or an IdentityN if they are different outputs.

    A proxy is on CPU:0 of its task. Proxies are numbered from `first_number` on, by node and task.
    """
    if len(set(map(task_of, set(wiring.devices)))) < 2:
        return wiring
    numbers = count(first_number)
    for bundle in (_bundle_control_outputs, _bundle_control_inputs, _bundle_data_outputs):
        wiring = bundle(wiring, numbers)
    return wiring


def _bundle_control_outputs(wiring: Wiring, numbers: Iterator[int]) -> Wiring:
    draft = Draft(wiring)
    for node, fanouts in enumerate(wiring.fanouts):
        readers = [(reader, port) for reader, port in fanouts if port == CONTROL_PORT]
        for task, group in _elsewhere(wiring, node, readers, _LEAST_CONTROL_EDGES):
            proxy = NodeDef(name=f"{wiring.names[node]}/control_after/_{next(numbers)}", op="NoOp")
            made = draft.add(proxy, [(node, CONTROL_PORT)], _cpu(task))
            for reader, _ in group:
                draft.fanins[reader] = _without(draft.fanins[reader], [node], made)
    return draft.wiring()


def _bundle_control_inputs(wiring: Wiring, numbers: Iterator[int]) -> Wiring:
    draft = Draft(wiring)
    for node, fanins in enumerate(wiring.fanins):
        sources = [(source, port) for source, port in fanins if port == CONTROL_PORT]
        for task, group in _elsewhere(wiring, node, sources, _LEAST_CONTROL_EDGES):
            proxy = NodeDef(name=f"{wiring.names[node]}/control_before/_{next(numbers)}", op="NoOp")
            made = draft.add(proxy, group, _cpu(task))
            draft.fanins[node] = _without(draft.fanins[node], [source for source, _ in group], made)
    return draft.wiring()


def _bundle_data_outputs(wiring: Wiring, numbers: Iterator[int]) -> Wiring:
    draft = Draft(wiring)
    for node, fanouts in enumerate(wiring.fanouts):
        readers = [(reader, port) for reader, port in fanouts if port != CONTROL_PORT]
        for task, group in _elsewhere(wiring, node, readers, _LEAST_DATA_EDGES):
            if len({reader for reader, _ in group}) > 1:
                made = _add_data_proxy(draft, wiring, node, group, next(numbers))
                draft.devices[made] = _cpu(task)
    return draft.wiring()


def _add_data_proxy(draft: Draft, wiring: Wiring, node: int, readers: list[Fanin], number: int) -> int:
    types = wiring.table.output_types(wiring.nodes[node])
    ports = [port for _, port in readers]
    is_one = len(set(ports)) == 1
    proxy = NodeDef(
        name=f"{wiring.names[node]}/data_after/_{number}", op="Identity" if is_one else "IdentityN"
    )
    if is_one:
        proxy.attr["T"].type = as_type(types[ports[0]])
    else:
        proxy.attr["T"].list.type.extend([as_type(types[port]) for port in ports])
    made = draft.add(proxy, [(node, port) for port in (ports[:1] if is_one else ports)], "")
    outputs = iter([0] * len(ports) if is_one else range(len(ports)))
    for reader in dict.fromkeys(reader for reader, _ in readers):
        old = draft.fanins[reader]
        moved = [source == node and port != CONTROL_PORT for source, port in old]
        draft.fanins[reader] = tuple(
            [(made, next(outputs)) if move else fanin for fanin, move in zip(old, moved, strict=True)]
        )
    return made


def _elsewhere(
    wiring: Wiring, node: int, others: Iterable[Fanin], least: int
) -> list[tuple[str, list[Fanin]]]:
    """The neighbours of a node that are on other tasks, by task, where a task has at least so many."""
    own = task_of(wiring.devices[node])
    groups: dict[str, list[Fanin]] = {}
    for other, port in others:
        task = task_of(wiring.devices[other])
        if task != own:
            groups.setdefault(task, []).append((other, port))
    return [(task, groups[task]) for task in sorted(groups) if len(groups[task]) >= least]


def _without(fanins: Iterable[Fanin], gone: Iterable[int], proxy: int) -> tuple[Fanin, ...]:
    """Fanins with one control edge from a proxy instead of those from some nodes."""
    removed = {(source, CONTROL_PORT) for source in gone}
    return (*(fanin for fanin in fanins if fanin not in removed), (proxy, CONTROL_PORT))


def _cpu(task: str) -> str:
    return f"{task}/device:CPU:0"
