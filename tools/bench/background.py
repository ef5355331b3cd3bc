"""What a training in the background costs a foreground, and how much of the idle time it takes.

Three foregrounds: convolutions that keep the cores busy, the same with waits in each step, and a recurrent one that
uses one core. The background trains convolutions, as `tfwave background` runs it; so does one that is paused where
it slows the foreground by more than a twentieth, as `Background(slowdown_at_most=1.05)` does ("limited"), and one
that runs out of memory after a few steps and begins anew, for ever ("failing"); and, to compare, one as any process
("equal"). Windows with and without it take turns; slowdowns are of the two windows of a repeat.

* `progress`: steps of the background, over those that it makes in as long by itself ("alone", which says how much
  of the cores that takes).
* `share_of_idle`: that over the idle share of the cores in the window without it; what it costs the background to
  give way is in it, and where it moves the foreground, so is what that leaves then.
* `used_of_idle`: the background's CPU time over that and what stayed idle beside it.
* `delay_alone`, `delay`: for how long the foreground's threads waited for a core, over the window (schedstat). What
  slows a foreground and is not in it is shared otherwise, as caches and memory.

With `--faults`, it is struck once, in the middle of the window: it is killed, or never ends its step, or runs out
of memory and ends. What that costs the foreground is in the window.

    tools/bench/background.py                                    eight minutes, and a quiet machine
    tools/bench/background.py --faults                           ten minutes, and a quiet machine
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
from tfwave.colocate.pacing import Pacing
from tfwave.runtime.background import BackgroundProcess

KINDS = ("busy", "gaps", "serial")
READY_SECONDS = 300.0
WARMUP_STEPS = 5
GAP_SECONDS = 0.008
ALLOWED = 1.05
"""Of the limited one."""
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
    ready: Path
    pause: Callable[[], None]
    resume: Callable[[], None]

    def cpu_seconds(self) -> float:
        """Of all its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def steps(self) -> int:
        """Made so far."""
        return int.from_bytes(self.ready.read_bytes())


def delay_seconds() -> float:
    """How long threads of this process have waited for a core, of all that there are now."""
    threads = Path("/proc/self/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[1]) for thread in threads) / 1e9


def idle_seconds() -> float:
    """Core seconds that were nobody's so far."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()
    return (int(fields[4]) + int(fields[5])) / TICKS


@contextmanager
def lowest(ready: Path, *options: str) -> Generator[Beside]:
    """As `tfwave background`."""
    process = BackgroundProcess([sys.executable, __file__, "--train", str(ready), *options])
    try:
        yield Beside(process.pid, ready, process.pause, process.resume)
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
            ready,
            lambda: process.send_signal(signal.SIGSTOP),
            lambda: process.send_signal(signal.SIGCONT),
        )
    finally:
        process.kill()
        process.wait()


def failing(ready: Path) -> AbstractContextManager[Beside]:
    """As `tfwave background`, of a program that fails all the time."""
    return lowest(ready, "--fail")


@contextmanager
def doomed(fault: str, directory: Path) -> Generator[Beside]:
    """As `tfwave background`, ready and paused, of a program that does this to itself at SIGUSR1."""
    ready = directory / fault
    ready.unlink(missing_ok=True)
    with lowest(ready, "--fault", fault) as beside:
        wait_until(ready)
        beside.pause()
        yield beside


MODES = {"background": lowest, "limited": lowest, "failing": failing, "equal": equal}


def wait_until(ready: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while not ready.is_file():
        if time.monotonic() > end:
            sys.exit(f"the background did not train within {READY_SECONDS:g} s: others keep the cores busy")
        time.sleep(0.1)


def window(
    step: Callable[[], object], seconds: float, behind: Callable[[float], None] | None = None
) -> list[float]:
    """Seconds of each step; what is behind each is told them."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
        if behind:
            behind(times[-1])
    return times


def alone(beside: Beside, seconds: float) -> Ran:
    """A window of the background by itself."""
    beside.resume()
    steps, begin = beside.steps(), beside.cpu_seconds()
    time.sleep(seconds)
    made, taken = beside.steps() - steps, beside.cpu_seconds() - begin
    beside.pause()
    return {"steps_a_second": made / seconds, "taken": taken / ((os.cpu_count() or 1) * seconds)}


def paced(pacing: Pacing, beside: Beside) -> Callable[[float], None]:
    """As `tfwave.colocate.Background` does behind each step."""

    def behind(seconds: float) -> None:
        pacing.note(seconds)
        (beside.resume if pacing.runs else beside.pause)()

    return behind


def struck(beside: Beside, seconds: float) -> Callable[[float], None]:
    """Strike it behind the first step that ends so late from now."""
    at: float | None = time.perf_counter() + seconds

    def behind(_: float) -> None:
        nonlocal at
        if at is not None and time.perf_counter() >= at:
            os.kill(beside.pid, signal.SIGUSR1)
            at = None

    return behind


def compare_struck(step: Callable[[], object], beside: Beside, seconds: float) -> Ran:
    """A window without it and one in the middle of which it is struck."""
    without = window(step, seconds)
    beside.resume()
    begin = beside.cpu_seconds()
    slowed = window(step, seconds, struck(beside, seconds / 2))
    taken = beside.cpu_seconds() - begin
    return slowdowns(without, slowed) | {"taken": taken / ((os.cpu_count() or 1) * seconds)}


def slowdowns(without: list[float], slowed: list[float]) -> Ran:
    """Of a step with a background, over one without: the median's, and the 95th percentile's."""
    return {
        "slowdown": statistics.median(slowed) / statistics.median(without),
        "slowdown_p95": (p95(slowed) or 0.0) / (p95(without) or 1.0),
    }


def compare(
    step: Callable[[], object], beside: Beside, pacing: Pacing | None, rate: float, seconds: float
) -> Ran:
    """A window without it and one with it, which makes so many steps a second by itself."""
    cores = (os.cpu_count() or 1) * seconds
    idle, waited = idle_seconds(), delay_seconds()
    without = window(step, seconds)
    left, waited_without = (idle_seconds() - idle) / cores, delay_seconds() - waited
    if pacing is None or pacing.runs:
        beside.resume()
    idle, waited, begin, steps = idle_seconds(), delay_seconds(), beside.cpu_seconds(), beside.steps()
    slowed = window(step, seconds, None if pacing is None else paced(pacing, beside))
    unused, waited_with = idle_seconds() - idle, delay_seconds() - waited
    taken, made = beside.cpu_seconds() - begin, beside.steps() - steps
    beside.pause()
    progress = made / seconds / rate if rate else None
    return slowdowns(without, slowed) | {
        "idle_alone": left,
        "taken": taken / cores,
        "progress": progress,
        "share_of_idle": progress / left if progress is not None and left else None,
        "used_of_idle": taken / (taken + unused) if taken + unused else None,
        "delay_alone": waited_without / seconds,
        "delay": waited_with / seconds,
        "held": float(pacing.held) if pacing else None,
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
        pacing = {kind: Pacing(ALLOWED) for kind in KINDS}
        by_itself: dict[str, list[Ran]] = {mode: [] for mode in MODES}
        runs: dict[str, dict[str, list[Ran]]] = {kind: {mode: [] for mode in MODES} for kind in KINDS}
        for repeat in range(repeats):
            for mode in MODES:
                by_itself[mode].append(alone(beside[mode], seconds))
            for kind, step in steps.items():
                for mode in list(MODES) if repeat % 2 else list(MODES)[::-1]:
                    rate = by_itself[mode][-1]["steps_a_second"] or 0.0
                    limit = pacing[kind] if mode == "limited" else None
                    runs[kind][mode].append(compare(step, beside[mode], limit, rate, seconds))
    return {
        kind: {mode: of_mode(found) for mode, found in modes.items()}
        for kind, modes in {**runs, "alone": by_itself}.items()
    }


def measure_faults(seconds: float, repeats: int) -> dict[str, object]:
    """All kinds and faults; the order of the faults turns."""
    runs: dict[str, dict[str, list[Ran]]] = {kind: {fault: [] for fault in FAULTS} for kind in KINDS}
    steps = {kind: training(kind) for kind in KINDS}
    for step in steps.values():
        window(step, seconds)
    with tempfile.TemporaryDirectory() as directory:
        for repeat in range(repeats):
            for kind, step in steps.items():
                for fault in list(FAULTS) if repeat % 2 else list(FAULTS)[::-1]:
                    with doomed(fault, Path(directory)) as beside:
                        runs[kind][fault].append(compare_struck(step, beside, seconds))
    return {kind: {fault: of_mode(found) for fault, found in faults.items()} for kind, faults in runs.items()}


def of_mode(runs: list[Ran]) -> dict[str, object]:
    """Median, least and most of each figure."""
    figures: dict[str, object] = {}
    for name in runs[0]:
        values = [value for run in runs if (value := run[name]) is not None]
        figures[name] = [statistics.median(values), min(values), max(values)] if values else None
    return figures


def train(ready: Path, fails: bool, fault: str | None) -> None:
    """The background: for ever; one that `fails` runs out of memory instead, and begins anew."""
    struck = list[int]()
    signal.signal(signal.SIGUSR1, lambda number, _: struck.append(number))
    step = training("busy")
    steps = int.from_bytes(ready.read_bytes()) if ready.is_file() else 0
    for _ in range(WARMUP_STEPS):
        step()
    with ready.open("r+b" if steps else "wb", buffering=0) as told:
        while not struck:
            steps += 1
            os.pwrite(told.fileno(), steps.to_bytes(8), 0)
            if fails:
                begin_anew()
            step()
    FAULTS[fault or "killed"]()


def begin_anew() -> None:
    """As a program that runs out of memory and is started again."""
    try:
        run_out()
    except MemoryError:
        os.execv(sys.executable, [sys.executable, *sys.argv])


def run_out() -> None:
    """Ask for more memory than there is."""
    bytearray(1 << 48)


def hang() -> None:
    """Keep a core busy, and never end."""
    while True:
        pass


def kill() -> None:
    """As a kernel that lacks memory does."""
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS = {"killed": kill, "hanging": hang, "out of memory": run_out}


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--faults", action="store_true", help="one that is struck in the middle of a window")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fail", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fault", choices=FAULTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments.fail, arguments.fault)
    load, measured = os.getloadavg(), measure_faults if arguments.faults else measure
    print(json.dumps({"load": load, **measured(arguments.seconds, arguments.repeats)}, indent=1))


if __name__ == "__main__":
    main()
