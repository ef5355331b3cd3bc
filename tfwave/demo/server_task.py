"""A TensorFlow server as a task of a demo, until its standard input is closed.

Asked {"cluster": {job: [address]}, "job": str, "task": int, "enforcer": str or null, "control": address or null},
it serves with that enforcer, or as stock TensorFlow does, and answers {"ready": true, "control": address or null}.
It has the CPU devices that a "device" needs which it is asked for.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfwave.demo.child import Channel
from tfwave.demo.model import server_config
from tfwave.errors import EnforcerError
from tfwave.runtime.control.address import UNIX

MODULE = "tfwave.demo.server_task"

_SOCKET_PATH_BYTES = 107


def control_address(directory: Path, job: str, task: int) -> str:
    """Where the hook of a task is controlled: a socket in the directory, reachable from every host.

    Raises:
        EnforcerError: the path is longer than the system allows.
    """
    path = directory.absolute() / f"{job}{task}.sock"
    if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
        raise EnforcerError(f"socket path '{path}' is too long: choose a run directory with a shorter name")
    return f"{UNIX}{path}"


def request_of(
    cluster: Mapping[str, Sequence[str]], place: tuple[str, int], directory: Path, enforcer: str | None
) -> dict[str, Any]:
    """What to ask the task at a place, a job and its number; its control is in the directory, if it has one.

    Raises:
        EnforcerError: as `control_address`.
    """
    job, task = place
    control = control_address(directory, job, task) if enforcer else None
    return {"cluster": cluster, "job": job, "task": task, "enforcer": enforcer, "control": control}


def main() -> None:
    """Serve."""
    channel = Channel()
    request = next(channel.requests())
    server, control = _start(request)
    channel.say(ready=True, control=control)
    channel.wait()
    del server  # until here it is alive
    os._exit(0)  # a TensorFlow server ends with its process only


def _start(request: dict[str, Any]) -> tuple[object, str | None]:
    cluster, job, task = request["cluster"], request["job"], request["task"]
    config = server_config(request.get("device", "CPU:0"))
    if request["enforcer"] is None:
        tensorflow: Any = __import__("tensorflow")
        return tensorflow.distribute.Server(cluster, job_name=job, task_index=task, config=config), None
    from tfwave.runtime.server import Server

    enforcer, control = request["enforcer"], request["control"]
    server = Server(cluster, job, task, enforcer=enforcer, control=control, config=config)
    return server, server.control_address


if __name__ == "__main__":
    main()
