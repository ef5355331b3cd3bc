"""Tasks of a demo's network that move bytes or misbehave (`link_task`), and what is left of such processes."""

from pathlib import Path

import pytest

from tests.fork_server import ROOT
from tfwave.demo import namespaces
from tfwave.demo.network import NamespaceNetwork

TASK = "tests.cluster.demo.link_task"
SECONDS = 30.0
"""What they do at once may take so long on a busy machine: half as long as they sleep when they are told to."""
HERE = {"PYTHONPATH": str(ROOT)}
WHY_NOT = NamespaceNetwork.available()
needs_namespaces = pytest.mark.skipif(WHY_NOT is not None, reason=f"no network namespaces: {WHY_NOT}")


def ours(pid: int) -> list[str]:
    return [name for name in namespaces.existing() if name.startswith(f"tfwave-{pid}-")]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
