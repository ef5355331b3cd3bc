"""What must not be left behind: processes, threads, network namespaces and files."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import wait_until

PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def nothing_left(folder: Path, seconds: float = 60) -> Iterator[None]:
    """What comes within the block is gone so many seconds behind it, files and namespaces at once."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans stay descendants
    files, spaces, running = files_in(folder), namespaces(), processes_and_threads()
    yield
    assert files_in(folder) == files
    assert namespaces() == spaces
    wait_until(lambda: processes_and_threads() <= running, seconds)


def files_in(folder: Path) -> set[Path]:
    """All below a folder, hidden ones too."""
    return set(folder.rglob("*"))


def namespaces() -> set[str]:
    """Of networks that this process has made: their names say who."""
    return {path.name for path in Path("/run/netns").glob(f"tfwave-{os.getpid()}-*")}


def processes_and_threads() -> set[int | threading.Thread]:
    """The processes below this one that have not ended, and its own Python threads."""
    parents = dict(filter(None, map(_parent_of, Path("/proc").glob("[0-9]*/stat"))))
    found, level = set[int](), {os.getpid()}
    while level := {pid for pid, parent in parents.items() if parent in level}:
        found |= level
    return {*found, *threading.enumerate()}


def _parent_of(stat: Path) -> tuple[int, int] | None:
    try:
        state, parent = stat.read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else (int(stat.parent.name), int(parent))
