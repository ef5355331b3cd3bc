"""Is an order worth its while? Said before anything runs."""

from dataclasses import dataclass

from tfwave.planner.forecast import Forecast

MODEL_ERROR = 0.03
"""A forecast gain may be off by this share of the step, beside the spread of unordered steps."""

SATURATED = 0.8
"""From this share of a step on, in which a server's card is busy for workers by themselves, no order makes them
faster: what one waits less for the card, another waits more. Two workers of three models, of whom each alone would
gain 3 to 7 %, gained 3, 2 and -5 %, with cards busy for 91 to 96 % of the step."""

_NEAR = 0.02


@dataclass(frozen=True)
class Verdict:
    """The expected gain, a share of the unordered step, with its interval; and what it means, in words.

    Below zero it is a loss: the order makes a step longer.
    """

    low: float
    gain: float
    high: float
    text: str

    @property
    def is_gain(self) -> bool:
        """Whether a gain is expected, and not just possible."""
        return self.low > 0


def judge(found: Forecast) -> Verdict:
    """Judge a forecast."""
    low = found.gain_over(min(found.unordered)) - MODEL_ERROR
    gain = found.gain
    high = found.gain_over(max(found.unordered)) + MODEL_ERROR
    if found.served > SATURATED:
        low, gain = min(low, 0.0) - MODEL_ERROR, min(gain, 0.0)
    if high < 0:
        return Verdict(low, gain, high, f"loss expected: {-gain:.0%} of the step ({-high:.0%} to {-low:.0%})")
    if low > 0:
        return Verdict(low, gain, high, f"gain expected: {gain:.0%} of the step ({low:.0%} to {high:.0%})")
    return Verdict(low, gain, high, f"no gain expected: {_why(found)}")


def _why(found: Forecast) -> str:
    if found.served > SATURATED:
        return f"all workers together keep a server's card busy {found.served:.0%} of the step"
    if found.idle > 0.5:
        return f"the link is idle {found.idle:.0%} of the step"
    if found.unordered_seconds <= (1 + _NEAR) * found.bounds.best.seconds:
        return f"without an order the step is at its bound ({found.bounds.best.name})"
    return f"the order saves {found.gain:.1%} of the step, less than forecasts are off"
