"""A scene: one training under a schedule of faults, by the hook, the proxy and stock; all come to the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tests.faults.clock import WrongClock
from tests.faults.ledger import WENT_ON, Ledger, Outcome
from tests.faults.place import ENFORCERS, STOCK, place
from tests.faults.schedule import schedule
from tests.faults.training import Training

Act = Callable[[Training], str]
STEPS_A_FAULT = 12


@dataclass(frozen=True)
class Scene:
    """A fault strikes about once in a dozen steps, each as often as the others, and at least once.

    `acts` do what the faults are, and say how what they struck ended.
    """

    name: str
    acts: Mapping[str, Act]
    steps: int
    seed: int
    linked: bool = False
    clock: WrongClock | None = None

    def play(self, ledger: Ledger) -> None:
        played = {enforcer or STOCK: self._train(enforcer) for enforcer in ENFORCERS}
        stock = played[STOCK]
        assert sum(a != b for a, b in pairwise(stock.losses)) > self.steps / 2
        ledger.steps[self.name] += self.steps
        for enforcer, training in played.items():
            assert training.losses == stock.losses
            assert training.journal == stock.journal
            for fault, end in training.journal:
                ended = WENT_ON if end.startswith(WENT_ON) else end
                ledger.seen[Outcome(self.name, fault, enforcer, ended)] += 1

    def _train(self, enforcer: str | None) -> Training:
        times = max(1, self.steps // (STEPS_A_FAULT * len(self.acts)))
        drawn = schedule(self.seed, self.steps, list(self.acts), times)
        with place(enforcer, linked=self.linked, clock=self.clock) as where:
            training = Training(where, self.seed)
            training.run(self.steps, drawn, self.acts)
            training.close()
            return training
