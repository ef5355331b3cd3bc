"""A background whose batch has no room in its pool, a real one, trains a smaller one; or says that none has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.numerics.colocate import background_batches
from tests.numerics.colocate.background_batches import WANTED
from tfwave.runtime.allocator import AllocatorSettings, cpu_variables

pytestmark = [pytest.mark.tensorflow, pytest.mark.long, pytest.mark.timeout(390)]
SECONDS = 380.0
AT_ONCE = (
    "import sys; from tfwave.runtime.restarted import Backoff, Patience, Restarted\n"
    "sys.exit(Restarted([sys.executable, *sys.argv[1:]], Backoff(0.05, 0.1), Patience()).run())"
)


def trained(out: Path, width: int, mebibytes: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, background_batches.__file__, out, str(width)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=os.environ | cpu_variables(AllocatorSettings(mebibytes << 20)) | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return done.returncode, done.stderr


def test_a_batch_without_room_is_halved_until_it_has_some(tmp_path: Path) -> None:
    code, said = trained(tmp_path / "out", 256, 16)
    *batches, losses = (tmp_path / "out").read_text().splitlines()
    assert code == 0, said[-2000:]
    assert len(batches) > 1
    assert batches == [str(WANTED >> times) for times in range(len(batches))]
    assert len(set(losses.split())) == background_batches.STEPS, "it trains"


def test_where_no_batch_has_room_it_is_given_up(tmp_path: Path) -> None:
    """Its weights alone have none; so it is, with as many as this, from the start."""
    text = "import background_batches, pathlib, sys\nbackground_batches.WANTED = 2\n"
    text += "background_batches.main(pathlib.Path(sys.argv[1]), 1024)"
    program = tmp_path / "train.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(Path(background_batches.__file__).parent)!r})\n{text}"
    )
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, program, tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=os.environ | cpu_variables(AllocatorSettings(8 << 20)) | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert (tmp_path / "out").read_text().split() == ["2", "1"]
    assert "even a batch of 1 has no room in its memory" in done.stderr
