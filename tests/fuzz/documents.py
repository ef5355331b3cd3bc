"""Files of measurements, with any value in any place: they are read and reckoned with, or refused."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tests.fuzz.damage import damaged
from tests.fuzz.invariants import attempt, memory_limit
from tests.staged import captured, whole
from tfwave.burst.profile import Layer, Profile, read_profile
from tfwave.cost.file import load_costs
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef
from tfwave.staging.capture import read_capture
from tfwave.staging.counts import Counted
from tfwave.stragglers.forecast import choose_terms
from tfwave.stragglers.times import load_times

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2, 10**12, 2**31, 2**63 - 1, 2**63, 2**64, 10**400, 1e-320, 0.5, 1e308, -1e308),
    *(
        float("nan"),
        float("inf"),
        "",
        "a",
        "\0",
        "whole",
        "rows",
        "columns",
        "AQAAAAAAAAA=",
        "AA==",
        "!",
        "9" * 5000,
    ),
    *([], {}, [[]], {"": None}, [0] * 1000),
)
VIEW = verify(GraphItem(GraphDef(node=[NodeDef(name=name, op="NoOp") for name in "ab"])))


def check_documents(rng: random.Random, folder: Path) -> None:
    """One of each kind."""
    for name, (good, check) in KINDS.items():
        path = folder / f"{name}.json"
        path.write_bytes(_spoiled(rng, good))
        with memory_limit():
            check(path)


def check_capture(path: Path) -> None:
    """What is read of a capture can be counted."""
    capture = attempt(lambda: read_capture(path))
    if capture is None:
        return
    counted = attempt(lambda: Counted(capture))
    assert counted is not None, "a capture was read that cannot be counted"
    attempt(lambda: counted.loads(range(2), 1000))
    assert counted.table_bytes > 0


def _check_profile(path: Path) -> None:
    profile = attempt(lambda: read_profile(path))
    if profile is not None:
        assert profile.layers is not None


def _check_times(path: Path) -> None:
    times = attempt(lambda: load_times(path))
    if times is not None:
        assert choose_terms(times).grace > 0


def _check_costs(path: Path) -> None:
    attempt(lambda: load_costs(path, VIEW))


def _spoiled(rng: random.Random, document: Any) -> bytes:
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        document = _with_any(rng, document)
    data = json.dumps(document).encode()
    return damaged(rng, data) if rng.random() < 0.2 else data


def _with_any(rng: random.Random, document: Any) -> Any:
    """The document with any value at one of its places."""
    if not document or not isinstance(document, dict | list) or rng.random() < 0.1:
        return rng.choice(VALUES)
    if isinstance(document, list):
        items = cast("list[Any]", document)
        place = rng.randrange(len(items))
        return [*items[:place], _with_any(rng, items[place]), *items[place + 1 :]]
    fields = cast("dict[str, Any]", document)
    name = rng.choice(sorted(fields))
    if rng.random() < 0.1:
        return {other: value for other, value in fields.items() if other != name}
    return fields | {name: _with_any(rng, fields[name])}


_CAPTURE = captured([whole("t", 10, 4), whole("u", 7, 2, server=1)], [{"t": [1, 2], "u": [3]}] * 3)
_LAYERS = tuple(
    Layer(name=name, reads=reads, weight_bytes=8, output_bytes=4, seconds={1: 0.5})
    for name, reads in (("a", ()), ("b", ("a",)))
)
KINDS: dict[str, tuple[Any, Callable[[Path], None]]] = {
    "capture": (_CAPTURE.model_dump(mode="json"), check_capture),
    "profile": (Profile(model="m", layers=_LAYERS).model_dump(mode="json"), _check_profile),
    "times": ({"0": [0.1, 0.2], "1": [0.3]}, _check_times),
    "costs": ({"ops": {"a": 0.5, "b": 1}, "transfers": {}}, _check_costs),
}
"""What is good, and what is done with what is made of it."""
