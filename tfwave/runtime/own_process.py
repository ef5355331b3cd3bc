"""What only another process can be asked: TensorFlow greets on standard error, and what fails there ends it."""

import subprocess
import sys

from tfwave.errors import EnforcerError

_SECONDS = 300


def run_apart(code: str, *arguments: str, does: str) -> "subprocess.CompletedProcess[str]":
    """Run Python code in a process of its own, for which no file of the working directory passes for a module.

    Raises:
        EnforcerError: it has not ended in five minutes; `does` says what TensorFlow has not done then.
    """
    command = [sys.executable, "-P", "-c", code, *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as err:
        raise EnforcerError(
            f"TensorFlow has not {does} in {_SECONDS} s: start again when this machine is less busy"
        ) from err
