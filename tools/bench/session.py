"""Runs that may be stopped and gone on with, and how long they will still take."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Session:
    """Which of some runs are done, in a file that is there until all are.

    Attributes:
        path: of the file; one of other runs is no news of these.
        runs: by their commands.
        known: seconds that runs took at an earlier time.
        done: seconds that they took now.
    """

    path: Path
    runs: Sequence[str]
    known: Mapping[str, float]
    done: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Go on where the same runs were stopped."""
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            self.done = kept["done"] if kept["runs"] == list(self.runs) else {}

    def left(self) -> list[str]:
        """The runs that are not done yet, in their order."""
        return [run for run in self.runs if run not in self.done]

    def finish(self, run: str, seconds: float) -> None:
        """Note that a run is done. Behind the last one nothing is kept."""
        self.done[run] = seconds
        if self.left():
            self.path.write_text(json.dumps({"runs": list(self.runs), "done": self.done}, indent=1) + "\n")
        else:
            self.path.unlink(missing_ok=True)

    def seconds_left(self) -> float | None:
        """An estimate: what runs took before, or else the mean of what others took; None: nothing is known."""
        known = {**self.known, **self.done}
        if not known:
            return None
        mean = statistics.fmean(known.values())
        return sum(known.get(run, mean) for run in self.left())
