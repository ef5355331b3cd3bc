"""The wall clock of a server jumps: what waits for so many seconds waits neither longer nor shorter."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from tests.cluster.model import VARIABLES
from tests.faults.clock import COMPILER, WrongClock
from tests.faults.ledger import Ledger
from tests.faults.scene import Scene
from tests.faults.training import LONG, Training

pytestmark = pytest.mark.tensorflow
HOUR = 3600
HELD_SECONDS = 0.3
"""For so long it is looked whether what is held stays so: time enough for a thread that was woken to let it go."""


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="no C compiler for the clock")
def test_a_clock_that_jumps(
    steps: int, seed: int, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = WrongClock(tmp_path_factory.mktemp("clock"))
    jumps = {"an hour forward": HOUR, "an hour back": -HOUR, "ten years forward": 87600 * HOUR}
    acts = {f"a server's clock goes {name}": jumping(clock, by) for name, by in jumps.items()}
    Scene("clock", acts, steps, seed, clock=clock).play(ledger)


def jumping(clock: WrongClock, seconds: int) -> Callable[[Training], str]:
    return lambda training: training.amid(partial(jump, clock, seconds, training))


def jump(clock: WrongClock, seconds: int, training: Training) -> None:
    """Within its deadline a step is held, and behind it let go, as before; then the clock is right again."""
    clock.set(seconds)
    if training.order:
        time.sleep(HELD_SECONDS)
        assert training.counts()[0] == VARIABLES
        training.order.configure(deadline_seconds=HELD_SECONDS)
        training.check_idle()
        training.order.configure(deadline_seconds=LONG)
    training.unblock()
    clock.set(0)
