"""The plan of co-located jobs."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from tfwave.memory.colocation import Colocation
from tfwave.plan.groups import nothing_done
from tfwave.report.drawn.figure import new_figure
from tfwave.sizes import MIB


def colocation_figure(plan: Colocation) -> Any:
    """What each job holds in each slot, one above the other, at most, and the limit.

    Raises:
        EnvironmentUnsupported: matplotlib is not installed.
    """
    figure = new_figure()
    axes = figure.subplots()
    slots = list(range(len(plan.slots)))
    below = [0.0] * len(slots)
    for job, held in _held(plan):
        mebibytes = [each / MIB for each in held]
        axes.bar(slots, mebibytes, bottom=below, width=1.0, align="edge", label=job, edgecolor="white")
        below = [sum(both) for both in zip(below, mebibytes, strict=True)]
    limit = plan.limit_bytes / MIB
    axes.axhline(limit, linestyle="--", color="black", label=f"limit {limit:.1f} MiB")
    axes.set(xlabel="slot", ylabel="MiB", title="what each job holds at most", ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(loc="outside right upper")
    return figure


def _held(plan: Colocation) -> Iterator[tuple[str, list[int]]]:
    """Of each job, by slot, the most bytes that it holds."""
    starts = nothing_done(plan.jobs)
    for job in plan.jobs:
        runs = [any(turn.job == job.name for turn in slot) for slot in plan.slots]
        done = list(accumulate(runs, initial=starts[job.name]))
        yield (
            job.name,
            [
                job.resident + job.held[before] + (job.groups[before].transient if running else 0)
                for before, running in zip(done, runs, strict=False)
            ],
        )
