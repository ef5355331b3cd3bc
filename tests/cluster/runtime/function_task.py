"""A hooked task of a parameter-server cluster: serves, and answers commands on its standard input.

Usage: python -m tests.cluster.runtime.function_task JSON
JSON is {"cluster": {...}, "job": "ps", "task": 0, "hooked_tasks": [...]}
Each line in is {"do": name, ...arguments}; each line out is "TASK " and the answer as JSON.
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from google.protobuf.json_format import MessageToDict

from tests.cluster.speaker import obey, say

TCP_NOTSENT_LOWAT = 25


def main() -> None:
    request = json.loads(sys.argv[1])
    import tensorflow as tf

    from tfwave.runtime.hook import Hook
    from tfwave.runtime.server import PROTOCOL

    hook = Hook()
    hook.configure(hooked_tasks=request["hooked_tasks"])
    server = tf.distribute.Server(
        request["cluster"], job_name=request["job"], task_index=request["task"], protocol=PROTOCOL
    )
    say(server.target)
    port = int(server.target.rpartition(":")[2])
    obey(_commands(hook) | {"unsent": lambda: _unsent(port)})


def _unsent(port: int) -> list[list[int]]:
    """What TCP sockets take that cannot be sent yet: connections to a port of this process, and all others."""
    found: list[list[int]] = [[], []]
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as copy:
                limit = copy.getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT)
                listens = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                found[listens or copy.getsockname()[1] != port].append(limit)
        except OSError:
            continue  # no TCP socket
    return found


def _commands(hook: Any) -> dict[str, Callable[..., Any]]:
    from tests.plans import plan_by_hand
    from tfwave.graph.names import Channel

    def install(plans: dict[str, list[tuple[str, str, list[str]]]], window_bytes: int = 0) -> None:
        hook.install(
            {
                function: plan_by_hand(
                    {Channel(source, to): edges for source, to, edges in orders}, window_bytes
                )
                for function, orders in plans.items()
            }
        )

    def as_json(message: Any) -> Any:
        return MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    return {
        "install": install,
        "configure": hook.configure,
        "remove": hook.remove,
        "counters": lambda: as_json(hook.status().counters),
        "hand_offs": lambda: as_json(hook.hand_offs()),
        "log_arrivals": hook.log_arrivals,
        "arrivals": lambda: [asdict(arrival) for arrival in hook.arrivals().arrivals],
    }


if __name__ == "__main__":
    main()
