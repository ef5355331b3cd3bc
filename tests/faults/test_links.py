"""The network between a server and a worker: connections are reset, and a link stands still for a while."""

from threading import Timer

import pytest

from tests.faults.ledger import Ledger
from tests.faults.scene import Scene
from tests.faults.training import Training

pytestmark = pytest.mark.tensorflow
STANDS_SECONDS = 1.5


def test_links_that_break(steps: int, seed: int, ledger: Ledger) -> None:
    acts = {
        "connections are reset in mid-step": reset,
        "connections are reset between steps": reset_between,
        "a link stands still in mid-step": still,
    }
    Scene("links", acts, steps, seed, linked=True).play(ledger)


def reset(training: Training) -> str:
    end = training.amid(lambda: broken(training))
    training.recover()
    return end


def reset_between(training: Training) -> str:
    """The next step may still find a connection that is broken."""
    broken(training)
    training.recover()
    return training.ends(training.model.loss)


def broken(training: Training) -> None:
    assert sum(link.reset() for link in training.place.links.values())


def still(training: Training) -> str:
    """What lets the step go on does not get through before the link does."""

    def act() -> None:
        links = training.place.links.values()
        for link in links:
            link.stop()
        later = Timer(STANDS_SECONDS, lambda: [link.go() for link in links])
        later.start()
        training.unblock()

    return training.amid(act)
