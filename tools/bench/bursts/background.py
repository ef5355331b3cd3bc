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
of memory and ends. It is run as `Background(restarts=True, slowdown_at_most=1.05)` runs it, so its pauses and what
it takes to be started again are in the window, as far as they come in it. Whether the window without it is before
or behind it turns. "alone" has no background at all, in neither window: what the machine does by itself is the
least that the others can be told apart by. `met` says whether the medians keep to the limits (`MEDIAN_AT_MOST`,
`P95_AT_MOST`), whatever "alone" reads.

    tools/bench/bursts/background.py                                    eight minutes, and a quiet machine
    tools/bench/bursts/background.py --faults                           about twenty minutes, and a quiet machine
    tools/bench/bursts/background.py --seconds 0.5 --repeats 2          to see whether it works
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
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.colocate.latency import p95
from tfwave.colocate.pacing import Pacing
from tfwave.runtime.background import BackgroundProcess
from tools.bench.bursts.background_trainings import KINDS, training

READY_SECONDS = 300.0
WARMUP_STEPS = 5
ALLOWED = 1.05
"""Of the limited one."""
MEDIAN_AT_MOST, P95_AT_MOST = 1.05, 1.2
TICKS = os.sysconf("SC_CLK_TCK")

Ran = dict[str, float | None]


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
def lowest(ready: Path, *options: str, restarts: bool = False) -> Generator[Beside]:
    """As `tfwave background`, or as one that is started again."""
    command = [sys.executable, __file__, "--train", str(ready), *options]
    process = BackgroundProcess(command, restarts=restarts)
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
    """As `Background(restarts=True)`, ready and paused, of a program that does this to itself at SIGUSR1."""
    ready = directory / fault
    ready.unlink(missing_ok=True)
    with lowest(ready, "--fault", fault, restarts=True) as beside:
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


def struck(beside: Beside, pacing: Pacing, seconds: float) -> Callable[[float], None]:
    """Strike it, paused or not, behind the first step that ends so late from now; paced before and behind that."""
    at: float | None = time.perf_counter() + seconds
    pace = paced(pacing, beside)

    def behind(taken: float) -> None:
        nonlocal at
        pace(taken)
        if at is not None and time.perf_counter() >= at:
            beside.resume()
            for program in programs_of(beside.pid):
                os.kill(program, signal.SIGUSR1)
            at = None

    return behind


def programs_of(pid: int) -> list[int]:
    """Those that it has started and that run."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def window_struck(
    step: Callable[[], object],
    beside: Callable[[], AbstractContextManager[Beside]],
    pacing: Pacing,
    seconds: float,
) -> list[float]:
    """Of a window in the middle of which it is struck."""
    with beside() as program:
        program.resume()
        return window(step, seconds, struck(program, pacing, seconds / 2))


def compare_struck(
    step: Callable[[], object], slowed: Callable[[], list[float]], seconds: float, first: bool
) -> Ran:
    """A window without it, before or behind the slowed one."""
    if first:
        without = window(step, seconds)
        return slowdowns(without, slowed())
    found = slowed()
    return slowdowns(window(step, seconds), found)


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
    """All kinds and faults; their order turns."""
    names = [ALONE, *FAULTS]
    runs: dict[str, dict[str, list[Ran]]] = {kind: {name: [] for name in names} for kind in KINDS}
    pacing = {kind: Pacing(ALLOWED) for kind in KINDS}
    steps = {kind: training(kind) for kind in KINDS}
    for step in steps.values():
        window(step, seconds)
    with tempfile.TemporaryDirectory() as directory:
        for repeat in range(repeats):
            for kind, step in steps.items():
                for name in names if repeat % 2 else names[::-1]:
                    beside = partial(doomed, name, Path(directory))
                    slowed = (
                        partial(window, step, seconds)
                        if name == ALONE
                        else partial(window_struck, step, beside, pacing[kind], seconds)
                    )
                    runs[kind][name].append(compare_struck(step, slowed, seconds, bool(repeat % 2)))
    return {
        kind: {name: of_mode(found) | {"met": is_met(found)} for name, found in faults.items()}
        for kind, faults in runs.items()
    }


def is_met(runs: list[Ran]) -> bool:
    """Do the medians of both slowdowns keep to their limits?"""
    median, tail = ([run[name] or 0.0 for run in runs] for name in ("slowdown", "slowdown_p95"))
    return statistics.median(median) <= MEDIAN_AT_MOST and statistics.median(tail) <= P95_AT_MOST


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


ALONE = "alone"
FAULTS = {"killed": kill, "hanging": hang, "out of memory": run_out}


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="of a window: 3, and 6 with --faults")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--faults", action="store_true", help="one that is struck in the middle of a window")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fail", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fault", choices=FAULTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments.fail, arguments.fault)
    load, measured = os.getloadavg(), measure_faults if arguments.faults else measure
    seconds = arguments.seconds or (6.0 if arguments.faults else 3.0)
    print(json.dumps({"load": load, **measured(seconds, arguments.repeats)}, indent=1))


if __name__ == "__main__":
    main()
