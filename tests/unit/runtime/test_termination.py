"""SIGTERM as an orderly end, in a process of its own."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfwave.runtime.termination import exit_on_sigterm

WITHIN = """
import os, signal
from tfwave.runtime.termination import exit_on_sigterm
{before}
try:
    with exit_on_sigterm():
        {within}
finally:
    print("closed", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
print("went on")
"""
TERM = "os.kill(os.getpid(), signal.SIGTERM)"
IGNORED = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.mark.parametrize(
    ("before", "within", "said", "code"),
    [
        ("", TERM, "closed\n", 143),
        ("", f"with exit_on_sigterm(): pass\n        {TERM}", "closed\n", 143),
        ("", "pass", "closed\n", -signal.SIGTERM),
        (IGNORED, TERM, "closed\nwent on\n", 0),
    ],
    ids=["within", "within another", "behind it", "ignored"],
)
def test_what_is_open_is_closed(before: str, within: str, said: str, code: int) -> None:
    program = WITHIN.format(before=before, within=within)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (said, code), done.stderr


def test_it_is_without_effect_outside_the_main_thread() -> None:
    def held() -> object:
        with exit_on_sigterm():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(held).result() == signal.getsignal(signal.SIGTERM)
