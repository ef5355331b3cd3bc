"""Will tick-tock help? Said from a profile, before anything runs (Wavelet, section 3.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tfwave.cost.model import vetted
from tfwave.errors import PlanError
from tfwave.memory.slots import room
from tfwave.memory.step import StepMemory
from tfwave.sizes import in_words
from tfwave.waves.needs import PoolNeeds
from tfwave.waves.overlap import share_above_half
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
        peak_bytes: the most that the pool holds with both, with the batch of the profile for each, whichever holds
            the other up; the margins are not in it.
        batch: what each wave's batch can be, in batches of the profile; 0 or below if not even two copies fit. From
            1 on, two waves with the batch of the profile fit, as `tfwave.waves.fit` says.
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
        choices: by offset.
        text: what it means.
    """

    peak_share: float
    above_half: float
    gang_batch: float
    choices: tuple[Choice, ...]
    text: str

    @property
    def best(self) -> Choice:
        """The highest speed-up, then the largest batch, then the smallest offset."""
        return _best(self.choices)

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
    needs: PoolNeeds, use: StepUse, limit_bytes: int, pace: Pace, offsets: Sequence[float] = OFFSETS
) -> WaveVerdict:
    """Judge tick-tock for a step: each way with the largest batch that the limit holds, with its margins.

    `offsets` are the marks at which tock can start, in steps of tick: the best one counts.

    Both ways must have room for the same: all that is held, and the largest piece, where waves may hold each other
    up, whatever their pace. So `tfwave.waves.fit.fitting_offset` has it, too. By the model, what is above the
    resident bytes grows with the batch. So does the time in which compute units are busy; the rest of the step's
    time stays as it is, whatever the batch, and the other wave can fill all of it. Tock needs its own copy of what
    is resident.

    Raises:
        PlanError: the step takes no time or no memory of its own, the limit does not hold what is resident, or
            there is no offset, or one outside the step.
    """
    memory, profile = needs.memory, needs.memory.profile
    if not memory.seconds or profile.peak == profile.resident:
        raise PlanError(
            f"the step on '{profile.device}' takes no time or no memory of its own: profile a training step"
        )
    if room(limit_bytes, 1) <= needs.fixed(1):
        raise PlanError(
            f"the step on '{profile.device}' holds {in_words(profile.resident)} that are resident, and its pool "
            f"{in_words(needs.others)} besides, which leaves nothing of the limit of "
            f"{in_words(limit_bytes)}: raise the limit"
        )
    if not offsets or not all(0 <= offset <= 1 for offset in offsets):
        raise PlanError(f"tock can start at {list(offsets)} of a step: give shares from 0 to 1")
    peaks = needs.peaks([offset * memory.seconds for offset in offsets])
    model = _Model(needs, use, limit_bytes, pace, dict(zip(offsets, peaks, strict=True)))
    choices = model.choices
    return WaveVerdict(
        profile.peak / limit_bytes,
        share_above_half(memory),
        model.gang_batch,
        choices,
        _text(model, _best(choices)),
    )


class _Obstacle(StrEnum):
    """What can hold two waves back; lifted one by one, to see which does most."""

    MEMORY = "memory"
    CORES = "cores"
    LINK = "link"
    ROUNDS = "rounds"


@dataclass(frozen=True)
class _Model:
    """The figures behind a verdict, with one obstacle lifted or none; `peaks` are those of both, by offset."""

    needs: PoolNeeds
    use: StepUse
    limit_bytes: int
    pace: Pace
    peaks: Mapping[float, int]
    lifted: _Obstacle | None = None

    @property
    def memory(self) -> StepMemory:
        return self.needs.memory

    @property
    def gang_batch(self) -> float:
        """What the batch can be with gang scheduling, in batches of the profile."""
        return (room(self.limit_bytes, 1) - self.needs.fixed(1)) / self.needs.alone

    @property
    def choices(self) -> tuple[Choice, ...]:
        """By offset."""
        return tuple([self._choice(offset, peak) for offset, peak in self.peaks.items()])

    def _choice(self, offset: float, peak: int) -> Choice:
        fitting = (room(self.limit_bytes, 2) - self.needs.fixed(2)) / self.needs.together(peak)
        batch = self.gang_batch if self.lifted is _Obstacle.MEMORY else fitting
        speedup = self._speedup(offset, batch) if batch > 0 else 0.0
        return Choice(offset, peak, batch, speedup)

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


def _best(choices: Sequence[Choice]) -> Choice:
    return max(choices, key=lambda choice: (choice.speedup, choice.batch, -choice.offset))


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
        return f"the limit does not hold what two waves hold whatever the batch, {in_words(model.needs.fixed(2))}"
    if model.gang_batch >= 2:
        return f"the step is not bound by memory: a batch {model.gang_batch:.1f} times as large fits"
    lifted = {obstacle: _best(replace(model, lifted=obstacle).choices).speedup for obstacle in _Obstacle}
    match max(_Obstacle, key=lambda obstacle: lifted[obstacle]):
        case _Obstacle.MEMORY:
            times = best.peak_bytes / (model.memory.profile.peak + model.needs.others)
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
