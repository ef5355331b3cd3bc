"""How long a tick and a tock wave take on one device, simulated."""

from dataclasses import dataclass
from enum import StrEnum

from tfwave.cost.model import vetted
from tfwave.errors import PlanError
from tfwave.sim.engine import Lane
from tfwave.waves.tasks import TaskList

WARMUP, MEASURED, COOLDOWN = 8, 24, 2
"""Pairs of steps: before the waves follow each other evenly, those that count, and those that still slow them."""

_LINK = 2


class Pace(StrEnum):
    """What the waves wait for, besides their own last step. The mark is where the other wave may start."""

    ROUNDS = "rounds"
    """Tock starts at tick's mark, and tick starts anew when tock is done: each run of a graph with both is one."""
    STEADY = "steady"
    """Each wave starts at the other's mark: steps of both follow each other without an end of a round."""
    ALTERNATING = "alternating"
    """As `STEADY`, and each wave waits at its mark until the other is done with its step (Wavelet, B.1.1)."""


@dataclass(frozen=True)
class WaveStep:
    """One wave's step, alone on its device.

    Attributes:
        lead_seconds: from its start to the mark; the paper's is the end of the forward pass.
        rest_seconds: from the mark to its last gradient.
        sync_seconds: of the exchange of gradients that follows, on a link that both waves share.
        compute_share: the share of the device's compute units that it keeps busy on average. Waves that ask for
            more than all of them together slow each other.

    Raises:
        CostError: seconds are negative, infinite or not a number.
        PlanError: the share is not above 0 and at most 1.
    """

    lead_seconds: float
    rest_seconds: float
    sync_seconds: float
    compute_share: float

    def __post_init__(self) -> None:
        """Refuse what no step takes."""
        for seconds in (self.lead_seconds, self.rest_seconds, self.sync_seconds):
            vetted(seconds, "a wave's step")
        if not 0 < self.compute_share <= 1:
            raise PlanError(
                f"a step that keeps {self.compute_share} of the compute units busy: give a share in (0, 1]"
            )

    @property
    def seconds(self) -> float:
        """From start to start, if it runs alone."""
        return self.lead_seconds + self.rest_seconds + self.sync_seconds


def pair_seconds(step: WaveStep, pace: Pace) -> float:
    """Seconds from one step of the tick wave to its next, and so for one step of each wave, in the long run."""
    own, shared = (0, 1), 2
    lanes = [Lane(ports=(own[0], shared)), Lane(ports=(own[1], shared)), Lane()]
    tasks = TaskList(lanes, [step.compute_share, step.compute_share, 1.0])
    leads: list[int] = []
    rests: list[int] = []
    syncs: list[int] = []
    for number in range(2 * (WARMUP + MEASURED + COOLDOWN)):
        wave = number % 2
        from_round = pace is Pace.ROUNDS and wave == 0
        leads.append(
            tasks.add(wave, step.lead_seconds, [*syncs[-2:-1], *(syncs if from_round else leads)[-1:]])
        )
        gate = rests[-1:] if pace is Pace.ALTERNATING else []
        rests.append(tasks.add(wave, step.rest_seconds, [leads[-1], *gate]))
        syncs.append(tasks.add(_LINK, step.sync_seconds, [rests[-1]]))
    ends = tasks.ends()
    first, last = 2 * WARMUP - 1, 2 * (WARMUP + MEASURED) - 1
    return (ends[syncs[last]] - ends[syncs[first]]) / MEASURED
