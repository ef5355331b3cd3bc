"""A reduce of tfwave's against TensorFlow's collective, on hosts of their own with a card of a set rate: root.

Both sum the same array on all hosts, in blocks that take turns. A reduce of tfwave's is `Member.exchange` with
"all": the ring, and the coordinator's verdict. The bound is what each card must send, 2 (n - 1) / n of the array.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tfwave.demo.network import NamespaceNetwork
from tools.bench.interleaved import run_interleaved, wire_seconds

TASK = Path(__file__).with_name("reduce_task.py")
BLOCK_SECONDS = 300


def main() -> None:
    """Print seconds of each mode, and the bound, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each card")
    parser.add_argument("--megabytes", type=float, default=16.0, help="of 2**20 bytes")
    parser.add_argument("--reduces", type=int, default=8, help="in a block; the first does not count")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    hosts = [f"h{i}" for i in range(given.hosts)]
    size = int(given.megabytes * 2**18)
    with NamespaceNetwork(hosts, given.rate) as network:

        def block(mode: str) -> list[float]:
            addresses = ",".join(network.address(host) for host in hosts)
            tasks = [
                subprocess.Popen(
                    [
                        *network.command_prefix(host),
                        *(sys.executable, str(TASK), mode, addresses, str(rank)),
                        *(str(size), str(given.reduces)),
                    ],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                for rank, host in enumerate(hosts)
            ]
            try:
                said = [task.communicate(timeout=BLOCK_SECONDS)[0] for task in tasks]
            finally:
                for task in tasks:
                    task.kill()
            return json.loads(said[0])[1:]

        blocks = run_interleaved(
            {mode: lambda mode=mode: block(mode) for mode in ("tfwave", "tensorflow")}, given.repeats
        )
    bound = wire_seconds([2 * (given.hosts - 1) * size * 4 // given.hosts], given.rate)
    medians = {mode: [statistics.median(times) for times in of_mode] for mode, of_mode in blocks.items()}
    print(json.dumps({"bound_seconds": bound, "median_seconds_of_blocks": medians, "given": vars(given)}))


if __name__ == "__main__":
    main()
