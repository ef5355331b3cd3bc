"""What the fault suite looks for behind each scene is found, if it is there."""

import subprocess
import threading
from pathlib import Path

import pytest

from tests.faults.leftovers import nothing_left

SOON = 0.2


def test_what_has_gone_is_not_left(tmp_path: Path) -> None:
    with nothing_left(tmp_path):
        (tmp_path / "file").touch()
        subprocess.run(["true"], check=True)
        thread = threading.Thread(target=(tmp_path / "file").unlink)
        thread.start()
        thread.join()


def test_a_file_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), nothing_left(tmp_path, SOON):
        (tmp_path / ".hidden").touch()


def test_a_process_is_found_also_an_orphan(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), nothing_left(tmp_path, SOON):
        said = subprocess.run(
            ["sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True
        )
    subprocess.run(["kill", said.stdout.strip()], check=True)


def test_a_thread_is_found(tmp_path: Path) -> None:
    ends = threading.Event()
    with pytest.raises(AssertionError), nothing_left(tmp_path, SOON):
        threading.Thread(target=ends.wait).start()
    ends.set()
