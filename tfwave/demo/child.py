"""The task's side of a process that `tfwave.demo.processes` started.

Run as `python -m tfwave.demo.child MODULE`, it runs the module as `python -m MODULE` would, but in a process
that the kernel kills when its parent dies.
"""

import json
import os
import runpy
import sys
from collections.abc import Iterator
from typing import Any

from tfwave.runtime.termination import bind_to

PARENT = "TFWAVE_PARENT_PID"


class Channel:
    """Requests from the parent and answers to it: JSON objects, one a line, on standard input and output.

    What others print goes to standard error from then on, so make it before TensorFlow is imported.
    """

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def requests(self) -> Iterator[dict[str, Any]]:
        """What the parent asks, until it closes the channel."""
        for line in sys.stdin:
            yield json.loads(line)

    def say(self, **answer: object) -> None:
        """Answer a request."""
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def wait(self) -> None:
        """Return when the parent closes the channel; what it asks until then is not answered."""
        for _ in sys.stdin:
            pass


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends (Linux)."""
    if not bind_to(int(os.environ.get(PARENT, os.getppid()))):
        os._exit(1)


def main() -> None:
    """Run the module that the command line names."""
    die_with_parent()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
