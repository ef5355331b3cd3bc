"""Files are written whole or not at all."""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tfwave.files
from tfwave.errors import TfwaveError
from tfwave.files import whole_directory, write_whole


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """As on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_failed_write_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"before")
    with files_of_at_most(1000):
        for file in (old, new):
            with pytest.raises(TfwaveError, match=f"cannot write '{file}'"):
                write_whole(file, bytes(5000))
    assert [(f.name, f.read_bytes()) for f in tmp_path.iterdir()] == [("old", b"before")]


@pytest.mark.parametrize(("mask", "file", "directory"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_what_is_written_has_the_permissions_of_the_umask(
    mask: int, file: int, directory: int, tmp_path: Path
) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "file", b"")
        with whole_directory(tmp_path / "directory"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == file
    assert (tmp_path / "directory").stat().st_mode & 0o777 == directory


def test_a_failed_directory_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "old").write_bytes(b"before")
    with (
        files_of_at_most(1000),
        pytest.raises(TfwaveError, match="cannot write"),
        whole_directory(place) as target,
    ):
        (target / "new").write_bytes(bytes(5000))
    assert [f.name for f in tmp_path.iterdir()] == ["place"]
    assert [(f.name, f.read_bytes()) for f in place.iterdir()] == [("old", b"before")]


def test_an_earlier_directory_is_never_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It and the new one change places at once: nothing is moved away before."""
    place = tmp_path / "place"
    place.mkdir()
    probe = tmp_path / "probe"
    probe.mkdir()
    if not tfwave.files._exchange(place, probe):
        pytest.skip("this file system cannot exchange two directories")
    probe.rmdir()
    monkeypatch.delattr(Path, "replace")
    with whole_directory(place) as target:
        (target / "new").write_bytes(b"after")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "place"]


def test_an_earlier_directory_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file system cannot exchange two."""
    place, replace = tmp_path / "place", Path.replace
    place.mkdir()
    (place / "old").write_bytes(b"before")

    def fails_for_the_new(self: Path, target: Path) -> Path:
        if target == place and not self.name.endswith(".old"):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(tfwave.files, "_exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "replace", fails_for_the_new)
    with pytest.raises(TfwaveError, match="No space left"), whole_directory(place) as target:
        (target / "new").write_bytes(b"after")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["old", "place"]
