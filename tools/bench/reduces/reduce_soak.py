"""Members of reduces that are killed at random moments, and replaced, also while they join.

Then each gradient of those that live must be in the sums once, of the others a first part of theirs, all must have
the same bits. The first sum after a kill may have been made before; at the second one the ring is formed anew.

    tools/bench/reduces/reduce_soak.py --kills 200
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.reduce.service import Coordinator

TASK = Path(__file__).with_name("reduce_soak_task.py")
SPARES = 2
"""So many are started ahead, and wait to be told to join."""
LONGEST_STEP = 0.006
MOST_BETWEEN = 0.3
"""Seconds between a member's start and a kill."""


class Process:
    """A member, from its start to its end."""

    def __init__(self, place: int, address: str, folder: Path, given: argparse.Namespace) -> None:
        probes = "all" if given.probes == "all" else int(given.probes)
        options = {"rank": place % given.members, "workers": given.members, "coordinator": address}
        task = {
            "place": place,
            "places": given.members + given.kills + SPARES,
            "moments": str(folder / str(place)),
            "longest_step": LONGEST_STEP,
            "options": {**options, "probes": probes},
        }
        self.place = place
        self._moments = folder / str(place)
        self._process = subprocess.Popen(
            [sys.executable, str(TASK), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._has_joined = False

    def join(self) -> None:
        """Tell it to."""
        assert self._process.stdin
        self._process.stdin.write("join\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        """Until it has joined."""
        assert self._process.stdout
        if not self._has_joined and self._process.stdout.readline() != "joined\n":
            sys.exit(f"member {self.place} has not joined")
        self._has_joined = True

    def kill(self) -> float:
        """When that was."""
        at = time.monotonic()
        self._process.kill()
        self._process.communicate()
        return at

    def taken(self) -> Any:
        """When it took each sum."""
        return np.fromfile(self._moments) if self._moments.exists() else np.empty(0)

    def result(self) -> dict[str, Any]:
        """What it has, after it was told to end."""
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def tell_to_end(self) -> None:
        """By the end of its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.stdin = None


def main() -> None:
    """Kill, compare, and print figures as JSON; exit code 1 if a gradient is lost or doubled, or bits differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--probes", default="2", help="a number, or all")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder, Coordinator() as coordinator:
        started: list[Process] = []

        def start() -> Process:
            started.append(Process(len(started), coordinator.address, Path(folder), given))
            stack.callback(started[-1].kill)
            return started[-1]

        live = [start() for _ in range(given.members)]
        spares = [start() for _ in range(SPARES)]
        for process in live:
            process.join()
        for process in live:
            process.wait()
        chance, kills = random.Random(given.seed), list[tuple[float, Process]]()
        for _ in range(given.kills):
            victim = chance.choice(live)
            if victim is not live[-1]:
                live[-1].wait()
            time.sleep(chance.uniform(0, MOST_BETWEEN))
            kills.append((victim.kill(), victim))
            live.remove(victim)
            live.append(spares.pop(0))
            live[-1].join()
            spares.append(start())
        live[-1].wait()
        for process in live:
            process.tell_to_end()
        results = {process.place: process.result() for process in live}
        waits = [re_formed(at, [one for one in started if one is not victim]) for at, victim in kills]
    faults = faults_of(results)
    print(json.dumps({"faults": faults, "re_formed": figures(waits), "given": vars(given)}))
    sys.exit(bool(faults))


def faults_of(results: dict[int, dict[str, Any]]) -> list[str]:
    """What is in the sums of those that live but once."""
    totals = [result["total"] for result in results.values()]
    faults = [] if all(total == totals[0] for total in totals) else ["the members' sums differ"]
    for place, (count, first, second) in enumerate(totals[0]):
        if (first, second) != (count * (count + 1) / 2, count * (count + 1) * (2 * count + 1) / 6):
            faults.append(f"member {place}: a gradient is lost or doubled")
        if place in results and results[place]["made"] != count:
            faults.append(f"member {place}: {count} of {results[place]['made']} gradients")
    return faults


def re_formed(kill: float, others: Sequence[Process]) -> float:
    """Seconds from a kill until one of the others took a second sum."""
    seconds = (taken[taken > kill] for taken in (other.taken() for other in others))
    return min(float(after[1]) for after in seconds if len(after) > 1) - kill


def figures(waits: Sequence[float]) -> dict[str, float]:
    """Of all kills, in seconds."""
    return {
        "median_seconds": statistics.median(waits),
        "most_seconds": max(waits),
        "over_a_second": sum(wait > 1 for wait in waits),
    }


if __name__ == "__main__":
    main()
