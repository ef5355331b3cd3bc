"""What the cores of this machine did."""

import os
from pathlib import Path

_STAT = Path("/proc/stat")
_WORKING = (0, 2, 5, 6)
"""These of the kernel's columns are work: user, system, and both kinds of interrupts."""


def busy_seconds() -> float | None:
    """Core seconds that all processes have worked since the machine started, but for those of low priority (nice).

    None where the kernel does not tell.
    """
    try:
        columns = _STAT.read_text().partition("\n")[0].split()[1:]
    except OSError:
        return None
    return sum(int(columns[i]) for i in _WORKING) / os.sysconf("SC_CLK_TCK")
