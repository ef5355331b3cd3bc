"""A process that keeps a ledger, for tests of reduces: `python -m tests.unit.reduce.reduce_member JSON`.

Its gradient of step j has the number j + 1 in the place of its own for step j, and zeros. It goes on until its
standard input ends, and then prints the sum of all updates that it applied, as hexadecimal bytes.
"""

import json
import os
import random
import select
import signal
import sys
import threading
import time

import numpy as np

from tfwave.errors import TfwaveError
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options

MOST_STEPS = 3000


class Ledger:
    def __init__(self, slots: int) -> None:
        self.total = np.zeros(slots * MOST_STEPS)

    def state(self) -> bytes:
        return self.total.tobytes()

    def load(self, state: bytes | None) -> None:
        if state is not None:
            self.total = np.frombuffer(state).copy()


def main(given: dict) -> None:
    chance, ledger = random.Random(given["seed"]), Ledger(given["slots"])
    options = Options(**given["options"], local="sum", staleness=1 << 30)
    made = 0
    with Member(options, len(ledger.total), np.float64) as member:
        ledger.load(member.join(ledger.state()))
        say("joined")
        while made < MOST_STEPS and not told_to_end():
            if made == given.get("harm_step"):
                _harm_soon(getattr(signal, given["harm"]), chance.uniform(0, 0.01))
            time.sleep(chance.uniform(0, given.get("longest_step", 0.006)))
            gradient = np.zeros(len(ledger.total))
            gradient[given["slot"] * MOST_STEPS + made] = made + 1
            for update in member.exchange(gradient):
                ledger.total += update.values
            member.serve(ledger.state)
            made += 1
            if made == 20:
                say("stepped")
        for update in member.drain(ledger.state):
            ledger.total += update.values
        say(json.dumps({"made": made, "total": ledger.state().hex(), **vars(member.figures)}))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _harm_soon(number: int, seconds: float) -> None:
    """The moment falls anywhere, also inside a reduce."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except TfwaveError as error:
        sys.exit(str(error))
