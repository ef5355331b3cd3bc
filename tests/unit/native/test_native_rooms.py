"""The rooms of the native library: which may include which, and that TensorFlow is in one of them only."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.native.native_program import NATIVE

BELOW = {
    "base": set[str](),
    "order": {"base"},
    "pool": {"base"},
    "exchange": {"base"},
    "process": {"base", "order", "pool", "exchange"},
}
"""By room those that it may include, beside itself."""
CORES = sorted(BELOW.keys() - {"process"})
"""They are tested by programs of their own, without TensorFlow."""
OF_TENSORFLOW = ("tensorflow/", "tsl/", "xla/", "absl/", "google/")


def _includes(room: str) -> Iterator[tuple[Path, str]]:
    for path in sorted((NATIVE / room).iterdir()):
        for included in re.findall(r'^#include ["<](.+)[">]$', path.read_text(), re.MULTILINE):
            yield path, included


def test_each_source_is_in_a_room() -> None:
    assert {path.parent.name for path in NATIVE.rglob("*.cc")} <= BELOW.keys()
    assert {path.parent.name for path in NATIVE.rglob("*.h")} <= BELOW.keys()


@pytest.mark.parametrize("room", BELOW)
def test_a_room_includes_only_rooms_below(room: str) -> None:
    ours = [(path, included) for path, included in _includes(room) if (NATIVE / included).is_file()]
    assert ours
    for path, included in ours:
        assert included.partition("/")[0] in BELOW[room] | {room}, f"{path} includes {included}"


@pytest.mark.parametrize("room", CORES)
def test_a_core_knows_no_tensorflow(room: str) -> None:
    found = list(_includes(room))
    assert found
    for path, included in found:
        assert not included.startswith(OF_TENSORFLOW), f"{path} includes {included}"
