"""Will tick-tock help? Said from a profile, before anything runs (Wavelet, section 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tfwave.cost.model import vetted
from tfwave.errors import PlanError
from tfwave.memory.step import StepMemory
from tfwave.memory.waves import room
from tfwave.waves.overlap import paused, share_above_half, two_wave_peaks
from tfwave.waves.pair import Pace, WaveStep, pair_seconds

OFFSETS = tuple([twentieth / 20 for twentieth in range(1, 20)])
"""How long after tick's start tock starts, in steps: what is tried if not told otherwise."""

MODEL_ERROR = 0.12
"""What a predicted speed-up may be off, as a share of it: so far were simulated schedules from measured ones."""

_NEARLY_NONE = 1e-9
"""Of the compute units: what slows nobody."""


@dataclass(frozen=True)
class StepUse:
    """What a step uses besides memory.

    Attributes:
        compute_share: the share of the device's compute units that it keeps busy on average, without the exchange.
        sync_seconds: of the exchange of gradients after it, as far as nothing runs beside it.

    Raises:
        PlanError: the share is not above 0 and at most 1.
        CostError: the seconds are negative, infinite or not a number.
    """

    compute_share: float
    sync_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no step uses."""
        if not 0 < self.compute_share <= 1:
            raise PlanError(
                f"a step that keeps {self.compute_share} of the compute units busy: give a share in (0, 1]"
            )
        vetted(self.sync_seconds, "the exchange of gradients")


@dataclass(frozen=True)
class Choice:
    """Tick and tock at one offset, against gang scheduling in the same memory.

    Attributes:
        offset: how long after tick's start tock starts, in steps.
        peak_bytes: the most that both hold, with the batch of the profile for each; the margin is not in it.
        batch: what each wave's batch can be, in batches of the profile; 0 or below if not even two copies fit.
        speedup: samples per second over those of gang scheduling; 0 if nothing fits.
    """

    offset: float
    peak_bytes: int
    batch: float
    speedup: float


@dataclass(frozen=True)
class WaveVerdict:
    """What tick-tock is expected to bring, by the model.

    Attributes:
        peak_share: of one wave with the batch of the profile, of the limit.
        above_half: the share of the step in which it holds more than half of its peak.
        gang_batch: what the batch can be with gang scheduling, in batches of the profile.
        best: the offset with the highest speed-up.
        text: what it means.
    """

    peak_share: float
    above_half: float
    gang_batch: float
    best: Choice
    text: str

    @property
    def low(self) -> float:
        """The least speed-up that the model's error allows."""
        return self.best.speedup * (1 - MODEL_ERROR)

    @property
    def high(self) -> float:
        """The highest."""
        return self.best.speedup * (1 + MODEL_ERROR)

    @property
    def is_gain(self) -> bool:
        """Whether a gain is expected, and not just possible."""
        return self.low > 1


def judge_waves(
    memory: StepMemory, use: StepUse, limit_bytes: int, pace: Pace, offsets: Sequence[float] = OFFSETS
) -> WaveVerdict:
    """Judge tick-tock for a step: each way with the largest batch that the limit holds, with its margin.

    `offsets` are the marks at which tock can start, in steps of tick: the best one counts.

    By the model, what is above the resident bytes grows with the batch. So does the time in which compute units are
    busy; the rest of the step's time stays as it is, whatever the batch, and the other wave can fill all of it.
    Tock needs its own copy of what is resident.

    Raises:
        PlanError: the step takes no time or no memory of its own, the limit does not hold what is resident, or
            there is no offset, or one outside the step.
    """
    profile = memory.profile
    if not memory.seconds or profile.peak == profile.resident:
        raise PlanError(
            f"the step on '{profile.device}' takes no time or no memory of its own: profile a training step"
        )
    if room(limit_bytes, 1) <= profile.resident:
        raise PlanError(
            f"the step on '{profile.device}' holds {profile.resident} resident bytes, which leaves nothing of "
            f"the limit of {limit_bytes}: raise the limit"
        )
    if not offsets or not all(0 <= offset <= 1 for offset in offsets):
        raise PlanError(f"tock can start at {list(offsets)} of a step: give shares from 0 to 1")
    model = _Model(memory, use, limit_bytes, pace, offsets)
    best = model.best()
    return WaveVerdict(
        profile.peak / limit_bytes, share_above_half(memory), model.gang_batch, best, _text(model, best)
    )


class _Obstacle(StrEnum):
    """What can hold two waves back; lifted one by one, to see which does most."""

    MEMORY = "memory"
    CORES = "cores"
    LINK = "link"
    ROUNDS = "rounds"


@dataclass(frozen=True)
class _Model:
    """The figures behind a verdict, with one obstacle lifted or none."""

    memory: StepMemory
    use: StepUse
    limit_bytes: int
    pace: Pace
    offsets: Sequence[float]
    lifted: _Obstacle | None = None

    @property
    def gang_batch(self) -> float:
        """What the batch can be with gang scheduling, in batches of the profile."""
        resident = self.memory.profile.resident
        return (room(self.limit_bytes, 1) - resident) / (self.memory.profile.peak - resident)

    def best(self) -> Choice:
        """The highest speed-up, then the largest batch, then the smallest offset."""
        choices = [self._choice(offset) for offset in self.offsets]
        return max(choices, key=lambda choice: (choice.speedup, choice.batch, -choice.offset))

    def _choice(self, offset: float) -> Choice:
        peak = self._peak(replace(self._step(offset, 1.0), compute_share=_NEARLY_NONE))
        resident = 2 * self.memory.profile.resident
        fitting = (room(self.limit_bytes, 2) - resident) / (peak - resident)
        batch = self.gang_batch if self.lifted is _Obstacle.MEMORY else fitting
        return Choice(offset, peak, batch, self._speedup(offset, batch) if batch > 0 else 0.0)

    def _peak(self, step: WaveStep) -> int:
        """Of both waves, with the batch of the profile, if they do not slow each other."""
        if self.pace is Pace.ROUNDS:
            return two_wave_peaks(self.memory, [step.lead_seconds])[0]
        shift, waits = step.lead_seconds, 0.0
        if self.pace is Pace.ALTERNATING:
            shift = max(step.lead_seconds, step.rest_seconds)
            waits = max(0.0, step.rest_seconds - step.lead_seconds - step.sync_seconds)
        held = paused(self.memory, step.lead_seconds, waits)
        period = max(held.seconds, pair_seconds(step, self.pace))
        return two_wave_peaks(held, [shift], period)[0]

    def _speedup(self, offset: float, batch: float) -> float:
        pace = Pace.STEADY if self.lifted is _Obstacle.ROUNDS else self.pace
        step = self._step(offset, batch)
        if self.lifted is _Obstacle.CORES:
            step = replace(step, compute_share=_NEARLY_NONE)
        gang = self._step(offset, self.gang_batch).seconds / self.gang_batch
        return gang * 2 * batch / pair_seconds(step, pace)

    def _step(self, offset: float, batch: float) -> WaveStep:
        busy = self.use.compute_share * batch
        stretch = 1 - self.use.compute_share + busy
        seconds = self.memory.seconds * stretch
        sync = 0.0 if self.lifted is _Obstacle.LINK else self.use.sync_seconds
        return WaveStep(offset * seconds, (1 - offset) * seconds, sync, busy / stretch)


def _text(model: _Model, best: Choice) -> str:
    low, high = best.speedup * (1 - MODEL_ERROR), best.speedup * (1 + MODEL_ERROR)
    figures = f"x{best.speedup:.2f} over gang scheduling in the same memory ({low:.2f} to {high:.2f})"
    if low > 1:
        return (
            f"gain expected: {figures}, tock {best.offset:.0%} of a step after tick, "
            f"two batches of {best.batch:.2f} for one of {model.gang_batch:.2f}"
        )
    return f"tick-tock will not help: {figures} at best: {_why(model, best)}"


def _why(model: _Model, best: Choice) -> str:
    """What holds the waves back the most."""
    if best.batch <= 0:
        return f"the limit does not hold what is resident twice, {2 * model.memory.profile.resident} bytes"
    if model.gang_batch >= 2:
        return f"the step is not bound by memory: a batch {model.gang_batch:.1f} times as large fits"
    lifted = {obstacle: replace(model, lifted=obstacle).best().speedup for obstacle in _Obstacle}
    match max(_Obstacle, key=lambda obstacle: lifted[obstacle]):
        case _Obstacle.MEMORY:
            times = best.peak_bytes / model.memory.profile.peak
            return (
                f"tock starts {best.offset:.0%} of a step after tick, and both peak at {times:.2f} times one"
            )
        case _Obstacle.CORES:
            return f"one wave keeps {model.use.compute_share:.0%} of the compute units busy"
        case _Obstacle.LINK:
            share = model.use.sync_seconds / (model.memory.seconds + model.use.sync_seconds)
            return f"the exchange of gradients takes {share:.0%} of a step, and each wave makes its own"
        case _Obstacle.ROUNDS:
            return "tick waits for tock at the end of each round"
