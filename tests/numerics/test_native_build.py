"""The native library against the real TensorFlow: its sources give no warning, and its failures fail no graph."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tfwave.runtime import native

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]

HERE = Path(__file__).parent


def test_no_source_of_ours_gives_a_warning() -> None:
    """Not an error where users build: their compiler may know warnings that ours does not."""
    log = (native.ensure_built().parent / "build.log").read_text()
    compiled = [line for line in log.splitlines() if " -c " in line]
    assert len(compiled) == len(native._sources("*.cc"))
    assert all(" -Wall -Wextra " in line and " -isystem" in line and " -w " not in line for line in compiled)
    assert "warning:" not in log


def test_a_graph_that_cannot_be_marked_still_runs(tmp_path: Path) -> None:
    library = tmp_path / "broken_graphs.so"
    tools = native._toolchain(native.find_compiler())
    command = [
        *native._compile(tools),
        "-shared",
        "-o",
        library,
        HERE / "broken_graphs.cc",
        *tools.link_flags,
    ]
    assert subprocess.run(command, check=False).returncode == 0
    ran = subprocess.run(
        [sys.executable, "-m", "tests.numerics.broken_graphs", library],
        capture_output=True,
        text=True,
        cwd=HERE.parents[1],
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    result, planted = json.loads(ran.stdout.splitlines()[-1])
    assert result == 6
    assert planted > 0
    for what in ("name the outputs", "mark a part"):
        assert f"tfwave: cannot {what} of '__inference_<lambda>_" in ran.stderr
