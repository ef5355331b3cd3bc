"""Two waves of a training step: the pool's peak, and throughput against one larger batch in as much memory.

The largest batches are sought among a few around what would fit by the model: a search as `tick_tock.py` makes it
takes an hour.
"""

import sys
from dataclasses import dataclass
from functools import partial

from tfwave.errors import EnforcerError
from tfwave.memory.slots import room
from tools.bench.memory.limited import largest
from tools.bench.memory.tick_tock import AUTO, Bench
from tools.bench.memory.tick_tock_modes import GANG, WAVES, Case
from tools.bench.memory.tick_tock_trials import Work, open_work
from tools.gpu.part import Row, Setting, measuring

PLACES = 10
STARTS = {GANG: 10, AUTO: 7}
"""Where the search begins: two waves need more than one at a time, which the line does not see."""
GUESSES = 3


@dataclass(frozen=True)
class ByTheModel(Bench):
    """With the largest batches by the model."""

    def _largest(self, model: str, way: str) -> int:
        """To a tenth of what would fit by the line through few profiles; 0 if none holds.

        What would not by its own profile is not tried.
        """
        grid = max(1, round(self._modelled(model, way) / PLACES))

        def holds(place: int) -> bool:
            case = self._case(model, way, place * grid)
            return case is not None and self._fits(case) and self.work.trial(case).ok

        return grid * largest(range(1, PLACES + 2), STARTS[way], holds, holds)

    def _fits(self, case: Case) -> bool:
        """By the model; waves have an offset where they do."""
        if case.mode == WAVES:
            return True
        return self.work.traced(case.model, case.batch).captured.peak <= room(case.limit, 1)

    def compared(self, model: str) -> Row:
        """Throughputs, and the peaks of both; `off` is that of the waves over the model's word, less 1.

        Raises:
            EnforcerError: no batch of one of both holds.
        """
        row = self.throughput(model)
        if row["throughput"] is None:
            raise EnforcerError(row["error"] or "no batch holds, of one step or of two waves")
        gang, waves = row["batches"][GANG], row["batches"][AUTO]
        word = self.work.traced(model, waves // 2).peak(row["offset"])
        peaks = {
            GANG: self.work.trial(Case(model, GANG, gang, self.pool)).peak,
            WAVES: self.work.trial(Case(model, WAVES, waves, self.pool, row["offset"])).peak,
        }
        return row | {"peaks": peaks, "word": word, "off": peaks[WAVES] / word - 1}

    def peaks(self) -> Row:
        """By offset, over one step's."""
        rows = list(self.offset())
        return {"largest_error": max(abs(row["error"]) for row in rows), "offsets": rows}


def main() -> None:
    """All throughputs, then the peaks."""
    with (
        measuring(sys.argv[1:]) as (setting, rows),
        open_work(setting.folder, setting.sizes.steps, setting.device) as work,
    ):
        benches = {model: bench(work, setting, model) for model in setting.sizes.waves}
        for model, of_model in benches.items():
            rows.once(f"throughput {model}", partial(of_model.compared, model))
        for model, of_model in benches.items():
            rows.once(f"peaks {model}", of_model.peaks)


def bench(work: Work, setting: Setting, model: str) -> ByTheModel:
    """Of one model."""
    batches = {model: (setting.sizes.waves[model],)}
    return ByTheModel(work, batches, 0, (), setting.sizes.pool, 1, setting.sizes.blocks, GUESSES)


if __name__ == "__main__":
    main()
