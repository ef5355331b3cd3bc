"""One program on each host of a network."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tfwave.demo.network import Network


def said_on_hosts(
    network: Network, program: Path, arguments: Callable[[int], Iterable[object]], seconds: float
) -> list[Any]:
    """What each host's process prints as JSON; all are ended after so many seconds.

    Args:
        network: whose hosts there are.
        program: of Python.
        arguments: its own, by the host's number.
        seconds: for each process to end.
    """
    tasks = [
        subprocess.Popen(
            [
                *network.command_prefix(host),
                *(sys.executable, str(program), *map(str, arguments(rank))),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, host in enumerate(network.hosts)
    ]
    try:
        return [json.loads(task.communicate(timeout=seconds)[0]) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
