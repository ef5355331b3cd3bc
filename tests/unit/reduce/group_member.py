"""A worker of a group that keeps a ledger: `python -m tests.unit.reduce.group_member JSON`; as `reduce_member`.

Its gradient of step j has the number j + 1 in the place of its own for step j, and zeros. What it prints at its end
is what all groups did.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np

from tests.unit.reduce.reduce_member import say, told_to_end
from tfwave.distribute.other_groups import OtherGroups
from tfwave.errors import TfwaveError
from tfwave.reduce.member import Member
from tfwave.reduce.place import Place
from tfwave.reduce.service import Coordinator
from tfwave.reduce.update import Update

MOST_STEPS = 3000
STEPPED = 20


class Ledger(np.ndarray[Any, np.dtype[np.float64]]):
    """As much of a variable as its values are told by."""

    def assign(self, value: Any) -> None:
        self[...] = value


class Worker:
    """A member, its ledger, and what that has of other groups."""

    def __init__(self, given: dict, stack: ExitStack) -> None:
        self._given = given
        place = Place.given(given["workers"], given["rank"]).grouped(given["groups"])
        options = place.options(**given["options"], local="sum", staleness=1 << 30)
        self._ledger = np.zeros(len(given["workers"]) * MOST_STEPS).view(Ledger)
        self._others = OtherGroups(place, options, "ledger", [self._ledger])
        if place.is_coordinator:
            stack.enter_context(Coordinator(place.listen, once=True, place=self._others.place))
        stack.callback(self._others.close)
        visit = self._others.meeting.visit
        self._member = stack.enter_context(
            Member(options, len(self._ledger), np.float64, "ledger", visit=visit)
        )

    def join(self) -> None:
        self._others.meeting.begin(self._ledger.tobytes())
        self._others.begin()
        came = self._member.join(self._state())
        if came is not None:
            self._ledger.assign(np.frombuffer(came, count=len(self._ledger)))
            self._others.go_on(np.frombuffer(came, offset=self._ledger.nbytes))

    def step(self, number: int) -> None:
        time.sleep(self._given["step_seconds"])
        gradient = np.zeros(len(self._ledger))
        gradient[self._given["rank"] * MOST_STEPS + number] = number + 1
        self._apply(self._member.exchange(gradient))
        self._member.serve(self._state)
        if self._member.is_to_meet:
            self._member.meet(self._others.own())

    def end(self) -> dict[str, Any]:
        self._apply(self._member.drain(self._state))
        own = self._others.own().tobytes().hex() if self._given.get("own") else ""
        self._others.end(self._member.handed, self._member.left)
        return {"met": self._member.figures.met, "own": own, "total": self._ledger.tobytes().hex()}

    def _apply(self, updates: Iterable[Update]) -> None:
        for update in updates:
            self._ledger[...] += self._others.step_to(update.values) if update.of_others else update.values

    def _state(self) -> bytes:
        return self._ledger.tobytes() + self._others.base.tobytes()


def main(given: dict) -> None:
    made = 0
    with ExitStack() as stack:
        worker = Worker(given, stack)
        worker.join()
        say("joined")
        while made < MOST_STEPS and not told_to_end():
            if made == given.get("kill_step"):
                os.kill(os.getpid(), signal.SIGKILL)
            worker.step(made)
            made += 1
            if made == STEPPED:
                say("stepped")
        say(json.dumps({"made": made, **worker.end()}))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except TfwaveError as error:
        sys.exit(str(error))
