"""The most that two waves, and jobs side by side, take of one memory, and their peaks: no time is measured.

So all models are tried beside each other, each process with a limit of its own. The trials are kept, and the parts
that measure throughputs take them up.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tools.gpu import jobs, waves
from tools.gpu.part import Rows, Setting, measuring
from tools.gpu.sizes import Sizes

AT_ONCE = 4
"""A GPU of 80 GB has room for so many of the pools that a model is profiled in."""


def main() -> None:
    """Each model, and each set of jobs, in a thread of its own."""
    with measuring(sys.argv[1:]) as (setting, rows), ThreadPoolExecutor(AT_ONCE) as threads:
        for made in [threads.submit(each, setting, rows) for each in pieces(setting.sizes)]:
            made.result()


def pieces(sizes: Sizes) -> list[partial[None]]:
    """What runs beside each other, given a setting and its rows. Jobs first: they take longest."""
    return [
        *(partial(of_jobs, models) for models in sizes.jobs),
        *(partial(of_waves, model) for model in sizes.waves),
    ]


def of_waves(model: str, setting: Setting, rows: Rows) -> None:
    """Batches, then the peaks."""
    with waves.opened(setting, model) as bench:
        rows.once(f"waves {model}", partial(bench.most, model))
        rows.once(f"peaks {model}", bench.peaks)


def of_jobs(models: str, setting: Setting, rows: Rows) -> None:
    """The largest share of each mode."""
    with jobs.opened(setting, models) as bench:
        rows.once(f"jobs {models}", partial(bench.shares, models, setting.sizes.pool))


if __name__ == "__main__":
    main()
