"""What is forked tells its end, its output and its errors as what is started anew does."""

import os
import subprocess

import pytest

from tests.fork_server import Forked

pytestmark = pytest.mark.tensorflow


def of_json(*arguments: str, stderr: bool = True, **variables: str) -> Forked:
    return Forked("json.tool", arguments, os.environ | variables, stderr=stderr)


def test_output_and_the_end_are_told() -> None:
    process = of_json(PYTHONIOENCODING="utf-8")
    process.stdin.write('{"a": 1}')
    assert process.communicate(timeout=60) == ('{\n    "a": 1\n}\n', "")
    assert process.poll() == process.returncode == 0


def test_errors_are_told_or_go_nowhere() -> None:
    out, errors = (process := of_json("--none")).communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "--none" in errors
    assert of_json("--none", stderr=False).communicate(timeout=60) == ("", "")


def test_what_waits_can_be_waited_for_again_and_killed() -> None:
    process = of_json()
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    process.kill()
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == -9
    process.kill()


def test_the_environment_is_its_own() -> None:
    code = Forked(
        "timeit", ["-n1", "-r1", "import os; print(os.environ['ASKED'])"], {"ASKED": "for"}, stderr=True
    )
    assert "for" in code.communicate(timeout=60)[0].splitlines()
    assert "ASKED" not in os.environ


def test_nothing_of_tensorflow_or_grpc_runs_where_they_are_forked() -> None:
    """A fork has none of the threads that ran there; NumPy's, one for each processor, it does not need."""
    runs = "len(os.listdir(f'/proc/{os.getppid()}/task')), context._context"
    code = f"import os; from tensorflow.python.eager import context; print('runs', {runs})"
    process = Forked("timeit", ["-n1", "-r1", code], os.environ, stderr=True)
    _, threads, live = process.communicate(timeout=60)[0].splitlines()[0].split()
    assert int(threads) <= (os.cpu_count() or 1)
    assert live == "None"
