"""A `ClusterCoordinator` made by hand, with the methods that tfwave watches, and functions for it to schedule."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.graphs import SERVERS, WORKER
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef


class Function:
    """A trace of a function that pulls so many constants from a server, as a `ConcreteFunction` tells of itself.

    It makes a step or several; before the next, each value is updated where it is.
    """

    def __init__(self, name: str, pulls: int = 3, steps: int = 1) -> None:
        self.function_def = SimpleNamespace(signature=SimpleNamespace(name=name))
        self.graph = Graph(lambda: _graph(pulls, steps))


@dataclass(eq=False)
class Graph:
    """What a function was traced into."""

    as_graph_def: Callable[[], GraphDef]
    inputs: tuple[Any, ...] = ()
    outputs: tuple[Any, ...] = (SimpleNamespace(name="sum:0"),)
    control_outputs: tuple[Any, ...] = ()
    captures: tuple[Any, ...] = ()


def _graph(pulls: int, steps: int) -> GraphDef:
    graph = GraphDef()
    names = [f"v{i}" for i in range(pulls)]
    for name in names:
        node = graph.node.add(name=name, op="Const", device=SERVERS[0])
        node.attr["dtype"].type = DT_FLOAT
        node.attr["value"].tensor.dtype = DT_FLOAT
        node.attr["value"].tensor.tensor_shape.dim.add(size=100)  # TensorFlow copies smaller ones
        node.attr["value"].tensor.float_val.append(1.0)
    for step in range(1, steps):
        gradient = _add(graph, f"gradient{step}", names, WORKER)
        names = [_add(graph, f"v{i}_{step}", [name, gradient], SERVERS[0]) for i, name in enumerate(names)]
    _add(graph, "sum", names, WORKER)
    return graph


def _add(graph: GraphDef, name: str, inputs: Sequence[str], device: str) -> str:
    node = graph.node.add(name=name, op="AddN", input=inputs, device=device)
    node.attr["T"].type = DT_FLOAT
    node.attr["N"].i = len(inputs)
    return name


@dataclass(eq=False)
class Closure:
    """A call that is scheduled, of plain Python without a function; it fails so often before it succeeds."""

    _concrete_function: Function | None
    fails: int = 0


@dataclass
class Queue:
    waiting: list[Closure] = field(default_factory=list[Closure])
    finished: int = 0

    def put(self, closure: Closure, tag: Any = None) -> None:
        del tag
        self.waiting.append(closure)

    def put_back(self, closure: Closure) -> None:
        self.waiting.insert(0, closure)

    def mark_finished(self) -> None:
        self.finished += 1


@dataclass
class Worker:
    worker_index: int
    queue: Queue
    seconds: float = 0.0
    recoveries: int = 0

    def _process_closure(self, closure: Closure) -> None:
        if closure.fails:
            closure.fails -= 1
            self.queue.put_back(closure)
            self._on_worker_recovery()
        else:
            time.sleep(self.seconds)
            self.queue.mark_finished()

    def _on_worker_recovery(self) -> None:
        self.recoveries += 1

    def work(self) -> None:
        """Process the next closure, as the thread of a worker does."""
        self._process_closure(self.queue.waiting.pop(0))


class Coordinator:
    """Schedules; its workers process when they are told to."""

    def __init__(self, workers: int) -> None:
        queue = Queue()
        self.workers = [Worker(i, queue) for i in range(workers)]
        self.queue = queue
        self._cluster = SimpleNamespace(closure_queue=queue, workers=self.workers)

    def step(self, function: Function | None) -> None:
        """One step of a function on each worker."""
        for worker in self.workers:
            self.queue.put(Closure(function))
            worker.work()
