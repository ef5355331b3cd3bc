"""A process that trains a foreground for some seconds, beside a background; its last line says what steps took.

python -m tools.gpu.streams_task cpu|gpu WAY SECONDS BACKGROUND_BATCH MEMORY_BYTES
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from tfwave.colocate.latency import p95
from tools.bench.bursts.background import window
from tools.bench.bursts.background_trainings import function

MODULE = "tools.gpu.streams_task"
ALONE, EQUAL, PRIORITIES, PROCESS = "alone", "same priority", "priorities", "process"
WAYS = (ALONE, EQUAL, PRIORITIES, PROCESS)
BACKGROUND = "background"
"""What the process of the background does in the last of them."""
FIRST, LAST = -1, 0
"""Priorities: CUDA's smaller numbers come first, and 0 is the last."""
READY_SECONDS = 60.0
KIND = "busy"


class Training:
    """Steps on a device, for ever, until they are told to stop."""

    def __init__(self, device: str, batch: int) -> None:
        """Its first step is made at once."""
        self.steps = 0
        self.stop = threading.Event()
        self._tf: Any = import_module("tensorflow")
        self._device = device
        with self._tf.device(device):
            self._step = function(KIND, batch)
        self.step()

    def step(self) -> None:
        """Make one, and wait for it."""
        with self._tf.device(self._device):
            self._step().numpy()
        self.steps += 1

    def run(self) -> None:
        """Until it is stopped."""
        while not self.stop.is_set():
            self.step()


def devices(device: str, way: str, memory: int) -> list[str]:
    """Two logical devices, the first for the foreground."""
    tf: Any = import_module("tensorflow")
    physical = tf.config.list_physical_devices(device.upper())[0]
    priorities = (FIRST, LAST) if way == PRIORITIES else (LAST, LAST)
    configuration = tf.config.LogicalDeviceConfiguration
    logical = (
        [configuration(memory_limit=memory >> 20, experimental_priority=p) for p in priorities]
        if device == "gpu"
        else [configuration(), configuration()]
    )
    tf.config.set_logical_device_configuration(physical, logical)
    return [each.name for each in tf.config.list_logical_devices(device.upper())]


@contextmanager
def in_thread(device: str, batch: int) -> Generator[Training]:
    """A background in this process."""
    training = Training(device, batch)
    thread = threading.Thread(target=training.run, daemon=True)
    thread.start()
    try:
        yield training
    finally:
        training.stop.set()
        thread.join(READY_SECONDS)


@contextmanager
def in_process(words: list[str]) -> Generator[None]:
    """A background in a process of its own, once it trains."""
    command = [sys.executable, "-m", MODULE, words[0], BACKGROUND, *words[2:]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


def beside(way: str, device: str, batch: int, words: list[str]) -> AbstractContextManager[Training | None]:
    """The background of a way; None where it is not in this process."""
    if way == PROCESS:
        return in_process(words)
    return nullcontext() if way == ALONE else in_thread(device, batch)


def main(words: list[str]) -> None:
    """Train and tell."""
    device, way, seconds, batch, memory = words[0], words[1], float(words[2]), int(words[3]), int(words[4])
    first, second = devices(device, way, memory)
    if way == BACKGROUND:
        training = Training(first, batch)
        print("ready", flush=True)
        training.run()
    foreground = Training(first, 16)
    with beside(way, second, batch, words) as background:
        window(foreground.step, seconds / 4)
        made, begin = (background.steps if background else 0), time.perf_counter()
        times = window(foreground.step, seconds)
        taken = time.perf_counter() - begin
        steps = (background.steps - made) / taken if background else None
    told = {"median": statistics.median(times), "p95": p95(times), "steps": len(times)}
    print(json.dumps(told | {"background_steps_a_second": steps}))


if __name__ == "__main__":
    main(sys.argv[1:])
