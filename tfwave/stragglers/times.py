"""Measured step times of each worker: their file, and as many workers as are asked for."""

import json
import random
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

from tfwave.errors import CostError
from tfwave.files import read_file

Times = Mapping[str, tuple[float, ...]]
"""The seconds of the steps that were measured, by worker."""

SHORTEST, LONGEST = 1e-9, 1e6
"""Seconds of a step: a nanosecond, and eleven days."""


def load_times(path: Path) -> Times:
    """Read a JSON object that has a list of seconds for each worker.

    Raises:
        CostError: it cannot be read, has no worker, or names a worker whose times are no times of steps.
    """
    try:
        found: Any = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError) as error:
        raise CostError(f"cannot read step times from '{path}': {error}") from error
    if not isinstance(found, dict) or not found:
        raise CostError(f"'{path}' has no step times: expected {{\"worker\": [seconds, ...], ...}}")
    workers = cast("dict[str, Any]", found)
    return {name: _seconds(name, value) for name, value in sorted(workers.items())}


def _seconds(name: str, value: Any) -> tuple[float, ...]:
    given = cast("list[Any]", value) if isinstance(value, list) else []
    if not given or not all(_is_time(one) for one in given):
        raise CostError(
            f"the step times of worker '{name}' must be a list of seconds, "
            f"each from {SHORTEST:g} to {LONGEST:g}"
        )
    return tuple(map(float, given))


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and SHORTEST <= value <= LONGEST


def those_of(times: Times, workers: int) -> Times:
    """What so many workers go by: all that was measured, or the first ones of it."""
    return dict(islice(times.items(), workers))


def measured_of(times: Times, worker: int) -> tuple[float, ...]:
    """What one of any number of workers goes by: the measured ones are taken in turn."""
    measured = list(times.values())
    return measured[worker % len(measured)]


def draws(times: Times, worker: int, seed: int) -> Iterator[float]:
    """Endless step times of one of any number of workers, drawn from what it goes by."""
    chance = random.Random(f"{seed}/{worker}")  # noqa: S311
    measured = measured_of(times, worker)
    while True:
        yield chance.choice(measured)
