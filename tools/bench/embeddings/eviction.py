"""How often a table of limited rows has the row of an id: by LRU, LFU and the score of Sven's Eq. 6.3.

All remember what as many evicted ids were worth as there are rows. "usual" is LFU as other tables have it, which
forget how often an id came with its row. "faster" is the score with a decay of 0.05 in place of 0.02: it forgets
sooner.

Ids come by a power law. Without drift it is the same all the time; "swap" exchanges the places of 1 % of the ids
each five batches; "shift" deals the hottest quarter anew each 100 batches. A figure is the share of ids, in per
cent, that had a row when their batch came. Behind each batch the table is cut to its capacity. Beside them is a
ceiling: the same of a table that is told by what law the next ids are drawn, drift included, and keeps those that
are likeliest, of all that have a row. Who is not told has to learn the law from the ids. Seeded: two runs print the
same.

    tools/bench/embeddings/eviction.py                     five seeds, 100,000 ids, 300 batches of 8192
    tools/bench/embeddings/eviction.py --seeds 1 --json
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np

from tfwave.kept.policies import LFU, LRU, Policy, Score
from tfwave.kept.residents import NONE, Residents

POLICIES: dict[str, Policy] = {"lru": LRU(), "lfu": LFU(), "score": Score(), "faster": Score(decay=0.05)}
USUAL, CEILING = "usual", "ceiling"
OTHERS = ("lru", "lfu", USUAL)
DRIFTS = ("none", "swap", "shift")
_ZIPF = 1.05
_WARM = 50
"""Batches that are not counted."""


class Told:
    """The ids that have a row in a table that is told the law."""

    def __init__(self, capacity: int, ids: int) -> None:
        self._capacity, self._here = capacity, np.zeros(ids, bool)

    def hits(self, ids: Any, likeliest: Any) -> int:
        """How many of a batch's ids have a row; `likeliest` are all ids, by the law of this batch."""
        kept = likeliest[self._here[likeliest]][: self._capacity]
        self._here[:] = False
        self._here[kept] = True
        found = int(self._here[ids].sum())
        self._here[ids] = True
        return found


class Usual:
    """The ids that have a row by LFU, where an id is counted only while it has one."""

    def __init__(self, capacity: int, ids: int) -> None:
        self._capacity, self._counts = capacity, np.zeros(ids, np.int64)

    def hits(self, ids: Any) -> int:
        """How many of a batch's ids have a row."""
        found = int((self._counts[ids] > 0).sum())
        np.add.at(self._counts, ids, 1)
        self._counts[np.argsort(-self._counts, kind="stable")[self._capacity :]] = 0
        return found


def batches(drift: str, seed: int, asked: argparse.Namespace) -> Iterator[tuple[Any, Any]]:
    """Of ids; beside each all ids, the likeliest first."""
    random, vocabulary = np.random.default_rng(seed), asked.ids
    shares = np.cumsum(1 / np.arange(1, vocabulary + 1) ** _ZIPF)
    order = random.permutation(vocabulary)
    for step in range(asked.batches):
        if drift == "swap" and step % 5 == 4:
            some = random.choice(vocabulary, vocabulary // 100, replace=False)
            order[some] = order[random.permutation(some)]
        if drift == "shift" and step % 100 == 99:
            order[: vocabulary // 4] = random.permutation(order[: vocabulary // 4])
        yield order[np.searchsorted(shares / shares[-1], random.random(asked.batch))], order


def hit_rates(drift: str, seed: int, capacity: int, asked: argparse.Namespace) -> dict[str, float]:
    """In per cent, by policy and of the ceiling, on the same batches."""
    tables = {name: Residents(capacity + asked.batch, policy) for name, policy in POLICIES.items()}
    told, usual = Told(capacity, asked.ids), Usual(capacity, asked.ids)
    hits, total = dict.fromkeys((*tables, USUAL, CEILING), 0), 0
    for step, (ids, likeliest) in enumerate(batches(drift, seed, asked)):
        total += len(ids) * (step >= _WARM)
        hits[CEILING] += told.hits(ids, likeliest) * (step >= _WARM)
        hits[USUAL] += usual.hits(ids) * (step >= _WARM)
        for name, table in tables.items():
            hits[name] += int((table.known(ids) != NONE).sum()) * (step >= _WARM)
            table.rows_of(ids)
            table.evict(keep=capacity)
    return {name: 100 * count / total for name, count in hits.items()}


def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each drift and capacity: means over seeds, and the least lead of the score in any."""
    rows: list[dict[str, Any]] = []
    for drift in DRIFTS:
        for capacity in asked.capacities:
            found = [hit_rates(drift, seed, capacity, asked) for seed in range(asked.seeds)]
            leads = {o: min(one["score"] - one[o] for one in found) for o in OTHERS}
            means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
            rows.append({"drift": drift, "capacity": capacity, **means, "least_lead": leads})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ids", type=int, default=100_000, help="how many there are")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--capacities", type=int, nargs="+", default=[1000, 5000, 20000], help="rows")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = measure(asked)
    if asked.json:
        print(json.dumps(rows, indent=1))
        return
    print("drift  capacity    lru  usual    lfu  score  faster  ceiling   least lead over lru  usual    lfu")
    for row in rows:
        lead = row["least_lead"]
        print(
            f"{row['drift']:6s} {row['capacity']:8d} {row['lru']:6.1f} {row[USUAL]:6.1f} {row['lfu']:6.1f}"
            f" {row['score']:6.1f} {row['faster']:7.1f} {row[CEILING]:8.1f}"
            f"   {lead['lru']:19.1f} {lead[USUAL]:6.1f} {lead['lfu']:6.1f}"
        )


if __name__ == "__main__":
    main()
