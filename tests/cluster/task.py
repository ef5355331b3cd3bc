"""A process of the test cluster: serves some tasks of one job, says where, and obeys its standard input.

Usage: task.py '{"cluster": {...}, "job": "ps", "tasks": [0], "hooked": true}'
"""

import json
import sys
from typing import Any


def say(**what: Any) -> None:
    sys.stdout.write(f"TASK {json.dumps(what)}\n")
    sys.stdout.flush()


def main() -> None:
    request = json.loads(sys.argv[1])
    import tensorflow as tf

    from tfwave.runtime.server import Server

    if request["hooked"]:
        servers = [Server(request["cluster"], request["job"], task) for task in request["tasks"]]
        say(control=[s.control_address for s in servers])
    else:
        make = tf.distribute.Server
        servers = [
            make(request["cluster"], job_name=request["job"], task_index=task) for task in request["tasks"]
        ]
        say(control=[])
    for line in sys.stdin:
        if line.strip() == "wrap":
            servers = [Server.wrap(server) for server in servers]
            say(control=[s.control_address for s in servers])


if __name__ == "__main__":
    main()
