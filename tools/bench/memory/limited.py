"""Trials in processes with a limited pool: what they run, and what is kept of them for a run that goes on later."""

import json
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfwave.demo.network import LoopbackNetwork
from tfwave.demo.processes import Task, Tasks
from tfwave.errors import EnforcerError
from tfwave.plan.io import save_plan
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.allocator import Device
from tools.bench.memory import limited_task

START_SECONDS = 60.0
WAIT_SECONDS = 10.0
"""So long TensorFlow waits for what the pool has no room for, and may get it then."""
STEP_SECONDS = 4 * WAIT_SECONDS
"""The most that a step may take, also where others use the machine: on a quiet one less than 3."""
PROFILE_SECONDS = 180.0
LARGE_POOL = 8 << 30
LARGE_GPU_POOL = 16 << 30
STEPS = 5
"""Of a trial, and of a profile."""
SMALLER = 5
"""Sizes that are tried for the throughput: runs that are longer than a trial may fail."""
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
_REPEATABLE = {"TF_DETERMINISTIC_OPS": "1", "TF_CUDNN_USE_AUTOTUNE": "0"}
"""Of GPUs: the same kernels in each process, so that losses and scratch can be compared."""


@dataclass(frozen=True)
class Program:
    """A graph, the nodes that give its variables their first values, and a step's calls: fetches, and targets.

    `module` is that of the process that runs it; `plan` says where what it takes lies, where that takes one.
    """

    graph: GraphDef
    resets: tuple[str, ...]
    calls: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    module: str = limited_task.MODULE
    plan: Plan | None = None


@dataclass
class Pools:
    """Starts processes with limited pools, and keeps what they say of models in a directory."""

    out: Path
    tasks: Tasks
    device: Device = Device.CPU
    _started: int = 0
    _graphs: dict[tuple[str, int], GraphDef] = field(default_factory=dict[tuple[str, int], GraphDef])
    _builder: Task | None = None

    def profile(self, model: str, batch: int) -> Path:
        """The directory of what `limited_task` tells of a model's step; made once."""
        directory = self.out / "profiles" / f"{model}-{batch}"
        if not (directory / "steps.json").exists():
            self._make_profile(model, batch, directory)
        return directory

    def graph(self, model: str, batch: int) -> GraphDef:
        """Of a training step; built once."""
        profile = self.out / "profiles" / f"{model}-{batch}"
        if (profile / "steps.json").exists():
            return GraphDef.FromString((profile / "graph.pb").read_bytes())
        if (model, batch) not in self._graphs:
            self._builder = self._builder or self.start(self.large)
            file = self.out / f"built-{self._started}.pb"
            request = {"do": "build", "model": model, "batch": batch, "out": str(file)}
            self._builder.request(request, START_SECONDS)
            self._graphs[model, batch] = GraphDef.FromString(file.read_bytes())
            file.unlink()
        return self._graphs[model, batch]

    def start(self, limit: int, module: str = limited_task.MODULE) -> Task:
        """A process with a pool of so many bytes."""
        self._started += 1
        name = f"{self._started}-{limit >> 20}MB"
        task = self.tasks.start(name, "here", module, environment(self.device))
        task.request({"limit": limit, "device": self.device}, START_SECONDS)
        return task

    @property
    def large(self) -> int:
        """The bytes of a pool that none of the models fills."""
        return LARGE_POOL if self.device == Device.CPU else LARGE_GPU_POOL

    @contextmanager
    def running(self, limit: int, program: Program) -> Generator[Task]:
        """A process with a program in its pool.

        Raises:
            EnforcerError: it ended, or did not start in time.
        """
        file = self.out / f"graph-{self._started}.pb"
        file.write_bytes(program.graph.SerializeToString(deterministic=True))
        request = {"do": "load", "graph": str(file), "resets": program.resets, "calls": program.calls}
        if program.plan is not None:
            save_plan(program.plan, file.with_suffix(".plan"))
            request["plan"] = str(file.with_suffix(".plan"))
        try:
            with self.asked(limit, program.module, request) as task:
                yield task
        finally:
            file.unlink()
            file.with_suffix(".plan").unlink(missing_ok=True)

    @contextmanager
    def asked(self, limit: int, module: str, request: Mapping[str, object]) -> Generator[Task]:
        """A process that did what it was asked first.

        Raises:
            EnforcerError: it ended, or did not start in time.
        """
        task = self.start(limit, module)
        try:
            answer = task.request(request, START_SECONDS)
            if "error" in answer:
                raise EnforcerError(answer["error"])
            yield task
        finally:
            task.end()

    def _make_profile(self, model: str, batch: int, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)  # of a run that was stopped
        request = {"do": "profile", "model": model, "batch": batch, "steps": STEPS, "out": str(directory)}
        task = self.start(self.large)  # a process of its own: how a pool pads depends on what it gave before
        answer = task.request(request, PROFILE_SECONDS)
        task.end()
        (directory / "steps.json").write_text(json.dumps(answer))


def environment(device: Device) -> dict[str, str]:
    """The variables of a process that computes there: tasks see no GPU if nothing says otherwise."""
    if device == Device.CPU:
        return _QUIET
    return _QUIET | _REPEATABLE | {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}


def run_steps(task: Task, count: int) -> dict[str, Any]:
    """What `limited_task` says of a run.

    Raises:
        EnforcerError: the pool was exhausted, or a step took too long.
    """
    answers: list[dict[str, Any]] = []
    for _ in range(count):
        answers.append(task.request({"do": "run", "steps": 1}, STEP_SECONDS))
        if "error" in answers[-1]:
            raise EnforcerError(answers[-1]["error"])
    joined = {key: [value for answer in answers for value in answer[key]] for key in ("seconds", "losses")}
    return joined | {"peak": answers[-1]["peak"]}


def outcome_of(error: EnforcerError) -> str:
    """In short: "exhausted", or how the process ended."""
    return str(error).partition(";")[0]


@dataclass(frozen=True)
class Log:
    """A file of one JSON object a line."""

    path: Path

    def lines(self) -> Iterator[dict[str, Any]]:
        """Those of earlier runs; a line that was cut short is none, and taken out."""
        text = self.path.read_text() if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.path.write_text(whole)
        return map(json.loads, whole.splitlines())

    def add(self, values: Mapping[str, object]) -> None:
        """Write a line."""
        with self.path.open("a") as file:
            file.write(json.dumps(values) + "\n")


@contextmanager
def open_pools(out: Path, device: Device = Device.CPU) -> Generator[Pools]:
    """The processes of a run whose directory is taken up where it was left."""
    (out / "profiles").mkdir(parents=True, exist_ok=True)
    (out / "logs").mkdir(exist_ok=True)
    with LoopbackNetwork(("here",), 1e9) as network, Tasks(network, out / "logs") as tasks:
        yield Pools(out, tasks, device)


def largest(places: range, start: int, once: Callable[[int], bool], always: Callable[[int], bool]) -> int:
    """The largest place that always holds, from the largest that held once down, which is sought from `start` on.

    One less than all if none does. What holds at a place is taken to hold at those below.
    """
    top = _last(places, start, once)
    return _last(range(places.start, top + 1), top, always)


def _last(places: range, start: int, holds: Callable[[int], bool]) -> int:
    good, bad, stride, place = places.start - 1, places.stop, 1, start
    while bad - good > 1:
        if holds(place):
            good = place
            place = good + stride if bad == places.stop else (good + bad) // 2
        else:
            bad = place
            place = bad - stride if good < places.start else (good + bad) // 2
        stride *= 2
        place = min(max(place, good + 1), bad - 1)
    return good
