"""The parts of the measurement on a GPU: which are left, how long each may take, and what is kept of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pages import ROOT
from tfwave.runtime.allocator import Device
from tools import measured
from tools.bench.memory.limited import Log
from tools.gpu.afternoon import Afternoon, main
from tools.gpu.capacity import of_jobs, of_waves, pieces
from tools.gpu.environment import Environment
from tools.gpu.part import Rows, Setting
from tools.gpu.parts import CUT, DONE, FAILED, PARTS, Result, left, rows_in, run_part
from tools.gpu.sizes import SIZES

NAMES = [part.name for part in PARTS]
MACHINE = {
    "key": "machine",
    "cpu": "A CPU",
    "cores": 2,
    "memory_bytes": 2**30,
    "kernel": "6",
    "python": "3",
    "tensorflow": "2",
    "load_at_start": [0.5, 0, 0],
    "gpus": [{"name": "A GPU"}],
}
SLEEPS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
child.wait()
"""


def results(folder: Path, device: str = "cpu") -> dict[str, Result]:
    return {part.name: Result(part, device, folder / part.name) for part in PARTS}


def test_the_whole_takes_twenty_five_minutes_at_most() -> None:
    assert sum(part.seconds for part in PARTS) <= 25 * 60
    assert len(set(NAMES)) == len(NAMES) == 7


def test_each_part_has_a_module() -> None:
    folder = Path(measured.__file__).parent / "gpu"
    assert all((folder / f"{name}.py").exists() for name in NAMES)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    found = results(tmp_path)
    for status, name in ((DONE, "see"), (CUT, "allocator"), (FAILED, "jobs")):
        found[name].begun()
        found[name].ended(status, 1.0)
    assert [part.name for part in left([], found)] == [
        "capacity",
        "waves",
        "fit",
        "streams",
        "allocator",
        "jobs",
    ]
    assert [part.name for part in left(["jobs", "see", "fit"], found)] == ["jobs", "fit"]


def test_a_part_that_was_stopped_in_its_midst_is_left(tmp_path: Path) -> None:
    found = results(tmp_path)
    found["see"].begun()
    assert [part.name for part in left([], found)] == [*NAMES[1:], "see"]


@pytest.mark.parametrize(("code", "status"), [(0, DONE), (3, FAILED)])
def test_a_part_says_by_its_code_how_it_ended(tmp_path: Path, code: int, status: str) -> None:
    told: list[int] = []
    command = [sys.executable, "-c", f"print('said'); raise SystemExit({code})"]
    assert run_part(command, os.environ, 60, tmp_path / "log", lambda: told.append(1)) == status
    assert (tmp_path / "log").read_text() == "said\n"
    assert told


def test_a_part_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """What it had written stays."""
    log = tmp_path / "log"
    begin = time.monotonic()
    assert run_part([sys.executable, "-c", SLEEPS], os.environ, 1.5, log, lambda: None) == CUT
    assert time.monotonic() - begin < 30
    child = int(log.read_text())
    while is_running(child):
        assert time.monotonic() - begin < 30
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """A zombie is not."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_last_row_of_a_key_counts_and_half_a_line_does_not(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"key": "a", "x": 1}\n{"key": "b"}\n{"key": "a", "x": 2}\n{"key": "c", "x"')
    assert rows_in(rows) == {"a": {"key": "a", "x": 2}, "b": {"key": "b"}}
    assert rows_in(tmp_path / "none") == {}


def test_a_row_is_made_once_and_one_that_failed_again(tmp_path: Path) -> None:
    made: list[str] = []

    def make(name: str, error: Exception | None = None) -> dict[str, Any]:
        made.append(name)
        if error:
            raise error
        return {"value": name}

    first = Rows(Log(tmp_path / "rows"), "A GPU")
    first.once("good", lambda: make("good"))
    first.once("bad", lambda: make("bad", ZeroDivisionError("of nothing")))
    first.once("good", lambda: make("never"))
    assert first.failed == 1
    known = rows_in(tmp_path / "rows")
    assert known["bad"]["error"] == "ZeroDivisionError: of nothing"
    assert (known["good"]["value"], known["good"]["on"]) == ("good", "A GPU")
    second = Rows(Log(tmp_path / "rows"), "A GPU")
    second.once("good", lambda: make("never"))
    second.once("bad", lambda: make("better"))
    assert made == ["good", "bad", "better"]
    assert second.failed == 0
    assert rows_in(tmp_path / "rows")["bad"]["value"] == "better"


def test_what_one_part_tried_is_there_for_another(tmp_path: Path) -> None:
    of = [Setting(Device.CPU, SIZES[Device.CPU], tmp_path / part, ()) for part in ("capacity", "waves")]
    first, second = (setting.kept("waves resnet") for setting in of)
    assert first == second
    assert first.parent.parent == tmp_path
    assert of[0].kept("jobs resnet+resnet") != first


def test_all_that_fills_a_memory_is_tried() -> None:
    """On the CPU and on a GPU: each model in waves, and each set of jobs, once."""
    for sizes in SIZES.values():
        found = [(piece.func, *piece.args) for piece in pieces(sizes)]
        assert found == [
            *((of_jobs, each) for each in sizes.jobs),
            *((of_waves, each) for each in sizes.waves),
        ]


def test_a_result_says_where_it_was_made(tmp_path: Path) -> None:
    for device in ("cpu", "gpu"):
        result = Result(PARTS[NAMES.index("waves")], device, tmp_path / device)
        assert result.name == f"{device}-waves.json"
        result.begun()
        assert result.told({}) is None
        Log(result.folder / "rows.jsonl").add(MACHINE)
        Log(result.folder / "rows.jsonl").add({"key": "a"})
        result.ended(CUT, 2.0)
        result.ended(DONE, 3.0)
        (run,) = (result.told({"libraries": {}}) or {})["runs"]
        assert run["seconds"] == 5.0
        assert run["result"] == {"device": device, "status": DONE, "libraries": {}, "rows": [{"key": "a"}]}
        assert run["machine"] == {key: value for key, value in MACHINE.items() if key != "key"}


def test_a_result_is_shown_beside_its_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Result(PARTS[NAMES.index("waves")], "gpu", tmp_path / "part")
    result.begun()
    Log(result.folder / "rows.jsonl").add(MACHINE)
    (tmp_path / result.name).write_text(json.dumps(result.told({})))
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    assert "On A CPU, 2 cores, 1.0 GiB, A GPU; TensorFlow 2" in measured.page()
    assert "    tools/gpu/run.sh --device gpu waves\n" in measured.page()


def program(folder: Path, rows: list[dict[str, Any]]) -> str:
    """In place of a Python: adds rows to those of the part that it is started for."""
    path = folder / "program"
    added = "\n".join(json.dumps(row) for row in rows)
    path.write_text(f"#!/bin/sh\ncat >> \"$4/rows.jsonl\" << 'END'\n{added}\nEND\n")
    path.chmod(0o755)
    return str(path)


def afternoon(tmp_path: Path, device: str, rows: list[dict[str, Any]]) -> Afternoon:
    environment = Environment(program(tmp_path, rows), {}, "", {}, {})
    out = tmp_path / "out"
    out.mkdir()
    return Afternoon(environment, device, out, results(tmp_path / "parts", device))


def test_all_parts_run_and_their_results_are_kept(tmp_path: Path) -> None:
    run = afternoon(tmp_path, "gpu", [MACHINE, {"key": "devices", "gpus": ["GPU:0"]}])
    assert run.run(["waves", "see"], 600)
    assert sorted(path.name for path in run.out.iterdir()) == ["gpu-see.json", "gpu-waves.json"]
    assert run.run([], 600)
    assert len(list(run.out.iterdir())) == len(PARTS)
    before = {path: path.stat().st_mtime_ns for path in run.out.iterdir()}
    assert run.run([], 600)
    assert {path: path.stat().st_mtime_ns for path in run.out.iterdir()} == before


def test_nothing_is_measured_on_a_gpu_that_is_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = afternoon(tmp_path, "gpu", [MACHINE, {"key": "devices", "error": "TensorFlow sees no GPU"}])
    assert not run.run([], 600)
    assert [path.name for path in run.out.iterdir()] == ["gpu-see.json"]
    assert "sees no GPU" in capsys.readouterr().err


def test_no_part_is_begun_that_has_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = afternoon(tmp_path, "cpu", [MACHINE])
    assert not run.run(["jobs", "fit"], 5)
    assert list(run.out.iterdir()) == []
    assert "no time for jobs, fit" in capsys.readouterr().err


def test_what_is_measured_on_the_cpu_is_not_among_the_results(tmp_path: Path) -> None:
    python = program(tmp_path, [MACHINE])
    assert main(["--device", "cpu", "--python", python, "--work", str(tmp_path / "work"), "waves"]) == 0
    assert [path.name for path in (tmp_path / "work" / "cpu").glob("*.json")] == ["cpu-waves.json"]


def test_an_unknown_part_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--work", str(tmp_path), "wave"])
    assert "there is no part 'wave'" in capsys.readouterr().err


def test_a_call_that_is_told_to_end_ends_its_part(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    python = tmp_path / "program"
    python.write_text(f"#!/bin/sh\necho $$ > {pid}.part\nmv {pid}.part {pid}\nexec sleep 60\n")
    python.chmod(0o755)
    command = [
        "bash",
        str(ROOT / "tools/gpu/run.sh"),
        "--device",
        "cpu",
        "--python",
        str(python),
        "--work",
        str(tmp_path),
    ]
    with subprocess.Popen([*command, "see"], env=os.environ | {"PYTHON": sys.executable}) as called:
        begin = time.monotonic()
        while not pid.exists():
            assert time.monotonic() - begin < 30
            time.sleep(0.05)
        called.terminate()
        assert called.wait(30) == 128 + signal.SIGTERM
    assert not is_running(int(pid.read_text()))
