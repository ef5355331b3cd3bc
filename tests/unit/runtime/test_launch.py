"""Launching a job on this machine, as far as no server has to start."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.conftest import Command
from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime import launch as module
from tfwave.runtime.control.tf_config import control_addresses, read_tf_config, this_task
from tfwave.runtime.launch import LocalJob, local_servers, run_chief, run_workers

JOB = LocalJob(
    cluster={"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"], "worker": ["127.0.0.1:3", "127.0.0.1:4"]},
    control={"ps": ["127.0.0.1:12"], "worker": ["127.0.0.1:13", "127.0.0.1:14"]},
)


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_each_task_finds_itself_and_all_control_services() -> None:
    config = read_tf_config({"TF_CONFIG": JOB.tf_config("worker", 1)})
    assert str(this_task(config)) == "worker:1"
    assert config.cluster["worker"] == {0: "127.0.0.1:3", 1: "127.0.0.1:4"}
    assert control_addresses(config) == {
        "/job:ps/replica:0/task:0": "127.0.0.1:12",
        "/job:worker/replica:0/task:0": "127.0.0.1:13",
        "/job:worker/replica:0/task:1": "127.0.0.1:14",
    }


def test_a_task_keeps_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFWAVE_TOKEN", "a-token-of-16-or-more")
    monkeypatch.setenv("TF_CONFIG", "{}")
    environment = JOB.environment("ps", 0)
    assert environment["TFWAVE_TOKEN"] == "a-token-of-16-or-more"
    assert environment["TF_CONFIG"] == JOB.tf_config("ps", 0)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
        ("import os; raise SystemExit(os.environ['TF_CONFIG'].count('chief') != 2)", 0),
    ],
)
def test_the_exit_code_of_the_chief_is_the_jobs(program: str, code: int) -> None:
    assert run_chief(JOB, python(program)) == code


@pytest.mark.parametrize(("ps", "workers"), [(0, 1), (1, 0), (-1, 2)])
def test_a_job_needs_both_kinds(ps: int, workers: int) -> None:
    with pytest.raises(EnforcerError, match="at least one of each"), local_servers(ps, workers):
        pytest.fail("it runs")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the native library was asked for, of which there is none here."""
    asked: list[float] = []

    def ask() -> None:
        asked.append(time.monotonic())
        raise EnvironmentUnsupported("there is no compiler")

    monkeypatch.setattr(module, "ensure_built", ask)
    return asked


def test_the_native_library_is_built_before_servers_have_to_start(
    monkeypatch: pytest.MonkeyPatch, built: list[float]
) -> None:
    """It may take longer, and would be begun again and again."""
    started: list[float] = []
    popen = subprocess.Popen

    def noted(*args: Any, **kwargs: Any) -> Any:
        started.append(time.monotonic())
        return popen(*args, **kwargs)

    monkeypatch.setattr(module.subprocess, "Popen", noted)
    monkeypatch.setattr(module, "START_SECONDS", 0.0)
    with pytest.raises(EnforcerError, match="did not start"), local_servers(1, 1):
        pytest.fail("it runs")
    assert built[0] <= started[0]
    assert len(built) == 1


@pytest.mark.usefixtures("built")
def test_a_server_that_does_not_start_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFWAVE_TOKEN", "short")
    with pytest.raises(EnforcerError, match="a server ended with exit code 2"), local_servers(1, 1):
        pytest.fail("it runs")


@pytest.mark.usefixtures("built")
def test_servers_that_take_too_long_end_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.0)
    begin = time.monotonic()
    with pytest.raises(EnforcerError, match="did not start within 0 s"), local_servers(1, 1):
        pytest.fail("it runs")
    assert time.monotonic() - begin < module.GRACE_SECONDS


_TALKER = """#!{python}
import os, sys
try:
    sys.stdout.write("it is ready\\n" + "said in a step\\n" * 10_000)
    sys.stdout.flush()
finally:
    with open(f"{folder}/{{os.getpid()}}.done", "w") as done:
        done.write(str(os.getsid(0) == os.getpid()))
"""


@pytest.mark.usefixtures("built")
def test_servers_that_say_more_than_a_pipe_holds_go_on_and_are_heard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talker = tmp_path / "talker"
    talker.write_text(_TALKER.format(python=sys.executable, folder=tmp_path))
    talker.chmod(0o755)
    monkeypatch.setattr(module.sys, "executable", str(talker))
    with local_servers(1, 1):
        end = time.monotonic() + 60
        while len(list(tmp_path.glob("*.done"))) < 2:
            assert time.monotonic() < end, "a server waits to be heard"
            time.sleep(0.01)
    assert capsys.readouterr().out == "said in a step\n" * 20_000
    assert [done.read_text() for done in tmp_path.glob("*.done")] == ["True"] * 2, "Ctrl-C ends them first"


def launched(tmp_path: Path, background: str, job: str, *more: str) -> subprocess.CompletedProcess[str]:
    """A job of one worker that reduces, which needs no server, beside a background."""
    for name, text in (("other.py", background), ("train.py", job)):
        (tmp_path / name).write_text(text)
    options = ["--reduce", "--workers", "1", "--background", "other.py", *more, "train.py"]
    return subprocess.run(
        [sys.executable, "-m", "tfwave", "launch", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )


@pytest.mark.parametrize("code", [0, 7])
def test_a_background_ends_with_the_job_whose_exit_code_counts(tmp_path: Path, code: int) -> None:
    """The job ends when it has seen the background's process; that would go on for ever."""
    background = (
        "import os, pathlib\n"
        "pathlib.Path('part').write_text(f'{os.getpid()} {os.sched_getscheduler(0)}')\n"
        "os.rename('part', 'pid')\n"
        "os.execvp('sleep', ['sleep', '1000'])"
    )
    job = (
        "import os, time\n"
        "end = time.monotonic() + 120\n"
        "while not os.path.exists('pid') and time.monotonic() < end: time.sleep(0.01)\n"
        f"raise SystemExit({code})"
    )
    done = launched(tmp_path, background, job)
    assert done.returncode == code, done.stderr
    assert "SCHED_IDLE" in done.stderr
    if not (tmp_path / "pid").is_file():
        pytest.skip("others kept the cores busy all the time, and left nothing for the background")
    pid, policy = map(int, (tmp_path / "pid").read_text().split())
    assert policy == os.SCHED_IDLE
    assert not Path(f"/proc/{pid}").exists()


def test_a_background_is_told_its_memory_and_what_it_may_ask(tmp_path: Path) -> None:
    background = (
        "import os, pathlib, time\nfrom tfwave.colocate import background_batch\n"
        "limit = os.environ['TF_CPU_BFC_MEM_LIMIT_IN_MB']\n"
        "heard = os.path.exists(os.environ.get('TFWAVE_BACKGROUND', ''))\n"
        "pathlib.Path('part').write_text(f'{limit} {heard} {background_batch(6)}')\n"
        "os.rename('part', 'told')\ntime.sleep(1000)"
    )
    job = (
        "import os, time\nend = time.monotonic() + 120\n"
        "while not os.path.exists('told') and time.monotonic() < end: time.sleep(0.01)"
    )
    done = launched(tmp_path, background, job, "--background-memory", "32MiB")
    assert done.returncode == 0, done.stderr
    if not (tmp_path / "told").is_file():
        pytest.skip("others kept the cores busy all the time, and left nothing for the background")
    assert (tmp_path / "told").read_text() == "32 True 6"


def test_a_background_that_fails_leaves_the_exit_code_alone(tmp_path: Path) -> None:
    done = launched(tmp_path, "raise SystemExit(7)", "pass")
    assert done.returncode == 0, done.stderr


def test_a_background_that_is_not_there_is_named(tfwave: Command, tmp_path: Path) -> None:
    code, _, err = tfwave("launch", "--background", tmp_path / "other.py", __file__)
    assert code == 2
    assert "other.py'" in err


def test_a_program_that_is_not_there_is_named(tfwave: Command, tmp_path: Path) -> None:
    code, out, err = tfwave("launch", tmp_path / "train.py")
    assert (code, out) == (2, "")
    assert "train.py'" in err
    assert "give a Python file" in " ".join(err.split())


def test_the_options_are_checked(tfwave: Command) -> None:
    assert tfwave("launch", "--ps", 0, __file__).code == 2
    assert tfwave("launch").code == 2
    for options in (["--reduce", "--ps", 2], ["--background-memory", "1MiB"]):
        code, _, err = tfwave("launch", *options, __file__)
        assert (code, "another training" in err or "has no servers" in err) == (2, True)


REPORTING = """
import pathlib, sys
from tfwave.reduce.place import Place
place = Place.of_tf_config()
pathlib.Path(sys.argv[1], str(place.rank)).write_text(f"{place.options().coordinator} {len(place.workers)}")
assert not place.is_coordinator
raise SystemExit(place.rank * 3)
"""


def test_workers_find_their_coordinator_and_the_first_that_fails_gives_the_exit_code(tmp_path: Path) -> None:
    assert run_workers(3, [*python(REPORTING), str(tmp_path)], "127.0.0.1:4321") == 3
    assert [(tmp_path / str(rank)).read_text() for rank in range(3)] == ["127.0.0.1:4321 3"] * 3
    assert run_workers(1, python("import os; os.kill(os.getpid(), 9)"), "127.0.0.1:1") == 128 + 9


_SAVING = """
import pathlib, sys, time
from tfwave.reduce.place import Place
place = pathlib.Path(sys.argv[1], str(Place.of_tf_config().rank))
try:
    place.with_suffix(".begun").touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.6)
    place.with_suffix(".saved").touch()
"""
_LAUNCHING = """
import sys
from tfwave.runtime.launch import run_workers
run_workers(2, [sys.executable, "-c", sys.argv[1], sys.argv[2]], "127.0.0.1:4321")
"""


def test_programs_that_are_interrupted_may_still_save(tmp_path: Path) -> None:
    """As by Ctrl-C, of which all in a terminal are told."""
    job = subprocess.Popen(
        [*python(_LAUNCHING), _SAVING, tmp_path], start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 120
        while len(list(tmp_path.glob("*.begun"))) < 2:
            assert time.monotonic() < end, "the job does not begin"
            time.sleep(0.01)
        os.killpg(job.pid, signal.SIGINT)
        assert job.wait(120) == -signal.SIGINT
    finally:
        job.kill()
        job.wait()
    assert sorted(path.name for path in tmp_path.glob("*.saved")) == ["0.saved", "1.saved"]
