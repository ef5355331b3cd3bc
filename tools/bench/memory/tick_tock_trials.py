"""Trials of `tick_tock.py`: each in a process of its own, and each written down, so that a run can go on later."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tfwave.demo.processes import Task
from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import Device
from tools.bench.memory.limited import WAIT_SECONDS, Log, Pools, open_pools, outcome_of, run_steps
from tools.bench.memory.tick_tock_modes import Case, Traced, load_traced, program


@dataclass(frozen=True)
class Trial:
    """What came of one: `outcome` is "ok", "waited" (for room in the pool), "exhausted", or how the process ended.

    Seconds and losses are those of each step, losses in hexadecimal.
    """

    case: Case
    repeat: int
    outcome: str
    peak: int = 0
    seconds: tuple[float, ...] = ()
    losses: tuple[tuple[str, ...], ...] = ()

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"


@dataclass
class Work:
    """The directory of a run: profiles, and the trials that were made, of so many steps, in ``trials.jsonl``."""

    pools: Pools
    steps: int
    trials: dict[tuple[Case, int], Trial] = field(default_factory=dict[tuple[Case, int], Trial])

    def __post_init__(self) -> None:
        """Take up the trials of an earlier run."""
        self._log = Log(self.pools.out / "trials.jsonl")
        for trial in map(trial_of, self._log.lines()):
            self.trials[trial.case, trial.repeat] = trial

    def traced(self, model: str, each: int) -> Traced:
        """A model's step with the batch of one wave; made once."""
        return load_traced(self.pools.profile(model, each))

    def trial(self, case: Case, repeat: int = 0) -> Trial:
        """Make it, or say what came of it before."""
        if (case, repeat) not in self.trials:
            self.trials[case, repeat] = self._try(case, repeat)
            self._log.add(asdict(self.trials[case, repeat]))
        return self.trials[case, repeat]

    def tried(self, case: Case, repeats: int) -> Sequence[Trial]:
        """Trials of a case, until one fails."""
        trials: list[Trial] = []
        for repeat in range(repeats):
            trials.append(self.trial(case, repeat))
            if not trials[-1].ok:
                break
        return trials

    @contextmanager
    def running(self, case: Case) -> Generator[Task]:
        """A process with the case's graph in its pool.

        Raises:
            EnforcerError: it ended, or did not start in time.
        """
        graph = self.pools.graph(case.model, case.each)
        with self.pools.running(case.limit, program(graph, case)) as task:
            yield task

    def _try(self, case: Case, repeat: int) -> Trial:
        try:
            with self.running(case) as task:
                answer = run_steps(task, self.steps)
        except EnforcerError as error:
            return Trial(case, repeat, outcome_of(error))
        losses = tuple([tuple(step) for step in answer["losses"]])
        outcome = "ok" if max(answer["seconds"]) < WAIT_SECONDS else "waited"
        return Trial(case, repeat, outcome, answer["peak"], tuple(answer["seconds"]), losses)


@contextmanager
def open_work(out: Path, steps: int, device: Device = Device.CPU) -> Generator[Work]:
    """The work in a directory, taken up where it was left."""
    with open_pools(out, device) as pools:
        yield Work(pools, steps)


def trial_of(values: dict[str, Any]) -> Trial:
    """From a line of the log."""
    losses = tuple([tuple(step) for step in values["losses"]])
    kept = {"case": Case(**values["case"]), "seconds": tuple(values["seconds"]), "losses": losses}
    return Trial(**(values | kept))
