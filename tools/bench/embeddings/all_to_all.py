"""All-to-alls of tfwave's against TensorFlow's collective: hosts with a card of a set rate (root), or loopback.

Each rank has an array whose parts go to the ranks. Modes take turns:

    uneven      tfwave's, as rows of a table whose first owners have those that come most: of n ranks the first
                gets n parts of each array, the next n - 1, and so on
    even        tfwave's, to each rank as much
    tensorflow  `CollectiveAllToAllV2`, which takes even splits only

An exchange begins at the first rank's begin and ends when the last has all its splits. The bound is what the
busiest card must send or receive. Beside that one rank comes late, in every second exchange:

    uneven      all exchange one row with each. `among` is how much longer the others then take for an exchange of
                their arrays among themselves, which is under way together with the one that waits for the late
                rank; `after` is how long they wait for that, when the late rank has come.
    even, tensorflow
                it has as much as the others; `after` is as above, to be compared with an exchange in time.

    tools/bench/embeddings/all_to_all.py --ranks 4                 1 Gbit/s a card
    tools/bench/embeddings/all_to_all.py --ranks 4 --rate 0        loopback
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.demo.network import LoopbackNetwork, NamespaceNetwork, Network
from tools.bench.embeddings.all_to_all_task import EVEN, MODES, UNEVEN, Exchange, counts_of
from tools.bench.hosts import said_on_hosts
from tools.bench.interleaved import wire_seconds

TASK = Path(__file__).with_name("all_to_all_task.py")
SECONDS = 900
UNUSED_RATE = 1e9
"""Loopback keeps none."""


def main() -> None:
    """Print seconds of each mode, the bounds, and what a late rank costs, as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1e9, help="bits per second of each card; 0: loopback")
    parser.add_argument("--bytes", type=int, default=1 << 24, help="of each rank's array")
    parser.add_argument("--exchanges", type=int, default=8, help="in a block, after one more")
    parser.add_argument("--repeats", type=int, default=4, help="blocks of each mode")
    parser.add_argument("--late", type=float, default=0.6, help="seconds that a rank comes late")
    given = parser.parse_args()
    hosts = [f"h{i}" for i in range(given.ranks)]
    kind = NamespaceNetwork if given.rate else LoopbackNetwork
    with kind(hosts, given.rate or UNUSED_RATE) as network:
        said = ran(network, given)
    print(json.dumps({"given": vars(given), "modes": modes(said, given), "late": late(said)}, indent=1))


def ran(network: Network, given: argparse.Namespace) -> list[dict[str, Any]]:
    """What each rank said."""
    addresses = [
        [f"{network.address(host)}:{port}" for port in network.free_ports(host, 2)] for host in network.hosts
    ]
    settings = {key: getattr(given, key) for key in ("bytes", "exchanges", "repeats", "late")}
    return said_on_hosts(
        network, TASK, lambda rank: (rank, json.dumps(addresses), json.dumps(settings)), SECONDS
    )


def modes(said: Sequence[dict[str, Any]], given: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Of each mode seconds of an exchange, and how they compare with the bound and with TensorFlow's."""
    seconds = {
        mode: [
            [spanned([Exchange(*one) for one in ranks]) for ranks in zip(*blocks, strict=True)]
            for blocks in zip(*(host["in_time"][mode] for host in said), strict=True)
        ]
        for mode in MODES
    }
    return {mode: of_mode(own, bound(mode, given)) for mode, own in seconds.items()}


def spanned(ranks: Sequence[Exchange]) -> float:
    """From the first rank's begin to the last one's end."""
    return max(rank.end for rank in ranks) - min(rank.begin for rank in ranks)


def bound(mode: str, given: argparse.Namespace) -> float | None:
    """What the busiest card takes; None on loopback."""
    if not given.rate:
        return None
    parts = [counts_of(UNEVEN if mode == UNEVEN else EVEN, given.ranks, given.bytes)] * given.ranks
    sent = [sum(row) - row[rank] for rank, row in enumerate(parts)]
    came = [sum(row[rank] for k, row in enumerate(parts) if k != rank) for rank in range(given.ranks)]
    return wire_seconds([max(*sent, *came)], given.rate)


def of_mode(blocks: Sequence[Sequence[float]], wire: float | None) -> dict[str, object]:
    """As `interleaved.figures`, where a mode has a bound of its own."""
    seconds = [one for block in blocks for one in block]
    found: dict[str, object] = {
        "median_seconds": statistics.median(seconds),
        "stdev_seconds": statistics.stdev(seconds),
        "blocks_seconds": [statistics.median(block) for block in blocks],
    }
    if wire is not None:
        found |= {"bound_seconds": wire, "over_wire": statistics.median(seconds) / wire}
    return found


def late(said: Sequence[dict[str, Any]]) -> dict[str, dict[str, object]]:
    """What a late rank, the last, costs the others, and what it waits itself, in each mode; medians and ends."""
    found: dict[str, dict[str, object]] = {}
    for mode in MODES:
        *others, own = ([[Exchange(*one) for one in pair] for pair in host["late"][mode]] for host in said)
        after = [max(rank[k][1].end for rank in others) - own[k][1].begin for k in range(len(own))]
        found[mode] = {
            "after_seconds": statistics.median(after),
            "after_of_exchanges_seconds": after,
            "late_rank_seconds": statistics.median(pair[1].end - pair[1].begin for pair in own),
        }
        if mode == UNEVEN:
            among = [
                [max(rank[k][late].among - rank[k][late].begin for rank in others) for late in (0, 1)]
                for k in range(len(own))
            ]
            costs = [behind - in_time for in_time, behind in among]
            found[mode] |= {
                "among_in_time_seconds": statistics.median(in_time for in_time, _ in among),
                "among_cost_seconds": statistics.median(costs),
                "among_costs_seconds": costs,
            }
    return found


if __name__ == "__main__":
    main()
