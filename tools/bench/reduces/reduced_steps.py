"""Training steps whose gradients are reduced in buckets while others are computed, against as one piece: root.

A Keras 3 model of equal dense layers on hosts of their own with a card of a set rate, and `PartialReduce("all")`.
"alone" is a step without reduces, while the other hosts compute, too; the bound is the longer of that and the wire.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo.network import NamespaceNetwork
from tools.bench.hosts import said_on_hosts
from tools.bench.interleaved import paired_ratio, run_interleaved, wire_seconds

TASK = Path(__file__).with_name("reduced_steps_task.py")
REDUCED = ("buckets", "whole")
MODES = (*REDUCED, "alone")
BLOCK_SECONDS = 300


def main() -> None:
    """Print seconds of each mode's steps, and the bound, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each card")
    parser.add_argument("--width", type=int, default=1024, help="of a layer")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=12, help="in a block, after three more")
    parser.add_argument("--repeats", type=int, default=4)
    given = parser.parse_args()
    with NamespaceNetwork([f"h{i}" for i in range(given.hosts)], given.rate) as network:
        blocks = run_interleaved(
            {mode: lambda mode=mode: block(network, mode, given) for mode in MODES}, given.repeats
        )
    medians = {
        mode: [statistics.median(one["seconds"]) for one in of_mode] for mode, of_mode in blocks.items()
    }
    if given.hosts == 2 and len({one["weights"] for mode in REDUCED for one in blocks[mode]}) > 1:
        sys.exit("the weights of two modes differ, though a sum of two is the same in any order")
    wire = wire_seconds([2 * (given.hosts - 1) * blocks["whole"][0]["bytes"] // given.hosts], given.rate)
    print(
        json.dumps(
            {
                "median_seconds_of_blocks": medians,
                "wire_seconds": wire,
                "bound_seconds": max(wire, statistics.median(medians["alone"])),
                "sooner_than_whole": paired_ratio(medians["whole"], medians["buckets"]),
                "given": vars(given),
            }
        )
    )


def block(network: NamespaceNetwork, mode: str, given: argparse.Namespace) -> dict[str, Any]:
    """What the first host said."""
    addresses = ",".join(network.address(host) for host in network.hosts)
    numbers = (given.width, given.layers, given.batch, given.steps)
    said = said_on_hosts(network, TASK, lambda rank: (mode, addresses, rank, *numbers), BLOCK_SECONDS)
    if mode in REDUCED and len({one["weights"] for one in said}) > 1:
        sys.exit(f"{mode}: the hosts' weights differ")
    return said[0]


if __name__ == "__main__":
    main()
