"""A reduce of tfwave's against TensorFlow's collective, on hosts of their own with a card of a set rate: root.

Both sum the same array on all hosts, in blocks that take turns. A reduce of tfwave's is `Member.exchange` with
"all": the ring, and the coordinator's verdict. The bound is what each card must send, 2 (n - 1) / n of the array.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo.network import NamespaceNetwork
from tools.bench.hosts import said_on_hosts
from tools.bench.interleaved import run_interleaved, wire_seconds

TASK = Path(__file__).with_name("reduce_task.py")
MODES = ("tfwave", "tensorflow")
BLOCK_SECONDS = 300


def main() -> None:
    """Print seconds of each mode, and the bound, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each card")
    parser.add_argument("--bytes", type=int, nargs="+", default=[1 << 24], help="of the array, each in turn")
    parser.add_argument("--reduces", type=int, default=7, help="of each size in a block, after one more")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    hosts = [f"h{i}" for i in range(given.hosts)]
    with NamespaceNetwork(hosts, given.rate) as network:
        blocks = run_interleaved(
            {mode: lambda mode=mode: block(network, mode, given) for mode in MODES}, given.repeats
        )
    sizes = {str(size): figures(blocks, size, given) for size in given.bytes}
    print(json.dumps({"sizes": sizes, "given": vars(given)}))


def block(network: NamespaceNetwork, mode: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """What each host said."""
    addresses = ",".join(network.address(host) for host in network.hosts)
    return said_on_hosts(
        network, TASK, lambda rank: (mode, addresses, rank, given.reduces, *given.bytes), BLOCK_SECONDS
    )


def figures(
    blocks: Mapping[str, Sequence[Sequence[dict[str, Any]]]], size: int, given: argparse.Namespace
) -> dict[str, object]:
    """Of one size: the bound, and of each mode's blocks seconds, and those of all hosts' processors."""
    bound = wire_seconds([2 * (given.hosts - 1) * size // given.hosts], given.rate)
    of_size = {mode: [[host[str(size)] for host in one] for one in blocks[mode]] for mode in MODES}
    return {
        "bound_seconds": bound,
        "median_seconds_of_blocks": {
            mode: [statistics.median(one[0]["seconds"]) for one in of_mode]
            for mode, of_mode in of_size.items()
        },
        "processor_seconds_of_blocks": {
            mode: [sum(host["processor_seconds"] for host in one) for one in of_mode]
            for mode, of_mode in of_size.items()
        },
    }


if __name__ == "__main__":
    main()
