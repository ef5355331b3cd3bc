"""When what has failed is started again; decided from times that are given, as no clock is read here."""

from dataclasses import dataclass

LEAST_SECONDS = 10.0
MOST_SECONDS = 1200.0
WELL_SECONDS = 600.0
START_SECONDS = 30.0
_SHARE = 20
HANG_SECONDS = 300.0
_LONGEST = 20


@dataclass
class Backoff:
    """How long a program waits that has failed.

    1. Starting is what others notice: imports, graphs that are built, memory that is touched for the first time.
       Of a run up to `START_SECONDS` count as that, and between two starts lies 20 times as long: what is slower
       beside a start stays out of the 95th percentile of the foreground's steps.
    2. It waits `least` seconds at least, and twice as long each further time.
    3. One that ran for `WELL_SECONDS` has not failed before.
    4. It never waits for more than `most` seconds.

    Attributes:
        least: seconds.
        most: seconds.
        failures: on end.
    """

    least: float = LEAST_SECONDS
    most: float = MOST_SECONDS
    failures: int = 0

    def failed(self, ran_seconds: float) -> float:
        """Seconds to wait behind a run of so many."""
        if ran_seconds >= WELL_SECONDS:  # case 3
            self.failures = 0
        doubled = self.least * 2.0 ** min(self.failures, 32)  # case 2
        between = _SHARE * min(ran_seconds, START_SECONDS) - ran_seconds  # case 1
        self.failures += 1
        return min(self.most, max(doubled, between))  # case 4


class Patience:
    """Does a program hang? Only one that tells its steps can be judged.

    It does once no step has come for `HANG_SECONDS`, and for 20 times as long as the longest so far took, of the
    time in which it could have gone on: neither paused nor waiting for a core. Each time that it was said to hang
    that doubles, also for its next run: what takes that long now and then, as a validation, ends in the end.
    """

    def __init__(self, least: float = HANG_SECONDS) -> None:
        """It has told no step."""
        self._least = least
        self.began()

    def began(self) -> None:
        """A new run of it."""
        self._longest: float = 0.0
        self._since: float = 0.0
        self._steps: int = 0

    def hangs(self, steps: int, seconds: float) -> bool:
        """Told again and again: its steps so far, and the seconds since the last time in which it could go on."""
        self._since += seconds
        if steps != self._steps:
            self._longest = max(self._longest, self._since) if self._steps else 0.0
            self._steps, self._since = steps, 0.0
        is_over = self._since > max(self._least, _LONGEST * self._longest)
        if not (steps and is_over):
            return False
        self._least *= 2
        return True
