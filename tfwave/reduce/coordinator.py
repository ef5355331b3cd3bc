"""Who reduces with whom, when, and whether what they summed counts: RNA's scheduler (sec. 5.2), with deaths.

1. A reduce goes when `rules.departure` says so. All members take part in the ring; who has no gradient adds zeros.
2. It counts when every member that is left has the sum, and then all of them apply it. Else all take back what
   they gave: a ring that broke at one member may have ended at another.
3. Who does not answer in time is out: a process that was stopped sends no end of file.
4. Who comes late gets the weights of a member, and each sum from then on.
5. Who takes no sums for long has the others wait once it keeps as many as it may.
6. Where a member has what other groups did (sec. 5.2), the next reduce passes that on, and takes no gradients.
"""

import logging
import queue
import random
import secrets
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tfwave.proto.reduce_pb2 import Form, Give, Go, Halt, Hello, Order, Report, Verdict, Welcome
from tfwave.reduce.arrivals import KEY_BYTES
from tfwave.reduce.peer import Peer
from tfwave.reduce.rules import Pace, departure

WARM_UP = 5
"""The first reduces wait for all: from their steps it is told whether there are stragglers."""
MOST_FAILURES = 3
"""After so many reduces in a row that broke, though nobody had left, the members cannot reach each other."""

LOOKS = 3
"""So often in each deadline it is looked for members that say nothing."""

Inbox = queue.SimpleQueue[tuple[Peer | None, Report | None]]
"""What peers say; a peer without a report is gone, and no peer means: stop."""

_FULL = (
    "it keeps as many sums as it may, and took none for so long that the others went on: raise patience, or have "
    "validations and checkpoints take less time"
)
_SILENT = "it gave no gradient for so long that the others went on: raise patience"
_log = logging.getLogger("tfwave")


class Stopped(Exception):
    """The coordinator is to end."""


class Crew(NamedTuple):
    """How many workers a training began with, and how many were there at its end."""

    workers: int
    left: int

    def awaited(self, hello: Hello) -> int:
        """Of the next training: if it is of as many, not those that were lost; but all, if nobody was left."""
        return self.left if self.left and self.workers == hello.workers else hello.workers


NOBODY = Crew(0, 0)


class Session:
    """One training, from the first member's arrival until all are drained or gone."""

    def __init__(self, inbox: Inbox, before: Crew = NOBODY, seed: int = 0) -> None:
        """Coordinate those who say hello in `inbox`; `before` are those of an earlier session."""
        self._inbox = inbox
        self._before = before
        self._chance = random.Random(seed)  # noqa: S311
        self._pace = Pace()
        self.members: list[Peer] = []
        self._arrived: list[Peer] = []
        self._owed: dict[Peer, tuple[Give, Peer]] = {}
        self._hello: Hello | None = None
        self._changed = False
        self._next_look = 0.0
        self._version = self._attempt = self._aborted = self._failures = 0

    def run(self) -> Crew:
        """Coordinate to the end; who was there.

        Raises:
            Stopped: as asked for.
        """
        reason = "the coordinator has ended"
        try:
            hello = self._gather()
            while self._turn(hello):
                pass
            reason = ""
        finally:
            for peer in (*self.members, *self._arrived):
                peer.end(reason)
        return Crew(hello.workers, min(hello.workers, len(self.members)))

    def _gather(self) -> Hello:
        hello, end = None, None
        while hello is None or len(self._arrived) < self._before.awaited(hello):
            came = self._take(end)
            if not self._arrived:
                self._hello = None  # who said it has left: others may come with other terms
            if self._hello is not hello:
                hello = self._hello
                end = None if hello is None else time.monotonic() + hello.patience_seconds
            if hello is not None and not came:
                _log.warning(
                    "tfwave: %d of %d workers came: reduces begin without the others",
                    len(self._arrived),
                    hello.workers,
                )
                break
        return hello

    def _turn(self, hello: Hello) -> bool:
        """One reduce, or one change of the ring; False if all is done."""
        if self._changed or self._arrived:
            self._admit()
        if not self.members or self._is_over():
            return False
        if self._may_go(hello):
            self._reduce(hello)
        return True

    def _is_over(self) -> bool:
        return all(peer.has_state and not peer.may_give for peer in self.members)

    def _admit(self) -> None:
        """Take in who came, form the ring anew, and see to it that who lacks the weights gets them."""
        first = None if self.members else min(self._arrived, key=lambda peer: peer.place, default=None)
        for peer in self._arrived:
            key = b"" if peer is first else secrets.token_bytes(KEY_BYTES)
            peer.tell(Order(welcome=Welcome(version=self._version, state_key=key)))
            if peer is first:
                peer.has_state = True
            else:
                give = Give(address=peer.hello.address, key=key, version=self._version)
                self._owed[peer] = give, peer  # itself: nobody yet
        self.members = sorted(self.members + self._arrived, key=lambda peer: peer.place)
        self._arrived, self._changed = [], False
        self._find_donors()
        key = secrets.token_bytes(KEY_BYTES)
        for index, peer in enumerate(self.members):
            right = self.members[(index + 1) % len(self.members)].hello.address
            peer.tell(Order(form=Form(key=key, index=index, members=len(self.members), next=right)))

    def _find_donors(self) -> None:
        self._owed = {peer: owed for peer, owed in self._owed.items() if not peer.has_state}
        donor = next((peer for peer in self.members if peer.has_state), None)
        for peer, (give, giver) in list(self._owed.items()):
            if donor is None:
                self._evict(peer, "the last member that had the weights is gone: start the training again")
            elif giver not in self.members or not giver.has_state:
                self._owed[peer] = give, donor
                donor.tell(Order(give=give))

    def _may_go(self, hello: Hello) -> bool:
        """Wait for a reduce to go; False if the ring has to be formed first, or all is done."""
        begin = time.monotonic()
        patience = begin + hello.patience_seconds
        everybody = hello.probes == 0 or self._version < WARM_UP
        probed = None if everybody else self._probe(hello.probes)
        grace = 0.0 if everybody else min(self._pace.terms().grace, hello.patience_seconds)
        while not (self._changed or self._arrived or self._is_over()):
            ready = {peer.number: peer.ready_since for peer in self.members if self._counts(peer)}
            full = any(peer.full for peer in self.members)
            if not full and self._bringer() is not None:
                return True
            go = departure(ready, probed, begin, grace) if ready and not full else None
            if go is not None and go <= time.monotonic():
                return True
            self._look_after(hello)
            self._take(min(self._next_look, patience if go is None else go))
            if go is None and time.monotonic() >= patience:
                self._lose_patience()
                patience = time.monotonic() + hello.patience_seconds
        return False

    def _counts(self, peer: Peer) -> bool:
        """Whether a reduce may have to wait for it: the first one does until all have the weights."""
        return peer.may_give or (self._version == 0 and not peer.has_state)

    def _look_after(self, hello: Hello) -> None:
        """Evict who has said nothing for the deadline; a time in which this process did not run does not count."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + hello.deadline_seconds / LOOKS
        for peer in list(self.members):
            peer.silent += 1
            if peer.silent > LOOKS:
                self._evict_silent(peer, hello)

    def _evict_silent(self, peer: Peer, hello: Hello) -> None:
        self._evict(peer, f"it did not answer for {hello.deadline_seconds:g} s: start it again")

    def _probe(self, count: int) -> set[int]:
        may = [peer.number for peer in self.members if peer.may_give]
        return set(self._chance.sample(may, min(count, len(may))))

    def _lose_patience(self) -> None:
        """Evict who takes no sums, or else who gives nothing, if anyone waits for it."""
        full = [peer for peer in self.members if peer.full]
        silent = [
            peer
            for peer in self.members
            if not peer.has_state or (peer.may_give and peer.ready_since is None)
        ]
        if all(peer in full or peer in silent for peer in self.members):
            return
        for peer in full or silent:
            self._evict(peer, _FULL if full else _SILENT)

    def _reduce(self, hello: Hello) -> None:
        self._attempt += 1
        members = list(self.members)
        now = time.monotonic()
        waited = {peer: now - peer.ready_since for peer in members if peer.ready_since is not None}
        bringer = self._bringer()
        index = 0 if bringer is None else 1 + members.index(bringer)
        for peer in members:
            peer.tell(Order(go=Go(attempt=self._attempt, version=self._version + 1, bringer=index)))
        end: float | None = None
        while not (
            self._changed or all(map(self._has_ended, members)) or any(map(self._has_failed, members))
        ):
            if not self._take(end):
                self._changed = True
            if end is None and any(map(self._has_ended, members)):
                end = time.monotonic() + hello.deadline_seconds
        if self._changed or not all(peer.done for peer in members):
            self._halt(hello, members)
        self._settle(hello, waited, bringer)

    def _bringer(self) -> Peer | None:
        """Who has what other groups did."""
        return next((peer for peer in self.members if peer.brings), None)

    def _settle(self, hello: Hello, waited: Mapping[Peer, float], bringer: Peer | None) -> None:
        """Say whether the reduce counts; `waited` is for how long who had a gradient when it went.

        `bringer` gave what other groups did; None: it was one of gradients.
        """
        commit = bool(self.members) and all(self._has_ended(peer) and peer.done for peer in self.members)
        self._version += commit
        order = Verdict(attempt=self._attempt, commit=commit, ahead=self._ahead(hello), joined=self._joined())
        ticked = self.members if commit and bringer is None else ()
        told = Verdict(ticks=[peer.tick(waited.get(peer, 0.0)) for peer in ticked])
        told.MergeFrom(order)
        if commit:
            self._failures = 0
            if bringer is not None:
                bringer.settled = bringer.visit
        else:
            self._aborted = self._attempt
        for peer in self.members:
            if not commit:
                peer.has_back()
            peer.tell(Order(verdict=told if peer.hello.ticks else order))

    def _has_ended(self, peer: Peer) -> bool:
        return peer.attempt == self._attempt

    def _has_failed(self, peer: Peer) -> bool:
        return self._has_ended(peer) and not peer.done

    def _halt(self, hello: Hello, members: list[Peer]) -> None:
        """Break the reduce everywhere, hear from everybody how far it came, and evict who does not say."""
        trouble = next((peer.trouble for peer in members if peer.trouble), "no answer")
        for peer in self.members:
            peer.halted = False
            peer.tell(Order(halt=Halt()))
        end = time.monotonic() + hello.deadline_seconds
        while not all(peer.halted for peer in self.members):
            if not self._take(end):
                break
        for peer in [peer for peer in self.members if not peer.halted]:
            self._evict_silent(peer, hello)
        self._changed = True
        self._failures = self._failures + 1 if len(self.members) == len(members) else 0
        if self._failures >= MOST_FAILURES:
            for peer in list(self.members):
                self._evict(peer, f"{MOST_FAILURES} reduces in a row broke, the last by: {trouble}")

    def _ahead(self, hello: Hello) -> int:
        if not hello.probes:
            return 0
        return 1 if self._version < WARM_UP else self._pace.terms().ahead

    def _joined(self) -> float:
        return sum(peer.gave > 0 for peer in self.members) / max(1, len(self.members))

    def _evict(self, peer: Peer, why: str) -> None:
        _log.warning("tfwave: worker %d is out of the reduces: %s", peer.hello.rank, why)
        peer.end(f"worker {peer.hello.rank} is out of the reduces: {why}")
        self._gone(peer)

    def _gone(self, peer: Peer) -> None:
        if peer in self.members:
            self.members.remove(peer)
            self._changed = True
        if peer in self._arrived:
            self._arrived.remove(peer)
        self._owed.pop(peer, None)
        self._pace.forget(peer.number)

    def _arrive(self, peer: Peer) -> None:
        """Who says hello again had lost its line before it heard anything, and is one member."""
        for before in [other for other in (*self.members, *self._arrived) if other.is_same(peer)]:
            before.end("it came again")
            self._gone(before)
        self._hello = self._hello or peer.hello
        if _terms(peer.hello) == _terms(self._hello):
            self._arrived.append(peer)
        else:
            peer.end(
                f"worker {peer.hello.rank} has another model, optimizer or options than worker "
                f"{self._hello.rank}: run the same program on all"
            )

    def _take(self, until: float | None) -> bool:
        """Take in one thing that a peer says; False if none came."""
        try:
            left = None if until is None else max(0.0, until - time.monotonic())
            peer, report = self._inbox.get(timeout=left)
        except queue.Empty:
            return False
        if peer is None:
            raise Stopped
        if report is None:
            self._gone(peer)
        elif report.HasField("hello"):
            self._arrive(peer)
        elif peer in self.members:
            peer.note(report, self._aborted)
            if report.step_seconds > 0:
                self._pace.add(peer.number, report.step_seconds)
        return True


def _terms(hello: Hello) -> tuple[object, ...]:
    return (
        hello.workers,
        hello.layout,
        hello.probes,
        hello.deadline_seconds,
        hello.patience_seconds,
    )


def coordinate(inbox: Inbox, on_end: Callable[[], None], *, once: bool = False) -> None:
    """Coordinate one session after the other, or the first one only, until told to stop."""
    try:
        crew = Session(inbox).run()
        while not once:
            crew = Session(inbox, crew).run()
    except Stopped:
        return
    finally:
        on_end()
