"""The hand-offs of a run as a file: what the hooks logged, by mode."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tfwave.bundle.bundle import malformed
from tfwave.errors import BundleError
from tfwave.files import read_file, write_whole
from tfwave.report.conformance import HandOff

HAND_OFFS_FILE = "handoffs.json"
MODES = ("unordered", "ordered")

_RUN = TypeAdapter(dict[str, list[HandOff]])


def save_run(directory: Path, hand_offs: Mapping[str, Iterable[HandOff]]) -> None:
    """Write ``handoffs.json``: by mode, a list of [step, channel, rank, reason] in the order they went."""
    text = json.dumps({mode: list(of_mode) for mode, of_mode in hand_offs.items()})
    write_whole(directory / HAND_OFFS_FILE, f"{text}\n".encode())


def load_run(directory: Path) -> dict[str, list[HandOff]]:
    """Read a run's hand-offs.

    Raises:
        BundleError: there are none, or the file is malformed; names it.
    """
    path = directory / HAND_OFFS_FILE
    try:
        run = _RUN.validate_json(read_file(path))
    except OSError as error:
        raise BundleError(
            f"'{directory}' is not a run: {HAND_OFFS_FILE}: {error.strerror}: give what `tfwave demo -o` wrote"
        ) from error
    except ValidationError as error:
        raise malformed(path, error) from error
    if set(run) != set(MODES):
        raise BundleError(f"'{path}' is malformed: it must hold the modes {' and '.join(MODES)}")
    return run
