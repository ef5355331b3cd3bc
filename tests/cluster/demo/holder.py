"""Holds a network and two tasks until it is interrupted.

Usage: holder.py DIRECTORY namespaces|loopback. Says the ids of the tasks.
"""

import signal
import sys
import time
from pathlib import Path

from tfwave.demo.network import LoopbackNetwork, NamespaceNetwork
from tfwave.demo.processes import Tasks


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind = NamespaceNetwork if sys.argv[2] == "namespaces" else LoopbackNetwork
    with kind(("a", "b"), 1e8) as network, Tasks(network, Path(sys.argv[1])) as tasks:
        started = [tasks.start(host, host, "tests.cluster.demo.link_task") for host in network.hosts]
        for task in started:
            task.request({"do": "print"}, 20)
            task.send({"do": "sleep"})  # from now on it does not notice that its input is closed
        sys.stdout.write(" ".join(str(task.pid) for task in started) + "\n")
        sys.stdout.flush()
        time.sleep(60)


if __name__ == "__main__":
    main()
