"""What a training in the background costs a foreground, and how much of the idle time it takes.

Three foregrounds: convolutions that keep the cores busy, the same with waits in each step, and a recurrent one that
uses one core. The background trains convolutions, as `tfwave background` runs it; so does one that runs out of
memory after a few steps and begins anew, for ever ("failing"); and, to compare, one as any process ("equal").
Windows with and without it take turns; slowdowns are of the two windows of a repeat. The share of the idle time is
the background's CPU time over that and what stayed idle beside it.

    tools/bench/background.py                                    minutes, and a quiet machine
    tools/bench/background.py --seconds 0.5 --repeats 2          to see whether it works
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tfwave.colocate.latency import p95
from tfwave.runtime.background import BackgroundProcess

KINDS = ("busy", "gaps", "serial")
READY_SECONDS = 300.0
WARMUP_STEPS = 5
GAP_SECONDS = 0.008
TICKS = os.sysconf("SC_CLK_TCK")

Ran = dict[str, float | None]


def training(kind: str) -> Callable[[], object]:
    """A step of it."""
    tf: Any = import_module("tensorflow")
    if kind == "serial":
        forward, shapes = recurrent, [[192, 128]]
    else:
        forward, shapes = convolved, [[3, 3, 24 if layer else 3, 24] for layer in range(6)]
    weights = [
        tf.Variable(0.1 * tf.random.stateless_normal(shape, [1, seed])) for seed, shape in enumerate(shapes)
    ]

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(tf, weights) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(1e-3 * gradient)
        return loss

    def made() -> object:
        time.sleep(GAP_SECONDS if kind == "gaps" else 0)
        return step().numpy()

    return made


def recurrent(tf: Any, weights: list[Any]) -> Any:
    """Small products, each of which waits for the one before."""
    hidden = tf.zeros([8, 128])
    for word in tf.unstack(tf.random.stateless_normal([24, 8, 64], [2, 0])):
        for _ in range(3):
            hidden = tf.tanh(tf.concat([word, hidden], 1) @ weights[0])
    return hidden


def convolved(tf: Any, weights: list[Any]) -> Any:
    """Convolutions of small pictures."""
    hidden = tf.random.stateless_normal([16, 32, 32, 3], [2, 0])
    for weight in weights:
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, weight, 1, "SAME"))
    return hidden


@dataclass(frozen=True)
class Beside:
    """A background that runs, or is paused."""

    pid: int
    pause: Callable[[], None]
    resume: Callable[[], None]

    def cpu_seconds(self) -> float:
        """Of all its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def idle_seconds() -> float:
    """Core seconds that were nobody's so far."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()
    return (int(fields[4]) + int(fields[5])) / TICKS


@contextmanager
def lowest(ready: Path, *options: str) -> Generator[Beside]:
    """As `tfwave background`."""
    process = BackgroundProcess([sys.executable, __file__, "--train", str(ready), *options])
    try:
        yield Beside(process.pid, process.pause, process.resume)
    finally:
        process.end()


@contextmanager
def equal(ready: Path) -> Generator[Beside]:
    """As any process."""
    command = [sys.executable, __file__, "--train", str(ready)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield Beside(
            process.pid,
            lambda: process.send_signal(signal.SIGSTOP),
            lambda: process.send_signal(signal.SIGCONT),
        )
    finally:
        process.kill()
        process.wait()


def failing(ready: Path) -> AbstractContextManager[Beside]:
    """As `tfwave background`, of a program that fails all the time."""
    return lowest(ready, "--fail")


MODES = {"background": lowest, "failing": failing, "equal": equal}


def wait_until(ready: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while not ready.is_file():
        if time.monotonic() > end:
            sys.exit(f"the background did not train within {READY_SECONDS:g} s: others keep the cores busy")
        time.sleep(0.1)


def window(step: Callable[[], object], seconds: float) -> list[float]:
    """Seconds of each step."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def compare(step: Callable[[], object], beside: Beside, seconds: float) -> Ran:
    """A window without it and one with it."""
    cores = (os.cpu_count() or 1) * seconds
    idle = idle_seconds()
    alone = window(step, seconds)
    left = (idle_seconds() - idle) / cores
    beside.resume()
    idle, begin = idle_seconds(), beside.cpu_seconds()
    slowed = window(step, seconds)
    unused, taken = idle_seconds() - idle, beside.cpu_seconds() - begin
    beside.pause()
    return {
        "slowdown": statistics.median(slowed) / statistics.median(alone),
        "slowdown_p95": (p95(slowed) or 0.0) / (p95(alone) or 1.0),
        "idle_alone": left,
        "taken": taken / cores,
        "share_of_idle": taken / (taken + unused) if taken + unused else None,
    }


def measure(seconds: float, repeats: int) -> dict[str, object]:
    """All kinds and modes; the order of the modes turns."""
    with ExitStack() as started, tempfile.TemporaryDirectory() as directory:
        beside: dict[str, Beside] = {}
        for mode, start in MODES.items():
            ready = Path(directory) / mode
            beside[mode] = started.enter_context(start(ready))
            wait_until(ready)
            beside[mode].pause()
        steps = {kind: training(kind) for kind in KINDS}
        for step in steps.values():
            window(step, seconds)
        runs: dict[str, dict[str, list[Ran]]] = {kind: {mode: [] for mode in MODES} for kind in KINDS}
        for repeat in range(repeats):
            for kind, step in steps.items():
                for mode in list(MODES) if repeat % 2 else list(MODES)[::-1]:
                    runs[kind][mode].append(compare(step, beside[mode], seconds))
    return {kind: {mode: of_mode(found) for mode, found in modes.items()} for kind, modes in runs.items()}


def of_mode(runs: list[Ran]) -> dict[str, object]:
    """Median, least and most of each figure."""
    figures: dict[str, object] = {}
    for name in runs[0]:
        values = [value for run in runs if (value := run[name]) is not None]
        figures[name] = [statistics.median(values), min(values), max(values)] if values else None
    return figures


def train(ready: Path, fails: bool) -> None:
    """The background: for ever; one that `fails` runs out of memory instead, and begins anew."""
    step = training("busy")
    for _ in range(WARMUP_STEPS):
        step()
    ready.touch()
    if fails:
        run_out()
    while True:
        step()


def run_out() -> None:
    """Of memory, and begin anew."""
    try:
        bytearray(1 << 48)
    except MemoryError:
        os.execv(sys.executable, [sys.executable, *sys.argv])


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fail", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments.fail)
    print(json.dumps({"load": os.getloadavg(), **measure(arguments.seconds, arguments.repeats)}, indent=1))


if __name__ == "__main__":
    main()
