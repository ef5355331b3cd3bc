"""One member of reduce_soak.py: `reduce_soak_task.py JSON`; joins at the first line of its input.

Its gradient number j has 1, j and j squared in the place of its own, and zeros: what comes of them tells whether
each was summed once. It comes in two buckets, which with "all" may go one by one. When each sum was taken is noted.
At the end of its input it drains, and prints what it has.
"""

import json
import os
import random
import select
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np

from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.update import Update


class Ledger:
    """Sums of all that was applied, and a file of when each was taken."""

    def __init__(self, places: int, moments: str) -> None:
        self.total = np.zeros((places, 3))
        self._moments = os.open(moments, os.O_WRONLY | os.O_CREAT)

    def load(self, state: bytes | None) -> None:
        """Begin with another member's."""
        if state is not None:
            self.total = np.frombuffer(state).reshape(-1, 3).copy()

    def state(self) -> bytes:
        """As `load` takes it."""
        return self.total.tobytes()

    def add(self, update: Update) -> None:
        """Apply one sum."""
        self.total += update.values.reshape(-1, 3)
        os.write(self._moments, np.float64(time.monotonic()).tobytes())


def main() -> None:
    """Take part until told to end."""
    given = json.loads(sys.argv[1])
    ledger, chance, made = Ledger(given["places"], given["moments"]), random.Random(given["place"]), 0
    options = Options(**given["options"], local="sum", staleness=1 << 30)
    sys.stdin.readline()
    half = ledger.total.size // 2
    buckets = slice(half, None), slice(half)
    with Member(options, ledger.total.size, np.float64, buckets=buckets) as member:
        ledger.load(member.join(ledger.state()))
        print("joined", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            time.sleep(chance.uniform(0, given["longest_step"] / 2))
            made += 1
            gradient = np.zeros_like(ledger.total)
            gradient[given["place"]] = 1, made, made**2
            for bucket in buckets:
                member.put(gradient.ravel()[bucket])
                time.sleep(chance.uniform(0, given["longest_step"] / 2))
            for update in member.collect():
                ledger.add(update)
            member.serve(ledger.state)
        for update in member.drain(ledger.state):
            ledger.add(update)
    print(json.dumps({"made": made, "total": ledger.total.tolist()}), flush=True)


if __name__ == "__main__":
    main()
