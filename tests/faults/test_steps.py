"""Steps that fail, wherever they are then: an op, a check, a limit of time, the session's end."""

import pytest
import tensorflow as tf

from tests.faults.ledger import Ledger
from tests.faults.scene import Scene
from tests.faults.training import Training

v1 = tf.compat.v1
pytestmark = pytest.mark.tensorflow


def test_steps_that_do_not_end_well(steps: int, seed: int, ledger: Ledger) -> None:
    acts = {
        "an op of a step fails": failing,
        "a NaN check fails": not_a_number,
        "a step runs out of time": out_of_time,
        "a session is closed in mid-step": closed,
    }
    Scene("steps", acts, steps, seed).play(ledger)


def failing(training: Training) -> str:
    return training.ends(training.model.failing)


def not_a_number(training: Training) -> str:
    return training.ends(training.not_a_number)


def out_of_time(training: Training) -> str:
    return training.ends(training.model.blocked, options=v1.RunOptions(timeout_in_ms=500))


def closed(training: Training) -> str:
    session = training.other_session()
    return training.amid(session.close, session)
