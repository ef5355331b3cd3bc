"""A program that is started again when it fails: real processes, which are told when by short times."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.colocate.test_background import SECONDS, script, state, until
from tfwave.colocate import Background, background_batch, background_step
from tfwave.colocate.pacing import FIRST_STEPS, PAUSED_STEPS
from tfwave.runtime.background import BackgroundProcess, python_command
from tfwave.runtime.beside import VARIABLE, Field, Told, ran_out_of_memory
from tfwave.runtime.restarted import waited_seconds

AT_ONCE = (
    "import sys; from tfwave.runtime.restarted import Backoff, Patience, Restarted\n"
    "sys.exit(Restarted([sys.executable, sys.argv[1]], Backoff(0.05, 0.1), Patience(float(sys.argv[2]))).run())"
)
"""As `python -m tfwave.runtime.restarted`, but for how long it waits."""
ASKING = (
    "import pathlib\nfrom tfwave.colocate import background_batch, background_step\n"
    "told = pathlib.Path('told')\nbatch = background_batch(24)\n"
    "told.write_text((told.read_text() if told.exists() else '') + f'{batch} ')\n"
)


def ran(tmp_path: Path, text: str, patience: float = 300.0) -> tuple[int, list[str], str]:
    """Its exit code, what was written into `told`, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, script(tmp_path, text), str(patience)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        cwd=tmp_path,
    )
    told = tmp_path / "told"
    return done.returncode, told.read_text().split() if told.exists() else [], done.stderr


def test_one_that_fails_is_started_until_it_ends_well(tmp_path: Path) -> None:
    text = ASKING + "raise SystemExit(7 if len(told.read_text().split()) < 3 else 0)"
    code, told, said = ran(tmp_path, text)
    assert (code, told) == (0, ["24"] * 3)
    assert said.count("it failed (exit code 7), and is started again in 0 s") == 2


@pytest.mark.parametrize(
    "error",
    [
        "MemoryError()",
        "type('ResourceExhaustedError', (Exception,), {})('OOM')",
        "ValueError() from MemoryError()",
    ],
)
def test_one_whose_memory_ran_out_is_told_half_its_batch(tmp_path: Path, error: str) -> None:
    code, told, said = ran(tmp_path, ASKING + f"if batch > 5: raise {error}")
    assert (code, told) == (0, ["24", "12", "6", "3"])
    assert "a batch of 6 had no room in its memory: it is told 3" in said


def test_one_that_fails_of_something_else_afterwards_is_told_the_same_batch(tmp_path: Path) -> None:
    text = (
        ASKING
        + "runs = len(told.read_text().split())\nif runs == 1: raise MemoryError\nraise SystemExit(runs == 2)"
    )
    code, told, _ = ran(tmp_path, text)
    assert (code, told) == (0, ["24", "12", "12"])


def test_one_that_fits_at_no_batch_is_given_up(tmp_path: Path) -> None:
    code, told, said = ran(tmp_path, ASKING + "raise MemoryError")
    assert (code, told) == (1, ["24", "12", "6", "3", "1"])
    assert "even a batch of 1 has no room in its memory" in said


def test_one_that_asks_for_no_batch_is_told_how_to(tmp_path: Path) -> None:
    """It says by itself that its memory ran out; nobody can make its batch smaller."""
    text = (
        "import os, pathlib, struct\nfile = open(os.environ['TFWAVE_BACKGROUND'], 'r+b', buffering=0)\n"
        "os.pwrite(file.fileno(), struct.pack('<q', 1), 24)\n"
        "note = pathlib.Path('told')\nagain = note.exists()\nnote.touch()\nraise SystemExit(0 if again else 3)"
    )
    code, _, said = ran(tmp_path, text)
    assert code == 0
    assert "let it ask for one (tfwave.colocate.background_batch)" in said


def test_one_that_hangs_is_ended_and_started_again(tmp_path: Path) -> None:
    text = ASKING + "background_step()\nwhile len(told.read_text().split()) < 2: pass"
    code, told, said = ran(tmp_path, text, patience=0.5)
    assert (code, told) == (0, ["24"] * 2)
    assert "it makes no step any more, and is ended" in said
    assert f"it failed (exit code {128 + signal.SIGTERM})" in said


def test_each_start_is_low_from_its_first_instruction(tmp_path: Path) -> None:
    """A shell looks before anything else is loaded; field 41 of its stat is its policy."""
    look = "read -r -a stat < /proc/$$/stat; echo ${stat[40]} >> told; [ $(wc -l < told) -ge 2 ]"
    run = AT_ONCE.replace("[sys.executable, sys.argv[1]]", f"['bash', '-c', {look!r}]")
    process = BackgroundProcess(
        ["sh", "-c", 'cd "$1" && exec "$2" -c "$3" - 300', "-", str(tmp_path), sys.executable, run]
    )
    try:
        assert process.wait(SECONDS) == 0
    finally:
        process.end()
    assert (tmp_path / "told").read_text().split() == [str(os.SCHED_IDLE)] * 2


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("deaf", [False, True])
def test_it_ends_with_the_process_that_starts_it(tmp_path: Path, deaf: bool) -> None:
    ignoring = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if deaf else ""
    note = tmp_path / "note"
    text = f"import signal, time; {ignoring}open({str(note)!r}, 'w').close(); time.sleep(1000)"
    process = BackgroundProcess(python_command([script(tmp_path, text)]), restarts=True)
    try:
        assert until(note.exists)
        (program,) = children(process.pid)
        os.kill(process.pid, signal.SIGKILL if deaf else signal.SIGTERM)
        assert until(lambda: state(program) in ("", "Z"))
        assert process.wait(SECONDS) == 128 + (signal.SIGKILL if deaf else signal.SIGTERM)
    finally:
        process.end()


def test_a_foreground_has_one_that_fails_started_no_oftener_than_it_should(tmp_path: Path) -> None:
    """It failed at once, and waits: nothing of it runs meanwhile but what waits."""
    note = tmp_path / "note"
    program = script(tmp_path, f"open({str(note)!r}, 'a').write('x'); raise SystemExit(3)")
    with Background([program], restarts=True) as background:

        def step() -> bool:
            with background.step():
                return note.exists() and not children(background.pid)

        for _ in range(FIRST_STEPS + PAUSED_STEPS):
            step()
        assert until(step)
        assert background.report().exit_code is None
        assert note.read_text() == "x"
    assert background.report().exit_code == 3


def test_nothing_is_told_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert background_batch(7) == 7
    monkeypatch.setenv(VARIABLE, "/proc/self/fd/none")
    assert background_batch(7) == 7
    background_step()


def test_what_is_told_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setenv(VARIABLE, told.path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    assert (background_batch(7), told.get(Field.BATCH)) == (7, 7)
    told.set(Field.MOST, 5)
    assert (background_batch(7), background_batch(4), told.get(Field.BATCH)) == (5, 4, 4)
    for _ in range(3):
        background_step()
    assert (told.get(Field.STEPS), told.get(Field.FULL)) == (3, 0)


def test_only_errors_of_memory_are_such() -> None:
    assert ran_out_of_memory(MemoryError())
    assert not ran_out_of_memory(ValueError("MemoryError"))
    assert not ran_out_of_memory(None)


def test_waiting_for_a_core_is_counted_of_threads_that_are_there() -> None:
    assert waited_seconds(os.getpid()) >= 0.0
    assert waited_seconds(1 << 30) == 0.0
