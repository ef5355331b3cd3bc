"""How a schedule is made, and how waves run."""

from dataclasses import dataclass
from pathlib import Path

from tfwave.errors import EnforcerError
from tfwave.order.registry import find_policy
from tfwave.plan.plan import Plan
from tfwave.runtime.events import Events
from tfwave.runtime.waves.options import WaveOptions


@dataclass(frozen=True)
class Settings:
    """A policy's name, for how many steps of each worker to measure, then to trace, and what is planned already.

    Plans that come into force, their pages and TensorBoard events are written to `report_dir`; None: nowhere.

    Raises:
        TfwaveError: an unknown policy, or no step.
    """

    policy: str = "tac"
    trace_steps: int = 5
    plan: Plan | None = None
    report_dir: Path | None = None

    def events(self) -> Events | None:
        """A new events file in `report_dir`."""
        return None if self.report_dir is None else Events(self.report_dir)

    def __post_init__(self) -> None:
        """Refuse what cannot be planned with."""
        find_policy(self.policy, seed=0)
        if self.trace_steps < 1:
            raise EnforcerError(f"cannot trace {self.trace_steps} steps: give at least 1")


@dataclass(frozen=True)
class WaveSettings:
    """The waves of a strategy, and where to leave what is known of them; None: nowhere."""

    options: WaveOptions
    report_dir: str | Path | None = None
