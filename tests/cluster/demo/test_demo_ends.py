"""A demo that is told to end in its midst."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.demo.link_processes import is_alive
from tests.waiting import wait_until


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_it_leaves_no_process_and_no_namespace(short_path, number):
    command = [sys.executable, "-m", "tfwave", "demo", "--model", "MobileNet", "--image", "64", "-o"]
    demo = subprocess.Popen(
        [*command, str(short_path / "run")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    logs = short_path / "run" / "logs"
    wait_until((logs / "worker0.log").exists, 200)
    time.sleep(4)
    children = descendants(demo.pid)
    assert children
    demo.send_signal(number)
    demo.communicate(timeout=30)
    assert demo.returncode not in (0, 2)
    assert not any(map(is_alive, children))
    names = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=False).stdout
    assert f"-{demo.pid}-" not in names


def descendants(pid: int) -> list[int]:
    found = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and parent_of(entry) == pid]
    return found + [d for child in found for d in descendants(child)]


def parent_of(pid: str) -> int:
    try:
        return int(Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0
