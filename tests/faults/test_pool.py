"""Jobs that fail, hang or take too much memory beside one that must not notice."""

import pytest

from tests.faults.conftest import SHORT
from tests.faults.ledger import WENT_ON, Ledger, Outcome
from tests.numerics.processes import PROCESS_SECONDS, said_by

pytestmark = pytest.mark.tensorflow


@pytest.mark.long
def test_a_job_beside_bad_ones(steps: int, seed: int, ledger: Ledger) -> None:
    seconds = PROCESS_SECONDS * max(1, steps / SHORT)
    said = said_by("tests.faults.pool_jobs", str(seed), str(steps), seconds=seconds)
    assert said["equal"]
    assert (said["steps"], said["left"], said["let_through"]) == (steps, [], 0)
    for fault, error in said["faults"]:
        ended = f"it ends with {error}; the other goes on" if error else WENT_ON
        ledger.seen[Outcome("pool", fault, "tfwave", ended)] += 1
    ledger.steps["pool"] += steps
