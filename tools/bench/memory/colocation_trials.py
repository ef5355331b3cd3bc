"""Trials of `colocation.py`: each in a process of its own, and each written down, so that a run can go on later."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tfwave.demo.processes import Task
from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import Device
from tools.bench.memory.colocation_modes import MODES, Jobs, Planned, Profile, load_profile, program_of
from tools.bench.memory.limited import STEPS, Log, Pools, open_pools, outcome_of, run_steps


@dataclass(frozen=True)
class Case:
    """Jobs of these models, at these batches, under a limit in bytes."""

    models: tuple[str, ...]
    batches: tuple[int, ...]
    limit: int

    @property
    def names(self) -> tuple[str, ...]:
        """Of the jobs."""
        return tuple("abcdefgh"[: len(self.models)])


@dataclass(frozen=True)
class Trial:
    """What came of one: `outcome` is "ok", "exhausted", or how the process ended."""

    case: Case
    mode: str
    variant: str
    repeat: int
    outcome: str
    predicted_peak: int
    predicted_fit: bool
    peak: int = 0
    seconds: tuple[float, ...] = ()
    losses_equal: bool | None = None

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"


@dataclass
class Work:
    """The directory of a run: profiles, and the trials that were made, in ``trials.jsonl``."""

    pools: Pools
    trials: dict[tuple[Any, ...], Trial] = field(default_factory=dict[tuple[Any, ...], Trial])
    _plans: dict[tuple[Case, str], tuple[Planned, ...]] = field(
        default_factory=dict[tuple[Case, str], tuple[Planned, ...]]
    )

    def __post_init__(self) -> None:
        """Take up the trials of an earlier run."""
        self._log = Log(self.pools.out / "trials.jsonl")
        for trial in map(_trial, self._log.lines()):
            self.trials[trial.case, trial.mode, trial.variant, trial.repeat] = trial

    def profile(self, model: str, batch: int) -> Profile:
        """Of one step; made once."""
        return load_profile(self.pools.profile(model, batch))

    def jobs(self, case: Case) -> Jobs:
        """The profiles of the jobs of a case."""
        found = zip(case.names, case.models, case.batches, strict=True)
        return {name: self.profile(model, batch) for name, model, batch in found}

    def plans(self, case: Case, mode: str) -> tuple[Planned, ...]:
        """The ways in which a mode runs a case."""
        if (case, mode) not in self._plans:
            self._plans[case, mode] = tuple(MODES[mode](self.jobs(case), case.limit))
        return self._plans[case, mode]

    def trial(self, case: Case, mode: str, planned: Planned, repeat: int) -> Trial:
        """Make it, or say what came of it before."""
        mode = planned.same_as or mode
        key = (case, mode, planned.variant, repeat)
        if key not in self.trials:
            self.trials[key] = self._try(case, mode, planned, repeat)
            self._log.add(asdict(self.trials[key]))
        return self.trials[key]

    @contextmanager
    def running(self, case: Case, planned: Planned) -> Generator[Task]:
        """A process with the case's graph in its pool.

        Raises:
            EnforcerError: it ended, or did not start in time.
        """
        with self.pools.running(case.limit, program_of(self.jobs(case), planned)) as task:
            yield task

    def _try(self, case: Case, mode: str, planned: Planned, repeat: int) -> Trial:
        said = (case, mode, planned.variant, repeat)
        predicted = (planned.peak_bytes, planned.fits)
        try:
            with self.running(case, planned) as task:
                answer = run_steps(task, STEPS)
        except EnforcerError as error:
            return Trial(*said, outcome_of(error), *predicted)
        solo = [self.profile(*job).losses for job in zip(case.models, case.batches, strict=True)]
        equal = [tuple(step) for step in answer["losses"]] == list(zip(*solo, strict=True))
        return Trial(*said, "ok", *predicted, answer["peak"], tuple(answer["seconds"]), equal)


@contextmanager
def open_work(out: Path, device: Device = Device.CPU) -> Generator[Work]:
    """The work in a directory, taken up where it was left."""
    with open_pools(out, device) as pools:
        yield Work(pools)


def tried(work: Work, case: Case, mode: str, repeats: int) -> Sequence[Trial]:
    """The trials of the mode's first way that never fails, else of the last, until it failed."""
    trials: list[Trial] = []
    for planned in work.plans(case, mode):
        trials = []
        for repeat in range(repeats):
            trials.append(work.trial(case, mode, planned, repeat))
            if not trials[-1].ok:
                break
        else:
            return trials
    return trials


def _trial(values: dict[str, Any]) -> Trial:
    case = values.pop("case")
    seconds = tuple(values.pop("seconds"))
    return Trial(
        Case(tuple(case["models"]), tuple(case["batches"]), case["limit"]), seconds=seconds, **values
    )
