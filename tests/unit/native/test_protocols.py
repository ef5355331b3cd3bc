"""The protocols by which threads and processes wait for each other, as models: spin tries all that may happen.

Each model of tests/unit/native/protocols holds claims, and faults that one can plant in it, of which each must be
found.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.native.compiled import compiled

MODELS = Path(__file__).parent / "protocols"
SPIN, GCC = shutil.which("spin"), shutil.which("gcc")
SIZES = {
    "counter": [("N=4",), ("N=5", "CALM=1")],
    "priority": [("N=4",)],
    "ledger": [("JOBS=3", "STEPS=2"), ("JOBS=4", "STEPS=1")],
    "lease": [("CALLS=5",)],
}
BUGS = {"counter": 4, "priority": 6, "ledger": 5, "lease": 3}
STATES = re.compile(r"^\s*(\d+) states, stored", re.MULTILINE)
needs_spin = pytest.mark.skipif(not (SPIN and GCC), reason="needs spin and gcc: apt install spin gcc")


def _search(directory: Path, model: str, settings: tuple[str, ...]) -> tuple[int, int]:
    """The errors that spin finds in a model, 0 or 1, and the states that it visits until then, or in all."""
    text = (MODELS / f"{model}.pml").read_text()
    given = "".join(f"#define {setting.replace('=', ' ')}\n" for setting in settings)
    (directory / "model.pml").write_text(given + text)
    made = subprocess.run(
        [str(SPIN), "-a", "model.pml"], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )
    assert made.returncode == 0, made.stdout
    verifier = compiled([str(GCC), "-O1", "-w", "-DSAFETY", "-DMEMLIM=1000"], directory, directory / "pan.c")
    assert verifier, "the verifier does not compile: the compiler's words are above"
    ran = subprocess.run(
        [verifier, "-m100000", "-n"], cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )
    states, errors = STATES.search(ran.stdout), re.search(r"errors: (\d+)", ran.stdout)
    assert states is not None, ran.stdout + ran.stderr
    assert errors is not None
    assert "truncated" not in ran.stdout
    return int(errors[1]), int(states[1])


@needs_spin
@pytest.mark.parametrize(
    ("model", "settings"), [(model, sizes) for model, all_sizes in SIZES.items() for sizes in all_sizes]
)
def test_a_protocol_keeps_its_claims(tmp_path: Path, model: str, settings: tuple[str, ...]) -> None:
    errors, states = _search(tmp_path, model, settings)
    assert errors == 0
    assert states > 1000  # it is no model that stands still


@needs_spin
@pytest.mark.parametrize(
    ("model", "bug"), [(model, bug) for model, bugs in BUGS.items() for bug in range(1, bugs + 1)]
)
def test_a_fault_in_a_protocol_is_found(tmp_path: Path, model: str, bug: int) -> None:
    errors, _ = _search(tmp_path, model, (*SIZES[model][0], f"BUG={bug}"))
    assert errors == 1


@pytest.mark.parametrize("model", BUGS)
def test_each_fault_is_planted(model: str) -> None:
    text = (MODELS / f"{model}.pml").read_text()
    assert {int(n) for n in re.findall(r"BUG [!=]= (\d)", text)} - {0} == set(range(1, BUGS[model] + 1))
