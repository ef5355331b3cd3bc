"""What must not be left behind: processes, network namespaces, files, and what a server holds."""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.cluster import wait_until

PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Within the block processes may come; behind it none of them is there, and no file or namespace."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans stay descendants
    spaces, processes, files = namespaces(), descendants(os.getpid()), files_in(folder)
    yield
    wait_until(lambda: descendants(os.getpid()) <= processes)
    assert namespaces() == spaces
    assert files_in(folder) == files


def files_in(folder: Path) -> set[Path]:
    """All below a folder, hidden ones too."""
    return set(folder.rglob("*"))


def namespaces() -> set[str]:
    """Of networks that this process has made: their names say who."""
    return {path.name for path in Path("/run/netns").glob(f"tfwave-{os.getpid()}-*")}


def descendants(ancestor: int) -> set[int]:
    """The processes below one that have not ended."""
    parents = dict(filter(None, map(_parent_of, Path("/proc").glob("[0-9]*/stat"))))
    found, level = set[int](), {ancestor}
    while level := {pid for pid, parent in parents.items() if parent in level}:
        found |= level
    return found


def _parent_of(stat: Path) -> tuple[int, int] | None:
    try:
        state, parent = stat.read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else (int(stat.parent.name), int(parent))


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
