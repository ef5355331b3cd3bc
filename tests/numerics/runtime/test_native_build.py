"""The native library against the real TensorFlow: its sources give no warning, and its failures fail no graph."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tfwave.runtime import native
from tfwave.runtime.compiler import find_compiler, toolchain

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]

HERE = Path(__file__).parent


def test_no_source_of_ours_gives_a_warning() -> None:
    """Not an error where users build: their compiler may know warnings that ours does not."""
    log = (native.ensure_built().path.parent / "build.log").read_text()
    compiled = [line for line in log.splitlines() if " -c " in line]
    assert len(compiled) == len(native._sources(".cc"))
    assert all(" -Wall -Wextra " in line and " -isystem" in line and " -w " not in line for line in compiled)
    assert "warning:" not in log


def test_one_library_serves_every_python() -> None:
    command = ["readelf", "--dynamic", "--dyn-syms", "--wide", str(native.ensure_built().path)]
    needed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Shared library: [libtensorflow_framework.so.2]" in needed
    assert "libpython" not in needed
    assert re.findall(r" UND _?Py\w+", needed) == []


def test_it_names_no_folder_of_the_machine_that_built_it() -> None:
    library = native.ensure_built().path.read_bytes()
    assert b"./process/barrier_op.cc" in library
    assert str(native._SOURCES).encode() not in library
    assert b"site-packages" not in library


@pytest.mark.long
def test_a_graph_that_cannot_be_marked_still_runs(tmp_path: Path) -> None:
    library = tmp_path / "broken_graphs.so"
    tools = toolchain(find_compiler(), native._SOURCES)
    command = [
        *tools.compile_command(),
        "-shared",
        "-o",
        library,
        HERE / "broken_graphs.cc",
        *tools.link_flags,
    ]
    assert subprocess.run(command, check=False).returncode == 0
    ran = subprocess.run(
        [sys.executable, "-m", "tests.numerics.runtime.broken_graphs", library],
        capture_output=True,
        text=True,
        cwd=HERE.parents[2],
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    result, planted = json.loads(ran.stdout.splitlines()[-1])
    assert result == 6
    assert planted > 0
    for what in ("name the outputs", "mark a part"):
        assert f"tfwave: cannot {what} of '__inference_<lambda>_" in ran.stderr
