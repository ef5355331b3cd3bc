"""A `ClusterCoordinator` made by hand, with the methods that tfwave watches, and functions for it to schedule."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.graphs import SERVERS, WORKER
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef, NodeDef


class Function:
    """A trace of a function that pulls so many constants from a server, as a `ConcreteFunction` tells of itself.

    It makes a step or several; before the next, each value is updated where it is. Beside that it may pull as many
    in each iteration of a loop.
    """

    def __init__(self, name: str, pulls: int = 3, steps: int = 1, looped: int = 0) -> None:
        self.function_def = SimpleNamespace(signature=SimpleNamespace(name=name))
        self.graph = Graph(lambda: _with_loop(_graph(pulls, steps), looped))


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
    names = [_constant(graph, f"v{i}", SERVERS[0]) for i in range(pulls)]
    for step in range(1, steps):
        gradient = _add(graph, f"gradient{step}", names, WORKER)
        names = [_add(graph, f"v{i}_{step}", [name, gradient], SERVERS[0]) for i, name in enumerate(names)]
    _add(graph, "sum", names or [_constant(graph, "nothing", WORKER)], WORKER)
    return graph


def _with_loop(graph: GraphDef, pulls: int) -> GraphDef:
    """What it pulls in the loop, servers make there anew."""
    if not pulls:
        return graph
    names = [_constant(graph, f"l{i}", SERVERS[0]) for i in range(pulls)]
    for name in [_constant(graph, "start", WORKER), *names]:
        device = WORKER if name == "start" else SERVERS[0]
        _flow(graph, f"enter_{name}", "Enter", [name], device).attr["frame_name"].s = b"loop"
    made = [_add(graph, f"made_{name}", [f"enter_{name}"], SERVERS[0]) for name in names]
    _flow(graph, "merge", "Merge", ["enter_start", "next"], WORKER).attr["N"].i = 2
    _flow(graph, "finite", "IsFinite", ["merge"], WORKER)
    graph.node.add(name="again", op="LoopCond", input=["finite"], device=WORKER)
    _flow(graph, "switch", "Switch", ["merge", "again"], WORKER)
    _flow(graph, "next", "NextIteration", [_add(graph, "body", ["switch:1", *made], WORKER)], WORKER)
    _flow(graph, "exit", "Exit", ["switch"], WORKER)
    return graph


def _constant(graph: GraphDef, name: str, device: str) -> str:
    node = graph.node.add(name=name, op="Const", device=device)
    node.attr["dtype"].type = DT_FLOAT
    node.attr["value"].tensor.dtype = DT_FLOAT
    node.attr["value"].tensor.tensor_shape.dim.add(size=100)  # TensorFlow copies smaller ones
    node.attr["value"].tensor.float_val.append(1.0)
    return name


def _flow(graph: GraphDef, name: str, op: str, inputs: Sequence[str], device: str) -> NodeDef:
    node = graph.node.add(name=name, op=op, input=inputs, device=device)
    node.attr["T"].type = DT_FLOAT
    return node


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
