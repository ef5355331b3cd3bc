"""The memory curve of a step."""

from collections.abc import Mapping
from typing import Any

from tfwave.graph.names import short_device
from tfwave.memory.step import StepMemory
from tfwave.report.drawn.figure import new_figure
from tfwave.sizes import MIB


def step_figure(memory: StepMemory, marks: Mapping[str, float] | None = None) -> Any:
    """What a step holds over its time, and what of it is resident; `marks` are moments in it, in seconds.

    Raises:
        EnvironmentUnsupported: matplotlib is not installed.
    """
    figure = new_figure()
    axes = figure.subplots()
    points = memory.curve_to_end
    milliseconds = [seconds * 1e3 for seconds, _ in points]
    mebibytes = [held / MIB for _, held in points]
    resident, average = memory.profile.resident / MIB, memory.average / MIB
    axes.fill_between(milliseconds, mebibytes, step="post", alpha=0.3)
    axes.step(milliseconds, mebibytes, where="post")
    axes.axhline(resident, linestyle="--", color="gray", label=f"resident {resident:.1f} MiB")
    axes.axhline(average, linestyle=":", color="black", label=f"average {average:.1f} MiB")
    peak = memory.profile.peak / MIB
    axes.plot([memory.begins[memory.peak_op] * 1e3], [peak], "o", label=f"peak {peak:.1f} MiB")
    for name, seconds in (marks or {}).items():
        axes.axvline(seconds * 1e3, color="tab:red", label=name)
    title = f"what a step holds on {short_device(memory.profile.device)}"
    axes.set(xlabel="ms", ylabel="MiB", title=title, ylim=(0, None))
    axes.legend()
    return figure
