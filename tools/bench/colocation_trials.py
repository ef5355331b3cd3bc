"""Trials of `colocation.py`: each in a process of its own, and each written down, so that a run can go on later."""

import json
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tfwave.demo.network import LoopbackNetwork
from tfwave.demo.processes import Task, Tasks
from tfwave.errors import EnforcerError
from tools.bench import colocation_task
from tools.bench.colocation_modes import MODES, Jobs, Planned, Profile, load_profile, request_of

START_SECONDS = 60.0
STEP_SECONDS = 12.0
"""What the pool has no room for waits 10 s for it inside TensorFlow; a step takes less than 2."""
PROFILE_SECONDS = 180.0
PROFILE_LIMIT = 8 << 30
STEPS = 5
"""Of a trial."""
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3"}


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

    out: Path
    tasks: Tasks
    trials: dict[tuple[Any, ...], Trial] = field(default_factory=dict[tuple[Any, ...], Trial])
    _plans: dict[tuple[Case, str], tuple[Planned, ...]] = field(
        default_factory=dict[tuple[Case, str], tuple[Planned, ...]]
    )
    _started: int = 0

    def profile(self, model: str, batch: int) -> Profile:
        """Of one step; made once."""
        directory = self.out / "profiles" / f"{model}-{batch}"
        if not (directory / "steps.json").exists():
            self._make_profile(model, batch, directory)
        return load_profile(directory)

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
        key = (case, mode, planned.variant, repeat)
        if key not in self.trials:
            self.trials[key] = self._try(case, mode, planned, repeat)
            with (self.out / "trials.jsonl").open("a") as lines:
                lines.write(json.dumps(asdict(self.trials[key])) + "\n")
        return self.trials[key]

    def load(self) -> None:
        """Take up the trials of an earlier run; a line that was cut short is none."""
        path = self.out / "trials.jsonl"
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole)
        for line in whole.splitlines():
            trial = _trial(json.loads(line))
            self.trials[trial.case, trial.mode, trial.variant, trial.repeat] = trial

    @contextmanager
    def running(self, case: Case, planned: Planned) -> Generator[Task]:
        """A process with the case's graph in its pool.

        Raises:
            EnforcerError: it ended, or did not start in time.
        """
        request = request_of(self.jobs(case), planned, self.out / f"graph-{self._started}.pb")
        task = self._start(case.limit)
        try:
            answer = task.request(request, START_SECONDS)
            if "error" in answer:
                raise EnforcerError(answer["error"])
            yield task
        finally:
            task.end()
            Path(str(request["graph"])).unlink()

    def _try(self, case: Case, mode: str, planned: Planned, repeat: int) -> Trial:
        said = (case, mode, planned.variant, repeat)
        predicted = (planned.peak_bytes, planned.fits)
        try:
            with self.running(case, planned) as task:
                answer = run_steps(task, STEPS)
        except EnforcerError as error:
            return Trial(*said, str(error).partition(";")[0], *predicted)
        solo = [self.profile(*job).losses for job in zip(case.models, case.batches, strict=True)]
        equal = [tuple(step) for step in answer["losses"]] == list(zip(*solo, strict=True))
        return Trial(*said, "ok", *predicted, answer["peak"], tuple(answer["seconds"]), equal)

    def _make_profile(self, model: str, batch: int, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)  # of a run that was stopped
        request = {"do": "profile", "model": model, "batch": batch, "steps": STEPS, "out": str(directory)}
        task = self._start(
            PROFILE_LIMIT
        )  # a process of its own: how a pool pads depends on what it gave before
        answer = task.request(request, PROFILE_SECONDS)
        task.end()
        (directory / "steps.json").write_text(json.dumps(answer))

    def _start(self, limit: int) -> Task:
        self._started += 1
        task = self.tasks.start(
            f"{self._started}-{limit >> 20}MB", "here", colocation_task.MODULE, _ENVIRONMENT
        )
        task.request({"limit": limit}, START_SECONDS)
        return task


def run_steps(task: Task, count: int) -> dict[str, Any]:
    """What `colocation_task` says of a run.

    Raises:
        EnforcerError: the pool was exhausted, or a step took too long.
    """
    answers: list[dict[str, Any]] = []
    for _ in range(count):
        answers.append(task.request({"do": "run", "steps": 1}, STEP_SECONDS))
        if "error" in answers[-1]:
            raise EnforcerError(answers[-1]["error"])
    joined = {key: [value for answer in answers for value in answer[key]] for key in ("seconds", "losses")}
    return joined | {"peak": answers[-1]["peak"]}


@contextmanager
def open_work(out: Path) -> Generator[Work]:
    """The work in a directory, taken up where it was left."""
    (out / "profiles").mkdir(parents=True, exist_ok=True)
    (out / "logs").mkdir(exist_ok=True)
    with LoopbackNetwork(("here",), 1e9) as network, Tasks(network, out / "logs") as tasks:
        work = Work(out, tasks)
        work.load()
        yield work


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
