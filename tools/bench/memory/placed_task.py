"""The process of a trial whose pool serves a step from the places of a plan; else as `fitted_task`.

{"do": "load", ..., "plan": file} installs a plan before the graph is loaded; {"do": "served"} answers what the pool
has counted since (see `PlannedPoolFigures`).
"""

from dataclasses import asdict
from typing import Any

from tfwave.plan.io import load_plan
from tfwave.runtime.allocator import AllocatorSettings, Device
from tfwave.runtime.planned_pool import PlannedPool, open_pool
from tools.bench.memory.fitted_task import FittedTrial
from tools.bench.memory.limited_task import main

MODULE = "tools.bench.memory.placed_task"


class PlacedTrial(FittedTrial):
    """A session on a planned pool."""

    pool: PlannedPool

    def load(self, graph: str, resets: list[str], calls: list[Any], plan: str = "") -> dict[str, object]:
        self.pool.install(load_plan(plan))
        return super().load(graph, resets, calls)

    def served(self) -> dict[str, object]:
        return asdict(self.pool.figures())


def _open(limit: int, device: Device) -> AllocatorSettings:
    PlacedTrial.pool = open_pool(limit)
    return AllocatorSettings(limit, device)


if __name__ == "__main__":
    main(PlacedTrial, _open)
