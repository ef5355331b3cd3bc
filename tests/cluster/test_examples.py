"""Each example runs as a user would run it, and is short."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.full import each

DIRECTORY = Path(__file__).parent.parent.parent / "examples"
EXAMPLES = sorted(DIRECTORY.glob("*.py"))
LAUNCH = ["-m", "tfwave", "launch"]
MOST_LINES = 60
LONG = {
    DIRECTORY / f"{name}.py"
    for name in (
        "colocate_pool",
        "colocate_search",
        "fit_memory",
        "fit_memory_keras",
        "keras_callback",
        "overlapping_steps",
        "parameter_server_custom_loop",
        "parameter_server_keras",
        "partial_reduce_keras",
        "staged_embeddings",
        "waterwave_offline",
        "waves_auto",
        "waves_devices",
        "waves_devices_keras",
        "waves_replicas_keras",
    )
}
_FITTED = ("plain: out of memory", "fitted: losses ", " 0 stay there")
SAID = {
    "waterwave_offline": ("both.pb: out of memory", "calm.pb: losses "),
    "fit_memory": _FITTED,
    "fit_memory_keras": _FITTED,
}


def command(example: Path) -> list[str]:
    text = example.read_text()
    if "tfwave launch" not in text:
        return [sys.executable, str(example)]
    kind = ["--reduce"] if "launch --reduce" in text else ["--ps", "2", "--workers", "1"]
    return [sys.executable, *LAUNCH, *kind, str(example)]


@pytest.mark.parametrize("example", each(EXAMPLES, LONG), ids=lambda path: path.stem)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(example), capture_output=True, text=True, cwd=tmp_path, check=False, timeout=380
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()
    for line in SAID.get(example.stem, ()):
        assert line in done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= MOST_LINES


def test_a_launched_example_says_how_to_run_it() -> None:
    example = next(path for path in EXAMPLES if "tfwave launch" in path.read_text())
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=380
    )
    assert done.returncode == 1
    assert f"tfwave launch {example}" in done.stderr
