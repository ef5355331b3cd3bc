"""`python -m tfwave.runtime.lowest PARENT TOLD COMMAND...`: a program that takes only what all others leave.

It becomes that program once three things are done, none of which needs root:

1. All its threads are of the policy SCHED_IDLE: they run where no other thread of their group wants the core.
2. Groups share the cores as equals, whatever is in them. Where the kernel makes one of each session (autogroup),
   that of this session gets the lowest weight (nice 19), so it has to be a session of its own.
3. Where memory runs out, the kernel ends it first.

Before that it is bound to end with its parent, or with the parent's thread that started it, and closes the file
number TOLD to say so.
"""

import os
import sys
import time
from pathlib import Path

from tfwave.runtime.termination import bind_to

_OWN = Path("/proc/self")
_ENABLED = Path("/proc/sys/kernel/sched_autogroup_enabled")
_AUTOGROUP_SECONDS = 2.0
"""The kernel lets users set one weight in a tenth of a second; others may be first."""


def lower() -> str:
    """Do the three things; what came of them, in words.

    Raises:
        OSError: the first is not allowed here.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    (_OWN / "oom_score_adj").write_text("1000")
    return f"SCHED_IDLE; {_autogroup()}{_cgroup()}"


def _autogroup() -> str:
    if not _ENABLED.is_file() or _ENABLED.read_text().strip() != "1":
        return "no autogroups"
    end = time.monotonic() + _AUTOGROUP_SECONDS
    while True:
        try:
            (_OWN / "autogroup").write_text("19")
            return f"autogroup {(_OWN / 'autogroup').read_text().strip()}"
        except BlockingIOError:
            if time.monotonic() > end:
                return "its autogroup is as heavy as any: sessions beside it may be slowed"
            time.sleep(0.05)


def _cgroup() -> str:
    """Of version 1 that of the cpu controller, else that of version 2."""
    lines = [line.split(":", 2) for line in (_OWN / "cgroup").read_text().splitlines()]
    paths = [path for _, names, path in lines if "cpu" in names.split(",")]
    paths += [path for _, names, path in lines if not names]
    if paths and paths[0] != "/":
        return f"; in the cgroup {paths[0]}: what is outside shares the cores by the weights of cgroups"
    return ""


def _end_with(parent: int, told: int) -> None:
    if not bind_to(parent):
        sys.exit("tfwave: the foreground has ended before its background began")
    os.close(told)


def main() -> None:
    """Become the program."""
    parent, told, *command = sys.argv[1:]
    _end_with(int(parent), int(told))
    try:
        said = lower()
    except OSError as error:
        sys.stderr.write(f"tfwave: error: no process can be made to go behind all others here ({error})\n")
        sys.exit(2)
    sys.stderr.write(f"tfwave: background process {os.getpid()}: {said}\n")
    sys.stderr.flush()
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
