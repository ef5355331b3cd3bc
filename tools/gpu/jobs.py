"""Jobs in one memory: their largest batches as a share of what each has alone, and throughput over running in turn.

Shares are sought from where each mode may be by experience down, in steps of a twentieth: a search for each would
take hours. All modes are timed at the largest share that all reach; those that keep to a limit, also at theirs.
"""

import statistics
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tfwave.errors import EnforcerError
from tools.bench.interleaved import paired_ratio
from tools.bench.memory.colocation import Bench, Scale, summary
from tools.bench.memory.colocation_modes import SEQUENTIAL
from tools.bench.memory.colocation_trials import open_work, tried
from tools.gpu.part import Row, Setting, measuring

UNCONTROLLED, PLANNED = "uncontrolled", "colocation"
MODES = (SEQUENTIAL, PLANNED, UNCONTROLLED)
GRID = 0.05
LEAST_STRIDE = 0.03
TRIES = 6


@dataclass(frozen=True)
class ByTheModel(Bench):
    """With the first share that holds, from one that no mode is expected to pass."""

    def most(self, scale: Scale, mode: str) -> int:
        """0 if none of the first few holds. What is planned is not tried where it would not by the model."""
        top, stride = round(_start(scale, mode) / scale.grid), max(1, round(LEAST_STRIDE / scale.grid))
        for place in range(top, max(top - TRIES * stride, 0), -stride):
            case = scale.case(place)
            fits = any(planned.fits for planned in self.work.plans(case, mode))
            if (fits or mode == UNCONTROLLED) and tried(self.work, case, mode, 1)[-1].ok:
                return place
        return 0

    def shares(self, jobs: str, limit: int) -> Row:
        """The largest of each mode."""
        scale = self.scale(jobs, limit)
        found = {mode: self._share(scale, mode) for mode in MODES}
        return {"jobs": jobs, "limit": limit, "solo": scale.tops, "modes": found}

    def timed(self, jobs: str, limit: int, modes: Sequence[str], steps: int) -> Row:
        """Seconds of a step of all jobs in turn over those in each mode, at the largest share of all these modes.

        Raises:
            EnforcerError: a mode has none, or the pool ran out.
        """
        scale = self.scale(jobs, limit)
        place = min(self.most(scale, mode) for mode in modes)
        if not place:
            raise EnforcerError(f"a mode of {', '.join(modes)} has no share of those that are tried")
        case = scale.case(place)
        planned = {mode: self.work.plans(case, mode)[0] for mode in modes}
        seconds = self._paired(case, planned, steps)
        return {
            "jobs": jobs,
            "limit": limit,
            "share": scale.share(place),
            "batches": case.batches,
            "variants": {mode: plan.variant or plan.same_as for mode, plan in planned.items()},
            "seconds": {mode: statistics.median(own) for mode, own in seconds.items()},
            "throughput": {mode: paired_ratio(seconds[SEQUENTIAL], own) for mode, own in seconds.items()},
        }

    def _share(self, scale: Scale, mode: str) -> Row:
        place = self.most(scale, mode)
        if not place:
            return {"share": None}
        trials = tried(self.work, scale.case(place), mode, 1)
        return {"share": scale.share(place), "batches": trials[0].case.batches, **summary(trials)}


def _start(scale: Scale, mode: str) -> float:
    """Uncontrolled, each has its part of the memory; else they follow each other, or nearly so."""
    return min(1.0, 1.1 / len(scale.models)) if mode == UNCONTROLLED else 1.0


@contextmanager
def opened(setting: Setting, jobs: str) -> Generator[ByTheModel]:
    """The bench of some jobs, whose trials are kept for all parts."""
    with open_work(setting.kept(f"jobs {jobs}"), setting.device) as work:
        yield ByTheModel(work, 1, GRID)


def main() -> None:
    """One set of jobs after the other."""
    with measuring(sys.argv[1:]) as (setting, rows):
        sizes = setting.sizes
        for jobs in sizes.jobs:
            with opened(setting, jobs) as bench:
                for modes in (MODES[:2], MODES):
                    name = f"throughput {jobs} {', '.join(modes[1:])}"
                    rows.once(name, partial(bench.timed, jobs, sizes.pool, modes, sizes.blocks * sizes.steps))


if __name__ == "__main__":
    main()
