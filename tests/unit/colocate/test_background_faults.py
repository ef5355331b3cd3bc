"""What becomes of a background is nothing to the foreground: as many steps, and the same numbers, bit by bit."""

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.colocate.test_background import script, state, until
from tfwave.colocate import Background
from tfwave.colocate.pacing import FIRST_STEPS, PAUSED_STEPS
from tfwave.runtime import background as module

STEPS_BEHIND = 24
"""Of the foreground, once the background has gone wrong."""
STARTED = "import os, pathlib, signal; pathlib.Path({note!r}).touch()\n"
HANGS = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"
RUNS_OUT = (
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 27, 1 << 27))\nkept = bytearray(1 << 30)"
)
CRASHES = "os.kill(os.getpid(), signal.SIGSEGV)"


def training() -> Generator[str]:
    """The losses of a small one, without end."""
    draw = np.random.default_rng(5)
    inputs, wanted, weights = draw.normal(size=(64, 16)), draw.normal(size=64), np.zeros(16)
    while True:
        off = inputs @ weights - wanted
        weights -= 0.01 / len(off) * (inputs.T @ off)
        yield float(off @ off).hex()


def beside(background: Background, until_seen: Callable[[], bool]) -> list[str]:
    """The losses of the first steps, of those until it is seen, and of some behind."""
    trained, losses = training(), list[str]()

    def step() -> None:
        with background.step():
            losses.append(next(trained))

    def is_seen() -> bool:
        step()
        return until_seen()

    for _ in range(FIRST_STEPS + PAUSED_STEPS):
        step()
    if not until(is_seen):
        pytest.skip("others kept the cores busy all the time, and left nothing for the background")
    for _ in range(STEPS_BEHIND):
        step()
    return losses


def alone(steps: int) -> list[str]:
    trained = training()
    return [next(trained) for _ in range(steps)]


@pytest.mark.parametrize(
    ("fault", "code"), [(RUNS_OUT, 1), (CRASHES, 128 + signal.SIGSEGV), ("raise ValueError", 1)]
)
def test_a_background_that_fails_is_not_noticed(tmp_path: Path, fault: str, code: int) -> None:
    program = script(tmp_path, STARTED.format(note=str(tmp_path / "note")) + fault)
    with Background([program]) as background:
        found = beside(background, lambda: background.report().exit_code is not None)
    assert found == alone(len(found))
    assert background.report().exit_code == code
    assert (tmp_path / "note").exists()


def test_one_that_hangs_is_not_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.1)
    note = tmp_path / "note"
    program = script(tmp_path, STARTED.format(note=str(note)) + HANGS)
    with Background([program]) as background:
        found = beside(background, note.exists)
        assert background.report().exit_code is None
    assert found == alone(len(found))
    assert background.report().exit_code in (128 + signal.SIGKILL, 128 + signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_others_kill_or_stop_is_not_noticed(tmp_path: Path, number: int) -> None:
    note = tmp_path / "note"
    program = script(tmp_path, STARTED.format(note=str(note)) + "signal.pause()")
    with Background([program]) as background:
        beside(background, note.exists)
        os.kill(background.pid, number)
        wanted = "T" if number == signal.SIGSTOP else ("Z", "")
        found = beside(background, lambda: state(background.pid) in wanted)
    assert found == alone(len(found))
    assert background.report().exit_code is not None
