"""Another number of workers: copies of the first one's step, each with its own pulls and pushes."""

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from itertools import count, islice

from tfwave.balance.holdings import server_of
from tfwave.errors import GraphError
from tfwave.graph.names import natural_key, task_of
from tfwave.graph.reach import reached
from tfwave.whatif.layout import Layout, Place, lay_out, numbered

_MOST_NODES = 1_000_000
"""Simulating so many takes minutes."""


def workers_of(layout: Layout, job: str) -> list[str]:
    """The tasks that receive from servers and are none, sorted by their numbers.

    Raises:
        GraphError: there is none.
    """
    pulled = {
        t.channel.destination for t in layout.transfers.data if server_of(t.channel.source, job) is not None
    }
    tasks = {task_of(device) for device in pulled if server_of(device, job) is None} - {""}
    if not tasks:
        raise GraphError(
            f"no worker receives from a server (a task of the job '{job}'): name the servers' job with --job"
        )
    return sorted(tasks, key=natural_key)


def replicate(layout: Layout, job: str, workers: int) -> Layout:
    """So many workers, each of which makes the first one's step: asynchronous, but begun together.

    A step is what the worker does, all that comes of it, and all that is needed for both, less what other workers
    do. Servers make the step of each worker.

    Raises:
        GraphError: there is no worker, or the copies would be too many to simulate.
    """
    first, *others = workers_of(layout, job)
    devices = layout.devices()
    own = _step(layout, devices, first, others)
    if workers * len(own) > _MOST_NODES:
        raise GraphError(
            f"{workers} workers would be {workers * len(own)} nodes: give at most {_MOST_NODES // len(own)}"
        )
    tasks = list(islice(_tasks(first, {task_of(devices[n]) for n in own}), workers))
    places = [
        Place(node, _on(devices[node], first, task), copy) for copy, task in enumerate(tasks) for node in own
    ]
    return lay_out(layout, places)


def _step(layout: Layout, devices: Sequence[str], first: str, others: Collection[str]) -> list[int]:
    view = layout.view
    tasks = [task_of(device) for device in devices]
    gone = {node for node, task in enumerate(tasks) if task in others}
    for transfer in (*layout.transfers.data, *layout.transfers.control):
        if {task_of(transfer.channel.source), task_of(transfer.channel.destination)} & set(others):
            gone |= {transfer.recv, view.sends.get(transfer.recv, transfer.recv)}
    after = _reached([n for n, task in enumerate(tasks) if task == first], view.fanouts.__getitem__, gone)
    return sorted(_reached(after, view.fanins.__getitem__, gone))


def _reached(
    start: Iterable[int], following: Callable[[int], Iterable[int]], gone: Set[int]
) -> frozenset[int]:
    return reached(lambda node: set(following(node)) - gone, set(start) - gone)


def _tasks(first: str, taken: Collection[str]) -> Iterable[str]:
    """The first worker's task, then those of its job that the step does not name."""
    yield first
    names = (numbered(first, number) for number in count())
    yield from (name for name in names if name not in taken)


def _on(device: str, first: str, task: str) -> str:
    return task + device.removeprefix(first) if task_of(device) == first else device
