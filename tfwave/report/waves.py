"""What a training in waves leaves in a directory."""

from collections.abc import Sequence
from pathlib import Path

from tfwave.capture.wave_choice import MeasuredStep
from tfwave.errors import EnforcerError
from tfwave.memory.step import StepMemory
from tfwave.plan.plan import Plan
from tfwave.report.drawn.step import step_figure
from tfwave.report.page.left import leave_facts
from tfwave.report.page.waves import RunningWaves, wave_facts, wave_settings
from tfwave.report.told import table_text, tell_pictures
from tfwave.runtime.events import Events
from tfwave.runtime.pool import pool_limit
from tfwave.runtime.waves.options import WaveOptions

_NAME = "waves"


class WaveReport:
    """A page and TensorBoard events of the waves, left once, when they first run."""

    def __init__(self, directory: str | Path | None) -> None:
        """Nothing is written yet; without a directory nothing will be."""
        self._directory = None if directory is None else Path(directory)
        self._memory: StepMemory | None = None
        self._second_begins: float | None = None

    def chosen(self, plan: Plan, found: MeasuredStep) -> None:
        """Keep by what they were chosen, until they run; see `WaveChoice`."""
        if self._directory is not None:
            self._memory = found.memory
            if plan.waves is not None and plan.waves.count > 1:
                self._second_begins = found.second_begins(plan.waves.offset)

    def leave(self, options: WaveOptions, plan: Plan | None, replicas: int, copies: Sequence[int]) -> None:
        """Tell the waves that run now; a second time nothing. The arguments are as `RunningWaves` has them."""
        directory, self._directory = self._directory, None
        if directory is None:
            return
        planned = None if plan is None else plan.waves
        waves = RunningWaves(options, replicas, copies, _limit(), planned, self._memory, self._second_begins)
        leave_facts(directory, _NAME, lambda: wave_facts(waves), plan)
        self._tell(Events(directory), waves)
        self._memory = None

    def _tell(self, events: Events, waves: RunningWaves) -> None:
        memory, begins = waves.memory, waves.second_begins
        events.text(f"tfwave/plan/{_NAME}", table_text(wave_settings(waves)), 0)
        if memory is not None:
            marks = {} if begins is None else {"the second wave begins": begins}
            tell_pictures(events, _NAME, {"memory": lambda: step_figure(memory, marks)})
        events.close()


def _limit() -> int | None:
    """Of the CPU's pool; None if it has none."""
    try:
        return pool_limit()
    except EnforcerError:
        return None
