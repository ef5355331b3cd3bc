"""Files are written whole or not at all."""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
