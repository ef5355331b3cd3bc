"""The resident memory of processes, as Linux tells of it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path


def resident(field: str, pid: int | str = "self") -> int:
    """Resident bytes of a process, now (VmRSS) or at most (VmHWM): unlike ru_maxrss, not its parent's."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(rf"{field}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found is None:
        sys.exit(f"this benchmark needs Linux: {status} says nothing of memory")
    return int(found[1]) * 1024


def peak_bytes_of(call: Callable[[], object]) -> int:
    """What it takes at most, in this process, over what there was before."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets what was the most so far
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before
