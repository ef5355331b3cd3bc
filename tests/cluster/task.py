"""A process of the test cluster: serves some tasks of one job, says where their control is, and obeys.

Usage: python -m tests.cluster.task '{"cluster": {...}, "job": "ps", "tasks": [0], "enforcer": "hook"}'
The enforcer is "hook" or "proxy"; null is a stock server, which can be hooked later. "control" may say where its
control is to be, and "cpus" how many CPU devices it has.
"""

import json
import sys
from typing import Any

from tests.cluster.speaker import obey, say


def main() -> None:
    request = json.loads(sys.argv[1])
    servers = [serve(request, task) for task in request["tasks"]]
    say([server.control_address for server in servers] if request["enforcer"] else [])

    def wrap() -> list[str]:
        from tfwave.runtime.server import Server

        servers[:] = map(Server.wrap, servers)
        return [server.control_address for server in servers]

    obey({"wrap": wrap})


def serve(request: Any, task: int) -> Any:
    import tensorflow as tf

    cluster, job, enforcer = request["cluster"], request["job"], request["enforcer"]
    if enforcer is None:
        return tf.distribute.Server(cluster, job_name=job, task_index=task)

    from tfwave.runtime.server import DEFAULT_CONTROL, Server

    config = tf.compat.v1.ConfigProto(device_count={"CPU": request.get("cpus", 1)})
    control = request.get("control", DEFAULT_CONTROL)
    return Server(cluster, job, task, enforcer=enforcer, control=control, config=config)


if __name__ == "__main__":
    main()
