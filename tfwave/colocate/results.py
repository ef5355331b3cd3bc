"""What became of jobs that were trained beside each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfwave.bundle.bundle import Bundle
from tfwave.plan.plan import Plan
from tfwave.runtime.ledger import LedgerFigures


@dataclass(frozen=True)
class JobResult:
    """What became of a job.

    Attributes:
        steps: how many it made, with those before a checkpoint that it went on from.
        values: what each of them returned, copied out of the pool, as NumPy arrays, sparse tensors each as a
            `SparseTensorValue` of such; only those of this process.
        seconds: that these took, with all that they waited.
        waited_seconds: of those, how long the job waited for memory.
        error: what ended it early; None if its batches did.
        latency_p95_seconds: what 95 of 100 of its steps took at most, waiting included, but for its first ones and
            those after each change; None where there were no others.
        resumed_after: so many steps, which a checkpoint had; 0 if the job began anew.
        slowdown: of a background: how many times as long as without it the planned steps took of that job which it
            slowed most; None where there were too few.
        held: of a background: how often it was held, as that was over its `slowdown_at_most`.
    """

    steps: int
    values: tuple[Any, ...]
    seconds: float
    waited_seconds: float = 0.0
    error: Exception | None = None
    latency_p95_seconds: float | None = None
    resumed_after: int = 0
    slowdown: float | None = None
    held: int = 0


@dataclass(frozen=True)
class Results(Mapping[str, JobResult]):
    """What became of each job, by name.

    Attributes:
        jobs: likewise.
        plan: by which they ran, without those that had no room; None if none was left to plan. Another run of the
            same jobs can take it.
        figures: what the ledger of the pool counted; None likewise.
        bundles: what was traced of the jobs, by their names; empty where a plan was given. `tfwave.save_bundle`
            keeps one, for the commands.
    """

    jobs: Mapping[str, JobResult]
    plan: Plan | None = None
    figures: LedgerFigures | None = None
    bundles: Mapping[str, Bundle] = field(default_factory=dict[str, Bundle])

    def __getitem__(self, name: str) -> JobResult:
        return self.jobs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)
