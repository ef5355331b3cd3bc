"""A picture, from an empty figure to bytes; the same figure gives the same bytes."""

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfwave.errors import EnvironmentUnsupported, TfwaveError
from tfwave.files import write_whole

_FORMATS = (".png", ".svg")


def check_figure(path: Path) -> None:
    """Refuse, before there is anything to draw, what `save_figure` would refuse whatever it is.

    Raises:
        TfwaveError: neither .png nor .svg.
        EnvironmentUnsupported: matplotlib is not installed.
    """
    if path.suffix.lower() not in _FORMATS:
        raise TfwaveError(f"cannot draw '{path}': its name must end in {' or '.join(_FORMATS)}")
    _import("matplotlib")


def save_figure(draw: Callable[[], Any], path: Path) -> None:
    """Save what is drawn.

    Raises:
        TfwaveError: as `check_figure`, or the file cannot be written.
        EnvironmentUnsupported: as `check_figure`.
    """
    check_figure(path)
    write_whole(path, encoded(draw, path.suffix.lower()[1:]))


def encoded(draw: Callable[[], Any], kind: str = "png") -> bytes:
    """What is drawn, as "png" or "svg".

    Raises:
        EnvironmentUnsupported: matplotlib is not installed.
    """
    matplotlib = _import("matplotlib")
    data = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "tfwave"}):
        draw().savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return data.getvalue()


def new_figure(height: float = 4.5) -> Any:
    """An empty one, of the width that all have; in inches."""
    return _import("matplotlib.figure").Figure(figsize=(9, height), layout="constrained")


def colour_of(share: float) -> Any:
    """From yellow, at 0, to dark violet, at 1."""
    return _import("matplotlib").colormaps["viridis_r"](share)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EnvironmentUnsupported(
            f"drawing needs matplotlib ({error}): python -m pip install 'tfwave[plot]'"
        ) from error
