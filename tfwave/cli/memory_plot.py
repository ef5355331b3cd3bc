"""The memory curve of a step as a picture."""

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfwave.cli.output import short_device
from tfwave.errors import EnvironmentUnsupported, TfwaveError
from tfwave.files import write_whole
from tfwave.memory.step import StepMemory

_FORMATS = (".png", ".svg")
_MEBIBYTE = 2**20


def save_plot(memory: StepMemory, path: Path) -> None:
    """Draw what a step holds over its time, and what of it is resident.

    Raises:
        TfwaveError: neither .png nor .svg, or the file cannot be written.
        EnvironmentUnsupported: matplotlib is not installed.
    """
    save_figure(lambda: _figure(memory), path)


def save_figure(draw: Callable[[], Any], path: Path) -> None:
    """Save what is drawn: the same figure, the same bytes.

    Raises:
        TfwaveError: neither .png nor .svg, or the file cannot be written.
        EnvironmentUnsupported: matplotlib is not installed.
    """
    if path.suffix.lower() not in _FORMATS:
        raise TfwaveError(f"cannot draw '{path}': its name must end in {' or '.join(_FORMATS)}")
    matplotlib = _import("matplotlib")
    data = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "tfwave"}):
        figure = draw()
        kind = path.suffix.lower()[1:]
        figure.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, data.getvalue())


def new_figure() -> Any:
    """An empty one, of the size that all have."""
    return _import("matplotlib.figure").Figure(figsize=(9, 4.5), layout="constrained")


def _figure(memory: StepMemory) -> Any:
    figure = new_figure()
    axes = figure.subplots()
    points = [*memory.curve, (memory.seconds, memory.curve[-1][1])]
    milliseconds = [seconds * 1e3 for seconds, _ in points]
    mebibytes = [held / _MEBIBYTE for _, held in points]
    resident, average = memory.profile.resident / _MEBIBYTE, memory.average / _MEBIBYTE
    axes.fill_between(milliseconds, mebibytes, step="post", alpha=0.3)
    axes.step(milliseconds, mebibytes, where="post")
    axes.axhline(resident, linestyle="--", color="gray", label=f"resident {resident:.1f} MiB")
    axes.axhline(average, linestyle=":", color="black", label=f"average {average:.1f} MiB")
    peak = memory.profile.peak / _MEBIBYTE
    axes.plot([memory.begins[memory.peak_op] * 1e3], [peak], "o", label=f"peak {peak:.1f} MiB")
    title = f"what a step holds on {short_device(memory.profile.device)}"
    axes.set(xlabel="ms", ylabel="MiB", title=title, ylim=(0, None))
    axes.legend()
    return figure


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EnvironmentUnsupported(
            f"drawing needs matplotlib ({error}): python -m pip install 'tfwave[plot]', or leave --plot out"
        ) from error
