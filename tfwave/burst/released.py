"""The tables that DeepPool's authors released, `*.prof`: a line for each layer and batch.

``name{parameters as JSON}[batch]input shape  milliseconds  forward us  backward us``

There are several runs one after the other; the last one of each batch counts. They tell no edges, so only chains
can be planned from them. In VGG's the backward time of a convolution stands with its ReLU, so the two are one.
"""

import itertools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tfwave.burst.profile import Layer, Profile, read_profile
from tfwave.errors import CostError
from tfwave.files import read_file

_SUFFIX = ".prof"
_ROW = re.compile(r"\s*(\w+)(\{.*\})\[(\d+)\](\[[\d,]+\]|\d+)\s+[\d.]+\s+(\d+)\s+(\d+)\s*")
_FLOAT = 4


@dataclass(frozen=True)
class _Row:
    """One line: a layer of one batch in one run."""

    name: str
    parameters: dict[str, Any]
    shape: tuple[int, ...]
    seconds: float

    @property
    def inputs(self) -> int:
        """Numbers of a sample that it reads."""
        return math.prod(self.shape)

    @property
    def what(self) -> tuple[Any, ...]:
        """What it computes: the same in each run and batch."""
        return self.name, sorted(self.parameters.items(), key=str), self.shape


def profile_at(path: Path) -> Profile:
    """One of theirs, by its name, or one of `Profile.write`.

    Raises:
        CostError: it cannot be read, or is neither.
    """
    return read_released(path) if path.suffix == _SUFFIX else read_profile(path)


def read_released(path: Path) -> Profile:
    """The last run of each batch as a profile of a chain.

    Raises:
        CostError: it cannot be read, has no such lines, or is not a table of one chain; names the layer.
    """
    try:
        lines = read_file(path).decode(errors="replace").splitlines()
    except OSError as error:
        raise CostError(f"cannot read profile '{path}': {error.strerror}") from error
    runs = _last_runs(lines)
    if not runs:
        raise CostError(f"profile '{path}' has no line of a layer, as name{{...}}[batch]shape ms us us")
    batches = sorted(runs)
    model = runs[batches[0]]
    for batch in batches:
        if [row.what for row in runs[batch]] != [row.what for row in model]:
            raise CostError(f"profile '{path}' has other layers for batch {batch} than for {batches[0]}")
    _check_chain(path, model)
    groups = _groups(model)
    layers: list[Layer] = []
    for number, (begin, end) in enumerate(groups):
        output = model[end].inputs if end < len(model) else model[begin].inputs
        times = {batch: sum(row.seconds for row in runs[batch][begin:end]) for batch in batches}
        layers.append(
            Layer(
                name=f"{model[begin].name}_{number}",
                reads=(layers[-1].name,) if layers else (),
                output_bytes=output * _FLOAT,
                weight_bytes=_weights(model[begin]) * _FLOAT,
                seconds=times,
            )
        )
    return Profile(model=path.name, layers=tuple(layers))


def _last_runs(lines: list[str]) -> dict[int, list[_Row]]:
    """The rows of the last run of each batch; a run ends where a line is none of a layer, or of another batch."""
    runs: dict[int, list[_Row]] = {}
    before: int | None = None
    for line in lines:
        found = _ROW.fullmatch(line)
        if found is None:
            before = None
            continue
        batch = int(found[3])
        if batch != before:
            runs[batch] = []
        before = batch
        runs[batch].append(_row(found))
    return runs


def _row(found: re.Match[str]) -> _Row:
    try:
        parameters: dict[str, Any] = json.loads(found[2])
        shape: Any = json.loads(found[4])
    except ValueError as error:
        raise CostError(f"the profile's line of '{found[1]}' has no JSON in its braces: {error}") from error
    seconds = (int(found[5]) + int(found[6])) / 1e6
    return _Row(found[1], parameters, tuple(_listed(shape)), seconds)


def _listed(value: Any) -> list[int]:
    return cast("list[int]", value) if isinstance(value, list) else [value]


def _groups(rows: list[_Row]) -> list[tuple[int, int]]:
    """Rows that are one layer: each, with the ReLU behind it."""
    begins = [i for i, row in enumerate(rows) if i == 0 or not row.name.startswith("ReLU")]
    return list(zip(begins, [*begins[1:], len(rows)], strict=True))


def _check_chain(path: Path, rows: list[_Row]) -> None:
    for row, after in itertools.pairwise(rows):
        channels = _channels(row)
        if channels is not None and after.shape[0] != channels:
            raise CostError(
                f"profile '{path}' is of a model with branches: a {row.name} of {channels} channels is before a "
                f"{after.name} that reads {after.shape[0]}, and the table does not say who reads what; "
                "profile the model with tfwave burst profile"
            )


def _channels(row: _Row) -> int | None:
    if row.name == "conv2d":
        return int(row.parameters["out_channels"])
    if row.name == "linear":
        return int(row.parameters["out_features"])
    if row.name == "ResnetBottleneck":
        return int(row.parameters["planes"]) * 4
    return None if row.name == "flatten" else row.shape[0]


def _weights(row: _Row) -> int:
    """Numbers in its weights; biases and normalisation are left out."""
    of = row.parameters
    if row.name == "conv2d":
        size = of["kernel_size"]
        kernel = math.prod(_listed(size)) if isinstance(size, list) else size**2
        return int(of["in_channels"] * of["out_channels"] * kernel)
    if row.name == "linear":
        return int(of["in_features"] * of["out_features"])
    if row.name == "ResnetBottleneck":
        wide = of["planes"] * of["base_width"] // 64 * of["groups"]
        down = of["inplanes"] * of["planes"] * 4 if "downsampleParams" in of else 0
        return int(of["inplanes"] * wide + wide * wide * 9 // of["groups"] + wide * of["planes"] * 4 + down)
    return 0
