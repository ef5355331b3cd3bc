"""Bundles, plans and reports that are written where there is no room, or where nothing may be written.

Each is written again and again over an earlier one, by a process that has a file system of its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.ledger import Ledger, Outcome
from tests.fork_server import ROOT

UNSHARED = ("unshare", "--mount", "--propagation", "private")


def own_mounts() -> bool:
    return subprocess.run([*UNSHARED, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not own_mounts(), reason="who is not root cannot mount a small file system")
def test_files_are_whole_or_as_they_were(steps: int, seed: int, ledger: Ledger, tmp_path: Path) -> None:
    command = [*UNSHARED, sys.executable, "-m", "tests.faults.writer", str(tmp_path), str(seed), str(steps)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=380)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    assert len(found) == steps
    for fault, ended in found:
        ledger.seen[Outcome("files", fault, "tfwave", ended)] += 1
    ledger.steps["files"] += steps
