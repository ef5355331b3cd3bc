"""The ranges of an enforcer's settings."""

import math
import re
from collections.abc import Sequence

from tfwave.errors import EnforcerError

LONGEST_DEADLINE = 1e9

_TASK = re.compile("/job:[A-Za-z][A-Za-z0-9_]*/replica:[0-9]+/task:[0-9]+")
"""As TensorFlow calls one."""


def check_settings(
    deadline_seconds: float | None = None,
    bytes_per_second: float | None = None,
    hooked_tasks: Sequence[str] | None = None,
) -> None:
    """Check settings that are given.

    Raises:
        EnforcerError: a value out of range, or a task that no task is called.
    """
    for task in hooked_tasks or ():
        if "\0" in task:
            raise EnforcerError(f"the hooked task {task!r} has a zero byte in its name")
        if not _TASK.fullmatch(task):
            raise EnforcerError(f"{task!r} is no task: write /job:NAME/replica:N/task:N")
    if deadline_seconds is not None and not 0 < deadline_seconds <= LONGEST_DEADLINE:
        raise EnforcerError(f"a deadline of {deadline_seconds} s is out of range: give 0 < seconds <= 1e9")
    if bytes_per_second is None or bytes_per_second == 0:
        return
    if not (math.isfinite(bytes_per_second) and bytes_per_second >= 1):
        raise EnforcerError(
            f"a rate of {bytes_per_second} bytes/s is out of range: give 0 (no limit) or >= 1"
        )
