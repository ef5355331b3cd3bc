"""Steps that are made to fit: the batches that a pool holds, what they cost, and what hides of their copies.

`hidden` is the share of the copies' seconds beside which kernels ran, as traced; None where none can be traced.
There is `hidden_at_least`: 1 less what the step took longer than the plain one, over what the copies take alone.
"""

import sys
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from tfwave.bundle.bundle import load_bundle
from tfwave.errors import EnforcerError
from tfwave.memory.slots import room
from tfwave.offload.batch import largest_batch
from tfwave.offload.captured import captured_step
from tfwave.runtime.allocator import Device
from tools.bench.memory.fit_memory import row as fitted_row
from tools.bench.memory.largest_batch import Work
from tools.bench.memory.limited import STEPS, Pools, largest, open_pools
from tools.gpu.part import Row, measuring, rows_of

WAYS = ("offload", "recompute", "both")
TIMES = (1.0, 1.5, 2.0)
"""The largest plain batch, at which each way is tried."""
SHARES = (0.6,)
"""Of the plain peak, into which a step is made to fit."""
PLACES = 12


@dataclass(frozen=True)
class Fitted:
    """The rows of one model."""

    pools: Pools
    model: str
    batch: int
    limit: int
    copy_rate: float | None
    """Bytes a second between host and GPU, as another part found it; None: not known, or there is none."""

    def cost(self, share: float, steps: int) -> Row:
        """Of a step in this share of its peak, beside the plain one."""
        row = fitted_row(self.pools, self.model, self.batch, share, steps)
        return row | self._hidden(row) if row["fits"] else row

    def largest(self) -> Row:
        """The largest plain batch, to a 20th of what would fit by the model, around that.

        Raises:
            EnforcerError: none of those that are tried holds.
        """
        modelled = self._modelled()

        def batch(place: int) -> int:
            return max(1, round(modelled * (0.5 + 0.05 * place)))

        def holds(place: int) -> bool:
            return "peak" in self.trial("plain", batch(place))

        place = largest(range(1, PLACES + 1), PLACES - 2, holds, holds)
        if not place:
            raise EnforcerError(f"no batch holds of those that are tried, down to {batch(1)}")
        return self.trial("plain", batch(place))

    def trial(self, way: str, batch: int) -> Row:
        """Of a batch in the pool, whose losses must be those of the plain step."""
        found = Work(self.pools, self.limit, 1, STEPS).trial(self.model, way, batch, 0, STEPS)
        return found | ({"seconds_each": min(found["seconds"][1:]) / batch} if "peak" in found else {})

    def _modelled(self) -> float:
        """From two captures: what a step needs does not all grow with the batch."""
        once, twice = (self._step(batch) for batch in (self.batch, 2 * self.batch))
        return self.batch * largest_batch(once, room(self.limit, 1), twice).plain

    def _step(self, batch: int) -> Any:
        return captured_step(load_bundle(self.pools.profile(self.model, batch) / "bundle")).step

    def _hidden(self, row: Row) -> Row:
        traced = row["copies"]["traced"]
        copied = traced["copied_seconds"]
        alone = 2 * row["away_bytes"]["offload"] / self.copy_rate if self.copy_rate else 0.0
        plain, fitted = row["seconds"]
        return {
            "seconds_each": [plain / self.batch, fitted / self.batch],
            "hidden": traced["beside_kernels_seconds"] / copied if copied else None,
            "copies_alone_seconds": alone or None,
            "hidden_at_least": max(0.0, 1 - max(0.0, fitted - plain) / alone) if alone else None,
        }


def main() -> None:
    """Costs, then batches."""
    with measuring(sys.argv[1:]) as (setting, rows), open_pools(setting.folder, setting.device) as pools:
        sizes, copies = setting.sizes, rows_of(setting.folder, "see").get("copies", {})
        seconds = copies.get("out_seconds") if setting.device == Device.GPU else None
        rate = copies["bytes"] / seconds if seconds else None
        models = [Fitted(pools, name, batch, sizes.pool, rate) for name, batch in sizes.fitted.items()]
        for model in models:
            for share in SHARES:
                steps = 2 + sizes.blocks * sizes.steps
                rows.once(f"cost {model.model} {share}", partial(model.cost, share, steps))
        for model in models:
            rows.once(f"largest {model.model}", model.largest)
            plain: int = rows_of(setting.folder, "fit")[f"largest {model.model}"].get("batch", 0)
            for times, way in product(TIMES, WAYS if plain else ()):
                rows.once(f"{way} {model.model} {times}", partial(model.trial, way, round(times * plain)))


if __name__ == "__main__":
    main()
