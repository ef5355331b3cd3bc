"""A foreground beside a background on one device, each on a stream of its own, with priorities and without.

Both train in one process, in threads of their own, on two logical devices of one GPU; `process` has the background
in a process of its own, as any other program. Slowdowns are over the foreground alone.
"""

import sys
from functools import partial

from tools.gpu import streams_task
from tools.gpu.part import Row, Setting, measuring, rows_of, told
from tools.gpu.streams_task import ALONE, WAYS

SECONDS = 60.0


def main() -> None:
    """Each way in a process of its own."""
    with measuring(sys.argv[1:]) as (setting, rows):
        for way in WAYS:
            rows.once(way, partial(ran, setting, way))


def ran(setting: Setting, way: str) -> Row:
    """What the process says, with the slowdown of the median step and of the 95th percentile."""
    sizes = setting.sizes
    words = [setting.device, way, str(sizes.window), str(sizes.background), str(sizes.pool)]
    row = told([streams_task.MODULE, *words], SECONDS)
    alone = rows_of(setting.folder, "streams").get(ALONE, row)
    return row | {"slowdown": row["median"] / alone["median"], "slowdown_p95": row["p95"] / alone["p95"]}


if __name__ == "__main__":
    main()
