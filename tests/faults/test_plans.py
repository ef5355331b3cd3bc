"""Plans that go, change or come damaged while a step is under way that they hold."""

import contextlib
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.model import VARIABLES
from tests.faults.ledger import Ledger
from tests.faults.scene import Scene
from tests.faults.training import LONG, Training
from tests.plans import refusal_of
from tfwave.errors import PlanError
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.message import to_proto
from tfwave.runtime.control.client import ControlClient

pytestmark = pytest.mark.tensorflow
FLIPPED = 3
STORM = 3
"""Steps that each run out of their deadline, one after the other."""


def test_plans_in_mid_step(steps: int, seed: int, ledger: Ledger, tmp_path: Path) -> None:
    acts = {
        "a plan is removed": held(remove),
        "a plan is replaced": held(replace),
        "a plan that comes is damaged": held(damaged),
        "a plan's file is damaged": held(partial(damaged_file, random.Random(seed), tmp_path / "plan")),
        "the hook is switched off and on": held(off_and_on),
        "deadlines run out": storm,
    }
    Scene("plans", acts, steps, seed).play(ledger)


Change = Callable[[ControlClient, Training], None]


def held(change: Change) -> Callable[[Training], str]:
    """Make it while a step is held, and then let that go on."""

    def act(training: Training) -> None:
        if training.order:
            change(training.order, training)
        training.unblock()

    return lambda training: training.amid(partial(act, training))


def remove(order: ControlClient, training: Training) -> None:
    assert not order.remove().installed
    training.check_idle()


def replace(order: ControlClient, training: Training) -> None:
    order.install(training.other_plan())
    training.check_idle()


def damaged(order: ControlClient, training: Training) -> None:
    """It is refused, and the one in force stays."""
    message = to_proto(training.plan)
    message.orders[0].transfers[1].rank = 0
    assert "has rank 0 where 1 belongs" in refusal_of(order.address, message)
    assert training.counts()[0] == VARIABLES


def damaged_file(chance: random.Random, path: Path, order: ControlClient, training: Training) -> None:
    """What is refused when it is read is not installed; what is not, names what never comes."""
    save_plan(training.plan, path)
    data = bytearray(path.read_bytes())
    for _ in range(FLIPPED):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
    with contextlib.suppress(PlanError):
        order.install(load_plan(path), deadline_seconds=LONG)
    path.unlink()


def off_and_on(order: ControlClient, training: Training) -> None:
    order.configure(enabled=False)
    training.check_idle()
    order.configure(enabled=True)


def storm(training: Training) -> str:
    """Each step is held for a transfer that comes too late, and let go by the deadline."""
    return [held(run_out)(training) for _ in range(STORM)][-1]


def run_out(order: ControlClient, training: Training) -> None:
    before = order.configure(deadline_seconds=0.05).counters
    training.check_idle()
    after = order.configure(deadline_seconds=LONG).counters
    assert (after.deadlines - before.deadlines, after.released - before.released) == (1, VARIABLES)
