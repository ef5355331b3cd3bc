"""A background that is to get on while others keep the machine busy."""

from pathlib import Path


def spare(pid: int) -> None:
    """Give the background's session its full weight, where this user may; its threads stay SCHED_IDLE."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text("0")
    except OSError:
        return
