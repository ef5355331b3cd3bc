"""A program that takes what others leave: its priority, its pauses and its end, of real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.conftest import Command
from tfwave.colocate import Background
from tfwave.colocate.pacing import FIRST_STEPS, PAUSED_STEPS
from tfwave.errors import EnforcerError, PlanError
from tfwave.runtime import background as module
from tfwave.runtime.background import BackgroundProcess

SECONDS = 120.0
"""What gets only what others leave may take long for a little."""
FOR_EVER = ["sleep", "1000"]


def until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def state(pid: int) -> str:
    """As ps says it: T of one that is stopped; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def runs(pid: int, program: str) -> Callable[[], bool]:
    """It has become this program."""
    return lambda: Path(f"/proc/{pid}/comm").read_text().strip() == program


def script(tmp_path: Path, text: str = "import os; os.execvp('sleep', ['sleep', '1000'])") -> Path:
    file = tmp_path / "train.py"
    file.write_text(text)
    return file


@pytest.fixture(autouse=True)
def idle_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A foreground is idle after so many seconds: if nothing else is said, never."""

    def seconds(count: float) -> None:
        for name in ("background", "pacing"):
            monkeypatch.setattr(import_module(f"tfwave.colocate.{name}"), "IDLE_SECONDS", count)

    seconds(1e6)
    return seconds


@pytest.fixture
def sleeper() -> Iterator[BackgroundProcess]:
    process = BackgroundProcess(FOR_EVER)
    try:
        assert until(runs(process.pid, "sleep"))
        yield process
    finally:
        process.end()


def test_it_is_of_the_lowest_priority_and_this_process_is_not(sleeper: BackgroundProcess) -> None:
    assert os.sched_getscheduler(sleeper.pid) == os.SCHED_IDLE
    assert {os.sched_getscheduler(int(tid)) for tid in os.listdir("/proc/self/task")} == {os.SCHED_OTHER}
    assert os.getsid(sleeper.pid) == os.getpgid(sleeper.pid) == sleeper.pid
    assert Path(f"/proc/{sleeper.pid}/oom_score_adj").read_text().strip() == "1000"


@pytest.mark.skipif(
    not Path("/proc/sys/kernel/sched_autogroup_enabled").is_file(), reason="a kernel without autogroups"
)
def test_its_session_has_the_lowest_weight_and_that_of_this_process_has_not(
    sleeper: BackgroundProcess,
) -> None:
    enabled = Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
    weight = "nice 19" if enabled else "nice 0"
    assert Path(f"/proc/{sleeper.pid}/autogroup").read_text().strip().endswith(weight)
    assert not Path("/proc/self/autogroup").read_text().strip().endswith("nice 19")


def test_it_says_what_came_of_that(tmp_path: Path) -> None:
    program = script(tmp_path, "import sys; sys.exit(int(sys.argv[2]))")
    done = subprocess.run(
        [sys.executable, "-m", "tfwave", "background", program, "--code", "7"],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout) == (7, "")
    assert "SCHED_IDLE; " in done.stderr
    assert "autogroup" in done.stderr


def test_it_is_paused_with_what_it_started_and_goes_on() -> None:
    process = BackgroundProcess(["sh", "-c", "sleep 1000 & exec sleep 2000"])
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert until(lambda: len(children.read_text().split()) == 1)
        both = process.pid, int(children.read_text())
        process.pause()
        assert until(lambda: [state(pid) for pid in both] == ["T", "T"])
        process.resume()
        assert until(lambda: "T" not in [state(pid) for pid in both])
        assert process.paused_seconds > 0.0
    finally:
        process.end()
    assert until(lambda: state(both[1]) in ("", "Z"))
    assert process.exit_code == 128 + signal.SIGTERM


def test_how_long_it_was_paused_is_told_while_it_goes_on(
    sleeper: BackgroundProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread lets it go on in the middle of the question."""
    others = [threading.Thread(target=sleeper.resume)]

    def asked() -> float:
        for other in [others.pop()] if others else []:
            other.start()
            other.join(0.2)
        return time.monotonic()

    sleeper.pause()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=asked))
    assert sleeper.paused_seconds > 0
    assert until(lambda: sleeper._paused_at is None)


def test_one_that_is_paused_ends(sleeper: BackgroundProcess) -> None:
    sleeper.pause()
    sleeper.end()
    assert sleeper.exit_code is not None


def test_one_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    process = BackgroundProcess(["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"])
    status = Path(f"/proc/{process.pid}/status")

    def is_deaf() -> bool:
        ignored = next(line.split()[1] for line in status.read_text().splitlines() if line[:6] == "SigIgn")
        return bool(int(ignored, 16) >> (signal.SIGTERM - 1) & 1)

    assert until(is_deaf)
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.1)
    process.end()
    assert process.exit_code == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("program", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + signal.SIGKILL)]
)
def test_its_exit_code_is_told(program: str, code: int) -> None:
    process = BackgroundProcess(["sh", "-c", program])
    assert process.wait(SECONDS) == code
    process.pause()
    process.end()
    assert process.exit_code == code


def test_one_that_does_not_start_is_told_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.0)
    with pytest.raises(EnforcerError, match="did not start within 0 s: is the machine overloaded"):
        BackgroundProcess(FOR_EVER)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not [
        pid for pid in children if "tfwave.runtime.lowest" in Path(f"/proc/{pid}/cmdline").read_text()
    ]


def test_who_is_interrupted_while_it_starts_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.subprocess, "Popen", Noted)
    monkeypatch.setattr(module.select, "select", interrupted)
    with pytest.raises(KeyboardInterrupt):
        BackgroundProcess(FOR_EVER)
    codes = [process.poll() for process in started]
    for process in started:
        process.kill()
    assert codes == [-signal.SIGKILL]


def test_what_takes_longer_than_one_waits_says_so(sleeper: BackgroundProcess) -> None:
    with pytest.raises(TimeoutError, match="the background has not ended"):
        sleeper.wait(0.05)


@pytest.mark.parametrize("paused", [False, True])
def test_it_ends_with_a_parent_that_is_killed(paused: bool) -> None:
    program = (
        "import os; from tfwave.runtime.background import BackgroundProcess\n"
        f"process = BackgroundProcess({FOR_EVER})\n"
        f"{paused} and process.pause()\n"
        "print(process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9) if input() else None\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        assert parent.stdin
        pid = int(parent.stdout.readline())
        assert until((lambda: state(pid) == "T") if paused else runs(pid, "sleep"))
        parent.stdin.write("now\n")
        parent.stdin.flush()
        parent.wait(SECONDS)
    assert until(lambda: state(pid) in ("", "Z"))


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Programs inherit it where it is ignored, as a shell does in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_is_heard")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_ends_it_when_it_is_ended(tmp_path: Path, number: int, code: int) -> None:
    note = tmp_path / "pid"
    program = script(
        tmp_path,
        f"import os, pathlib; pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
        "os.execvp('sleep', ['sleep', '1000'])",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "tfwave", "background", program], stderr=subprocess.DEVNULL
    ) as command:
        assert until(lambda: note.is_file() and note.read_text() != "")
        pid = int(note.read_text())
        command.send_signal(number)
        assert command.wait(SECONDS) == code
    assert state(pid) == ""


def test_the_options_of_the_command_are_checked(tfwave: Command, tmp_path: Path) -> None:
    code, _, err = tfwave("background", tmp_path / "none.py")
    assert code == 2
    assert "give a Python file" in " ".join(err.split())
    assert tfwave("background", "--memory", "1KiB", __file__).code == 2
    assert tfwave("background").code == 2


def test_the_limit_of_the_foregrounds_pool_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": "64",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }
    assert module._environment({"TF_ENABLE_ONEDNN_OPTS": "0"}, None) == {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert module._environment(limits | {"A": "B"}, None) == {"A": "B"}
    assert module._environment(limits, 32 << 20) == limits | {"TF_CPU_BFC_MEM_LIMIT_IN_MB": "32"}


def test_it_is_paused_while_the_steps_without_it_are_timed(tmp_path: Path) -> None:
    with Background([script(tmp_path)]) as background:
        seen: list[bool] = []
        for _ in range(40):
            expected = "T" if len(seen) < FIRST_STEPS + PAUSED_STEPS else "RSD"
            with background.step():
                seen.append(until(lambda expected=expected: state(background.pid) in expected))
    assert all(seen)
    report = background.report()
    assert report.slowdown is not None
    assert 0 < report.paused_seconds < report.seconds
    assert (report.held, report.exit_code) == (0, 128 + signal.SIGTERM)


def test_it_goes_on_while_the_foreground_is_idle(tmp_path: Path, idle_after: Callable[[float], None]) -> None:
    """Before the first step, in a step that takes long, and behind it: in its first pause."""
    idle_after(0.05)
    with Background([script(tmp_path)]) as background:
        assert until(lambda: state(background.pid) in "RSD")
        with background.step():
            assert until(lambda: state(background.pid) == "T")
            time.sleep(0.2)
            assert state(background.pid) == "T"
        assert until(lambda: state(background.pid) in "RSD")
    assert background.report().slowdown is None


def test_one_that_slows_the_foreground_is_held(tmp_path: Path) -> None:
    """The foreground is slowed for certain: it looks whether the other is stopped."""
    with Background([script(tmp_path)], slowdown_at_most=1.5) as background:
        while background.report().held < 1:
            with background.step():
                time.sleep(0.001 if state(background.pid) == "T" else 0.1)
        assert until(lambda: state(background.pid) == "T")
        assert (background.report().slowdown or 0.0) > 1.5
    assert background.report().exit_code is not None


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise ValueError", 1), ("import os; os.kill(os.getpid(), 9)", 137), ("pass", 0)],
)
def test_the_foreground_goes_on_when_it_ends(tmp_path: Path, program: str, code: int) -> None:
    with Background([script(tmp_path, program)], slowdown_at_most=1.05) as background:
        assert background.wait(SECONDS) == code
        ended = background.report()
        for _ in range(50):
            with background.step():
                pass
        assert background.report() == ended
    with pytest.raises(EnforcerError, match="has run in a with block already"), background:
        pass
    assert background.report() == ended
    assert (ended.slowdown, ended.exit_code) == (None, code)


def test_one_that_is_killed_while_it_is_paused_is_seen(tmp_path: Path) -> None:
    with Background([script(tmp_path)]) as background:
        os.kill(background.pid, signal.SIGKILL)

        def is_seen() -> bool:
            with background.step():
                pass
            return background.report().exit_code == 128 + signal.SIGKILL

        assert until(is_seen)
        report = background.report()
        assert report.paused_seconds <= report.seconds


def test_a_step_that_fails_is_none(tmp_path: Path) -> None:
    with Background([script(tmp_path)]) as background:
        for _ in range(60):
            with pytest.raises(ValueError, match="its own"), background.step():
                raise ValueError("its own")
        assert background.report().slowdown is None
        assert until(lambda: state(background.pid) == "T")


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnforcerError, match="there is no program '': give a Python file"):
        Background([])
    with pytest.raises(PlanError, match="give more than 1"):
        Background([script(tmp_path)], slowdown_at_most=1.0)
    background = Background([script(tmp_path)])
    for use in (
        background.report,
        background.wait,
        lambda: background.pid,
        lambda: background.step().__enter__(),
    ):
        with pytest.raises(EnforcerError, match="enter its with block first"):
            use()
