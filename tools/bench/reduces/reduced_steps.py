"""Training steps whose gradients are reduced in buckets while others are computed, against as one piece: root.

A Keras 3 model of equal dense layers on hosts of their own with a card of a set rate, and `PartialReduce("all")`.
"alone" is a step without reduces, while the other hosts compute, too; the bound is the longer of that and the wire.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo.network import NamespaceNetwork
from tools.bench.interleaved import paired_ratio, run_interleaved, wire_seconds

TASK = Path(__file__).with_name("reduced_steps_task.py")
MODES = ("buckets", "whole", "alone")
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
    if len({one["weights"] for mode in ("buckets", "whole") for one in blocks[mode]}) > given.hosts - 1:
        sys.exit("the weights differ")
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
    tasks = [
        subprocess.Popen(
            [
                *network.command_prefix(host),
                *(sys.executable, str(TASK), mode, addresses, str(rank), *map(str, numbers)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank, host in enumerate(network.hosts)
    ]
    try:
        said = [task.communicate(timeout=BLOCK_SECONDS)[0] for task in tasks]
    finally:
        for task in tasks:
            task.kill()
    return json.loads(said[0])


if __name__ == "__main__":
    main()
