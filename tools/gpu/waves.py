"""Two waves of a training step: throughput against one larger batch in as much memory.

The largest batches are sought among a few around what would fit by the model: a search as `tick_tock.py` makes it
takes an hour.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tfwave.errors import EnforcerError
from tfwave.memory.slots import room
from tools.bench.memory.limited import largest
from tools.bench.memory.tick_tock import AUTO, Bench
from tools.bench.memory.tick_tock_modes import GANG, WAVES, Case
from tools.bench.memory.tick_tock_trials import open_work
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

    def most(self, model: str) -> Row:
        """The largest batch of one step, and that of two waves together."""
        return {
            "model": model,
            "ways": {way: {"batch": 2 * self._largest(model, way)} for way in (GANG, AUTO)},
        }

    def peaks(self) -> Row:
        """By offset, over one step's."""
        rows = list(self.offset())
        return {"largest_error": max(abs(row["error"]) for row in rows), "offsets": rows}


@contextmanager
def opened(setting: Setting, model: str) -> Generator[ByTheModel]:
    """The bench of one model, whose trials are kept for all parts."""
    sizes = setting.sizes
    batches = {model: (sizes.waves[model],)}
    with open_work(setting.kept(f"waves {model}"), sizes.steps, setting.device) as work:
        yield ByTheModel(work, batches, 0, (), sizes.pool, 1, sizes.blocks, GUESSES)


def main() -> None:
    """One model after the other."""
    with measuring(sys.argv[1:]) as (setting, rows):
        for model in setting.sizes.waves:
            with opened(setting, model) as bench:
                rows.once(f"throughput {model}", partial(bench.compared, model))


if __name__ == "__main__":
    main()
