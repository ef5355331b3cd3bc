"""Processes that are killed, stand still or come late: the worker, the server, and another chief."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.model import VARIABLES
from tests.cluster.speaker import Speaker, spawn
from tests.faults.ledger import Ledger
from tests.faults.scene import Scene
from tests.faults.training import Training
from tests.waiting import wait_until

pytestmark = pytest.mark.tensorflow
DEADLINE_SECONDS = 0.5
STILL_SECONDS = 1.5


@pytest.mark.long
def test_processes_that_die_or_stand_still(steps: int, seed: int, ledger: Ledger) -> None:
    acts = {
        "a worker is killed": worker_killed,
        "a worker is killed, and another comes late": worker_late,
        "a server is killed": server_killed,
        "a worker stands still": lambda training: still(training, "worker"),
        "a server stands still": lambda training: still(training, "ps"),
        "a chief stands still, and is killed": chief_killed,
    }
    Scene("processes", acts, steps, seed).play(ledger)


def worker_killed(training: Training) -> str:
    """TensorFlow asks for the step until there is another worker, which does not know it."""

    def act() -> None:
        training.place.kill("worker")
        hasten(training)
        training.place.start("worker")

    end = training.amid(act)
    training.reconnect()
    return end


def worker_late(training: Training) -> str:
    """Another session's first step is asked for while no worker is there."""

    def act() -> None:
        training.place.kill("worker")
        hasten(training)
        with ThreadPoolExecutor(1) as pool, training.other_session() as session:
            step = pool.submit(session.run, training.model.loss)
            training.place.start("worker")
            step.result(100)

    end = training.amid(act)
    training.reconnect()
    return end


def hasten(training: Training) -> None:
    """What the server holds of a step whose worker is dead leaves by its deadline: nobody tells the server."""
    if training.order:
        training.order.configure(deadline_seconds=DEADLINE_SECONDS)


def server_killed(training: Training) -> str:
    """What it had is lost: the training begins anew."""
    end = training.amid(lambda: training.place.kill("ps"))
    training.place.start("ps")
    training.reconnect()
    training.restart()
    return end


def still(training: Training, job: str) -> str:
    """For longer than the deadline of what it holds, or is to get."""

    def act() -> None:
        hasten(training)
        training.place.stand_still(job, STILL_SECONDS)
        training.unblock()

    return training.amid(act)


def chief_killed(training: Training) -> str:
    """What it began ends with it, also while it is held; its variables are the training's."""
    chief = Speaker(spawn("tests.faults.chief", json.dumps(training.place.spec), str(training.seed)))
    assert chief.hear() == "begun"
    if training.order:
        wait_until(lambda: training.counts()[0] == VARIABLES)
    os.kill(chief.process.pid, signal.SIGSTOP)
    end = training.ends(training.model.loss)
    chief.kill()
    training.check_idle()
    training.restart()
    return end
